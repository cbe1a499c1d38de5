"""add_rows: sums of rows that go to one place, the same bits each time; embedding_backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.rows import add_rows as reference
from pykernels.reference.rows import add_rows_budget as budget
from tests.harness import Case, Form, assert_close, assert_same_bits, caps, random_form

pytestmark = pytest.mark.gpu
COUNTS = (1, 2, 31, 32, 33, 64, 65, 90, 600, 1100)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_add_rows_of_any_layout(dev: pk.Device, dtype: str) -> None:
    """Lists shorter and longer than a piece and than pieces of pieces, few and many places, whole
    vectors or not, a place that is left out. Small integers add up exactly."""
    case = Case(dev, seed=2)
    rng = case.rng
    calls = []
    for n, count in enumerate(COUNTS * 2):
        k = (1, 3, 4, 8, 12, 7)[n % 6]
        m = int(rng.choice([1, 3, 40, 700]))
        index = rng.integers(0, m, count)
        wrong = rng.random(count) < 0.1
        index = np.where(wrong, rng.choice([-1, m, 2**31 - 1], count), index)
        forms = [random_form(rng, 2, repeats=r) if n % 3 else None for r in (True, False)]
        i = case.input(index.astype(("int32", "int64")[n % 2]), random_form(rng, 1, repeats=False))
        s = case.input(rng.integers(-99, 99, (count, k)).astype(dtype), forms[0])
        start = rng.integers(0, 9, (m, k)).astype("f4")
        skip = (None, 0, m - 1, -1, m)[n % 5]
        calls.append((s, i, case.in_place(start, forms[1]), skip))
    case.build()
    want = [reference(s.array, i.array, d.array, skip).astype("f4") for s, i, d, skip in calls]

    def run() -> None:
        for s, i, d, skip in calls:
            kernels.add_rows(s.tensor, i.tensor, d.tensor, skip=skip)
        with pytest.raises(pk.IndexRangeError, match=r"\[add_rows\] index must be in \[0, "):
            dev.sync()

    for got, expected in zip(case.run(run), want, strict=True):
        assert_same_bits(got, expected)


def test_add_rows_is_exact_enough_and_repeatable(dev: pk.Device) -> None:
    """One place takes half of all: pieces of pieces; a tree of sums, the same each time."""
    rng = np.random.default_rng(0)
    n, m, k = 9000, 50, 12
    index = np.where(rng.random(n) < 0.5, 7, rng.integers(0, m, n)).astype("i4")
    src, x = rng.normal(0, 1, (n, k)).astype("f4"), rng.normal(0, 1, (m, k)).astype("f4")
    found = []
    for _ in range(2):
        t = dev.tensor(x)
        kernels.add_rows(dev.tensor(src), dev.tensor(index), t)
        found.append(t.numpy())
    assert_close(found[0], reference(src, index, x), budget(src, index, x))
    assert_same_bits(found[0], found[1])


def test_add_rows_in_parts_and_over_a_long_grid(dev: pk.Device) -> None:
    """Rows of dst that no binding holds; what is out of range is reported once."""
    rng = np.random.default_rng(3)
    with caps(dev, max_binding=dev._context.caps.alignment + 4096, max_groups=2):
        case = Case(dev)
        index = rng.integers(0, 300, 120).astype("i4")
        index[77] = 300
        s = case.input(rng.integers(-9, 9, (120, 8)).astype("f4"))
        i = case.input(index)
        d = case.in_place(np.ones((300, 8), "f4"), Form(gap=4))
        case.build()
        want = reference(s.array, i.array, d.array).astype("f4")

        def run() -> None:
            kernels.add_rows(s.tensor, i.tensor, d.tensor)
            with pytest.raises(pk.IndexRangeError, match=r"300 at position \(77,\) .*out: 1;"):
                dev.sync()

        assert_same_bits(case.run(run)[0], want)


def test_embedding_backward(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    index = rng.integers(0, 20, (4, 30))
    for dtype in ("float32", "float16"):
        dy = rng.normal(0, 1, (4, 30, 6)).astype(dtype)
        got = pk.embedding_backward(dy, index, 20)
        zeros = np.zeros((20, 6), "f4")
        flat = dy.reshape(-1, 6), index.reshape(-1), zeros
        assert got.dtype == dtype
        assert_close(got, reference(*flat), budget(*flat))
        padded = pk.embedding_backward(dev.tensor(dy), index, 20, padding_idx=-20).numpy()
        assert_same_bits(padded[1:], got[1:])
        assert not padded[0].any() and got[0].any()
        out = dev.full((20, 6), np.nan, dtype)
        assert pk.embedding_backward(dev.tensor(dy), index, 20, out=out) is out
        assert_same_bits(out.numpy(), got)
    square = dev.tensor(rng.normal(0, 1, (5, 3)).astype("f4"))
    want = square.numpy()[::-1]
    pk.embedding_backward(square, np.arange(5)[::-1].copy(), 5, out=square)
    assert_same_bits(square.numpy(), want)
    assert pk.embedding_backward(dev.zeros((0, 3)), dev.zeros(0, "int32"), 4).numpy().sum() == 0
    assert pk.embedding_backward(dev.zeros(3), dev.tensor(np.int32(1)), 2).shape == (2, 3)


def test_add_rows_rejects(dev: pk.Device) -> None:
    src, index, dst = dev.zeros((4, 3)), dev.zeros(4, "int32"), dev.zeros((5, 3))
    shapes = r"\[add_rows\] src, index and dst must have shapes \(n, k\)"
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: kernels.add_rows(src, index[1:], dst), pk.ShapeError, shapes),
        (lambda: kernels.add_rows(src, index, dst[:, 1:]), pk.ShapeError, shapes),
        (lambda: kernels.add_rows(src[0], index, dst), pk.ShapeError, shapes),
        (lambda: kernels.add_rows(src, index, dst.astype("float16")), pk.DTypeError, "dst must be"),
        (lambda: pk.embedding_backward(src, index[1:], 5), pk.ShapeError, "dy must have the shape"),
        (lambda: pk.embedding_backward(src, index, 5, 5), pk.ArgumentError, r"in \[-5, 5\) but"),
        (lambda: pk.embedding_backward(src, index, -5), pk.ShapeError, "sizes must be"),
        (lambda: pk.embedding_backward(src, index, 5, out=src), pk.ShapeError, "out must have"),
        (lambda: pk.embedding_backward(index, index, 5), pk.DTypeError, "dy must be float32, "),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    kernels.add_rows(src[:, :0], index, dst[:, :0])
    kernels.add_rows(src[:0], index[:0], dst)
    kernels.add_rows(src, index, dev.zeros((0, 3)))
    with pytest.raises(pk.IndexRangeError, match=r"\[add_rows\] .* in \[0, 0\) .*out: 4"):
        dev.sync()
    pk.embedding_backward(src, index + 5, 5, check=False)
    dev.sync()
