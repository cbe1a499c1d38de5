"""scatter_add: sums of all that goes to one place, the same bits each time."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.plans.move.scatter_add import plan
from pykernels.reference.move import scatter_add as reference
from pykernels.steps import Scratch
from pykernels.tensors.layout import View, contiguous_strides
from tests.harness import Case, assert_close, assert_same_bits, caps, random_form

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("bad", [0.0, 0.2])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_scatter_add_of_any_layout(dev: pk.Device, dtype: str, bad: float) -> None:
    """Any axis, rows shorter and longer than an invocation's share and than the share of a row's
    invocations, few and many places. Small integers add up exactly."""
    case = Case(dev, seed=2)
    rng = case.rng
    calls = []
    for n in range(10):
        ndim = int(rng.integers(1, 4))
        axis = int(rng.integers(ndim))
        shape = [int(v) for v in rng.integers(1, 5, ndim)]
        shape[axis] = (1, 7, 8, 9, 64, 65, 600, 1100, 5, 90)[n]
        side = [v + int(rng.integers(0, 3)) for v in shape]
        side[axis] = int(rng.choice([1, 3, 40, 700]))
        index = rng.integers(0, side[axis], shape)
        wrong = rng.random(shape) < bad
        index = np.where(wrong, rng.choice([-1, side[axis], 2**31 - 1], shape), index)
        i = case.input(
            index.astype(("int32", "int64")[n % 2]), random_form(rng, ndim, repeats=False)
        )
        data = rng.integers(0 if dtype == "uint32" else -99, 99, shape).astype(dtype)
        s = case.input(data, random_form(rng, ndim, repeats=True))
        start = rng.integers(0, 9, side).astype(dtype)
        calls.append((s, i, case.in_place(start, random_form(rng, ndim, repeats=False)), axis))
    case.build()
    want = [reference(s.array, i.array, d.array, axis).astype(dtype) for s, i, d, axis in calls]

    def run() -> None:
        for s, i, d, axis in calls:
            kernels.scatter_add(s.tensor, i.tensor, d.tensor, axis=axis)
        if bad:
            with pytest.raises(pk.IndexRangeError, match=r"\[scatter_add\] index must be in \[0, "):
                dev.sync()

    for got, expected in zip(case.run(run), want, strict=True):
        assert_same_bits(got, expected)


@pytest.mark.parametrize("limit", [1, 15, 16, 5000, 1 << 17])
def test_scatter_add_of_long_rows(dev: pk.Device, limit: int) -> None:
    """Each way to sort (one block, a merge, radix of one pass and more, rows that fill tiles),
    along both axes, with indices out of range, all-equal ones, and runs over whole pieces."""
    rng = np.random.default_rng(limit)
    for n in (2048, 2049, 9000, 32_769, 34_816):
        for axis in (0, 1):
            shape = (n, 2) if axis == 0 else (2, n)
            random = rng.integers(-1, limit + 1, shape)
            runs = np.where(rng.random(shape) < 0.9, limit // 2, random)
            for index in (random, runs, np.full(shape, limit - 1)):
                src = rng.integers(-9, 9, shape).astype("f4")
                side = (limit, 2) if axis == 0 else (2, limit)
                dst = dev.zeros(side)
                kernels.scatter_add(dev.tensor(src), dev.tensor(index.astype("i4")), dst, axis=axis)
                with contextlib.suppress(pk.IndexRangeError):
                    dev.sync()
                want = reference(src, index, np.zeros(side, "f4"), axis)
                assert_same_bits(dst.numpy(), want.astype("f4"))


def test_scatter_add_dispatches(dev: pk.Device) -> None:
    """A few of them, whatever the numbers of the index are; one for integers."""

    def bodies(n: int, limit: int, dtype: DTypeName = "float32") -> list[str]:
        views = [
            View(k, DTYPES[d], shape, contiguous_strides(shape, DTYPES[d].itemsize), 0)
            for k, (d, shape) in enumerate(((dtype, (n,)), ("int32", (n,)), (dtype, (limit,))))
        ]
        return [s.body.name for s in plan(dev._context.caps, Scratch(), *views)]

    assert bodies(2000, 10**6) == ["scatter_keys", "sort_rows", "segment_sum"]
    assert bodies(10_000, 10_000) == [
        "scatter_keys", "sort_rows", "sort_merge", "segment_sum", "segment_sum"
    ]  # fmt: skip
    for limit, passes in ((10, 1), (256, 3), (10**6, 5)):
        assert bodies(10**6, limit) == [
            "scatter_keys", *["sort_count", "sort_scatter"] * passes, "segment_sum", "segment_sum"
        ]  # fmt: skip
    for dtype in ("int32", "uint32"):
        assert bodies(10**6, 10**6, dtype) == ["scatter_integers"]


def test_scatter_add_is_exact_enough_and_repeatable(dev: pk.Device) -> None:
    """One place takes half of all: pieces of pieces; a tree of sums, the same each time."""
    rng = np.random.default_rng(0)
    n, m = 70_000, 50
    index = np.where(rng.random(n) < 0.5, 7, rng.integers(0, m, n)).astype("i4")
    src, x = rng.random(n, "f4"), rng.random(m, "f4")
    t, i, s = dev.tensor(x), dev.tensor(index), dev.tensor(src)
    want = reference(src, index, x)
    first = pk.scatter_add(t, 0, i, s).numpy()
    assert_close(first, want, want * 2.0**-21)
    assert_same_bits(pk.scatter_add(t, 0, i, s).numpy(), first)
    assert_same_bits(t.numpy(), x)
    ones = pk.scatter_add(dev.zeros(m), 0, i, dev.ones(n))
    assert (ones.numpy() == np.bincount(index, minlength=m)).all()


def test_scatter_add_of_halves_and_arrays(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    x, src = rng.random((3, 5)).astype("f2"), rng.random((3, 40)).astype("f2")
    index = rng.integers(0, 5, (3, 40))
    got = pk.scatter_add(x, 1, index, src)
    assert got.dtype == np.float16
    want = reference(src, index, x)
    assert_close(got, want, want * 2.0**-20)
    t = dev.tensor(x)
    assert pk.scatter_add(t, 1, index, src, out=t) is t
    assert_same_bits(t.numpy(), got)
    ints = pk.scatter_add(np.int32([2**31 - 1, 0]), 0, np.int32([0, 1, 0]), np.int32([1, 5, 1]))
    assert ints.tolist() == [-(2**31) + 1, 5]
    zeros = pk.scatter_add(np.float32([-0.0, 1]), 0, np.int32([0]), np.float32([-0.0]))
    assert np.signbit(zeros[0])


@pytest.mark.crowd
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_scatter_add_of_far_rows_in_parts(dev: pk.Device, dtype: str) -> None:
    """The rows of dst are farther apart than a binding reaches, and more than one holds."""
    rng = np.random.default_rng(11)
    base = rng.integers(99, 999, (8, 1024)).astype(dtype)
    src = rng.integers(0, 9, (5, 1000)).astype(dtype)
    index = rng.integers(0, 8, src.shape).astype("i4")
    want = base.copy()
    np.add.at(want[:, :1000], (index, np.arange(1000)), src)
    dst, given = dev.tensor(base), (dev.tensor(src), dev.tensor(index))
    with caps(dev, max_binding=4096):
        kernels.scatter_add(*given, dst[:, :1000], axis=0)
    assert (dst.numpy() == want).all()


def test_scatter_add_over_a_long_grid(dev: pk.Device) -> None:
    rng = np.random.default_rng(3)
    index, src = rng.integers(0, 9, (300, 40)), rng.integers(0, 9, (300, 40)).astype("f4")
    with caps(dev, max_groups=1):
        got = pk.scatter_add(dev.zeros((300, 9)), 1, index, src).numpy()
    assert (got == reference(src, index, np.zeros((300, 9), "f4"))).all()


def test_scatter_add_rejects(dev: pk.Device) -> None:
    x, index = dev.zeros((2, 3)), dev.zeros((2, 4), "int32")
    with pytest.raises(
        pk.ShapeError, match=r"\[scatter_add\] src must be at least as large as index"
    ):
        pk.scatter_add(x, 1, index, x)
    with pytest.raises(pk.DTypeError, match=r"\[scatter_add\] src must have the dtype of x"):
        pk.scatter_add(x, 1, index, index)
    with pytest.raises(pk.DTypeError, match=r"\[scatter_add\] dst must be float32, .* is int8"):
        pk.scatter_add(dev.zeros((2, 3), "int8"), 1, index, dev.zeros((2, 4), "int8"))
    with pytest.raises(pk.ShapeError, match=r"\[scatter_add\] axis 2 does not exist"):
        kernels.scatter_add(dev.zeros((2, 4)), index, x, axis=2)
    kernels.scatter_add(dev.zeros((2, 0)), index[:, :0], x)
    for wrong, dtype in itertools.product((-5, 3), ("int32", "int64")):
        bad = dev.tensor(np.array([[0, wrong, 1, 1]] * 2, dtype))
        kernels.scatter_add(dev.zeros((2, 4)), bad, x, axis=1)
        with pytest.raises(pk.IndexRangeError, match=rf"in \[0, 3\) but is {wrong} at "):
            dev.sync()
    for dtype in ("float32", "int32"):
        kernels.scatter_add(dev.zeros((2, 4), dtype), index, dev.zeros((2, 0), dtype))
        with pytest.raises(pk.IndexRangeError, match=r"\[scatter_add\] .* in \[0, 0\) .*out: 8"):
            dev.sync()
