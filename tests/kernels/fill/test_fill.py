"""fill: one scalar in every element of a view, and nothing between the elements."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES, numpy_dtype
from pykernels.kernels import fill
from pykernels.reference.fill import fill as reference
from tests.harness import (
    DTYPE_NAMES,
    Array,
    Case,
    Form,
    assert_same,
    assert_same_bits,
    caps,
    forms,
    random_form,
)

pytestmark = pytest.mark.gpu

FLOATS = (0.0, -0.0, 1.0, -2.5, 1 / 3, 65504.0, 65519.99, 65520.0, 1e39, 1e-7, 5.9604645e-08,
          2.9802322e-08, 2.98023221e-08, 1e-45, 1 + 2**-8 + 2**-40, 1 + 2**-11, 3 + 2**-9,
          math.inf, -math.inf, math.nan, 7, -7, True, 10**30, np.float32(0.1),
          np.int16(-3))  # fmt: skip


def scalars(dtype: str) -> tuple[object, ...]:
    """Scalars that the dtype takes."""
    d = DTYPES[dtype]
    if d.kind == "f":
        return FLOATS
    if d.kind == "c":
        return (*FLOATS, 1 + 2j, complex(math.inf, -1e39), np.complex64(0.1 - 3j))
    if d.kind == "b":
        return (True, False, 0, 2, -1, 0.5, math.nan, np.True_)
    info = np.iinfo(dtype)
    return (0, 1, 3.0, True, info.max, info.min, info.max // 3, np.int8(5), np.float64(100.0))


def before(dtype: str, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, numpy_dtype(dtype))  # type: ignore[arg-type]


def fill_all(
    dev: pk.Device, dtype: str, shape: tuple[int, ...], cases: list[tuple[object, Form]]
) -> None:
    """Many views of one buffer, each filled with its own value."""
    case = Case(dev)
    views = [case.output(shape, dtype, form, buffer="one") for _, form in cases]
    case.build()

    def call() -> None:
        for v, (value, _) in zip(views, cases, strict=True):
            fill(v.tensor, value)  # type: ignore[arg-type]

    for got, (value, form) in zip(case.run(call), cases, strict=True):
        want = reference(before(dtype, shape), value)  # type: ignore[arg-type]
        assert_same(got, want, f"fill with {value!r}, {form}")


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_fill_rounds_as_numpy_does(dev: pk.Device, dtype: str) -> None:
    some = (Form(), Form(phase=1), Form(steps=(2,), phase=1))
    fill_all(dev, dtype, (9,), [(v, some[i % 3]) for i, v in enumerate(scalars(dtype))])


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_fill_any_layout(dev: pk.Device, dtype: str) -> None:
    some = scalars(dtype)
    layouts = forms(3, repeats=False).values()
    cases = [(some[i % len(some)], form) for i, form in enumerate(layouts)]
    for shape in ((4, 5, 6), (3, 1, 7), (1, 1, 1), (2, 9, 33)):
        fill_all(dev, dtype, shape, cases)


@pytest.mark.parametrize("dtype", ("uint8", "float16", "float32", "int64"))
def test_fill_sizes_and_phases(dev: pk.Device, dtype: str) -> None:
    value = scalars(dtype)[4]
    for n in (0, 1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 1025):
        cases = [(value, Form(phase=p, steps=(s,))) for p in range(0, 17, 3) for s in (1, 2)]
        fill_all(dev, dtype, (n,), cases)


@pytest.mark.parametrize("seed", range(8))
def test_fill_random_layouts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for dtype in rng.choice(DTYPE_NAMES, 4):
        some = scalars(dtype)
        shape = tuple(int(n) for n in rng.integers(1, 8, rng.integers(1, 6)))
        cases = [
            (some[int(rng.integers(len(some)))], random_form(rng, len(shape), repeats=False))
            for _ in range(8)
        ]
        fill_all(dev, dtype, shape, cases)


@pytest.mark.parametrize("dtype", ("uint8", "int16", "float32", "int64"))
def test_fill_folds_a_long_grid(dev: pk.Device, dtype: str) -> None:
    with caps(dev, max_groups=2):
        fill_all(dev, dtype, (1031,), [(3, Form(steps=(2,), phase=1))])


def test_fill_more_than_65535_workgroups(dev: pk.Device) -> None:
    n = 65536 * 256 + 77
    t = dev.zeros(2 * n, "uint8")
    fill(t[1::2], 9)
    assert np.array_equal(t.numpy().reshape(n, 2), np.broadcast_to(np.uint8([0, 9]), (n, 2)))


def test_fill_without_axes(dev: pk.Device) -> None:
    fill_all(dev, "float16", (), [(2.5, Form(phase=p)) for p in range(4)])


@pytest.mark.parametrize(
    ("dtype", "value", "error", "parts"),
    [
        ("int8", 128, pk.ArgumentError, ["[fill]", "[-128, 127]", "int8", "128"]),
        ("uint32", -1, pk.ArgumentError, ["[fill]", "[0, 4294967295]", "-1"]),
        ("int64", 2**63, pk.ArgumentError, ["[fill]", "int64", str(2**63)]),
        ("int32", 1.5, pk.ArgumentError, ["[fill]", "integer", "1.5"]),
        ("int32", math.inf, pk.ArgumentError, ["[fill]", "inf"]),
        ("float32", 10**400, pk.ArgumentError, ["[fill]", "float32"]),
        ("bfloat16", 10**400, pk.ArgumentError, ["[fill]", "bfloat16"]),
        ("float32", "x", pk.DTypeError, ["[fill]", "'x'"]),
        ("float32", 1j, pk.DTypeError, ["[fill]", "1j"]),
        ("float32", None, pk.DTypeError, ["[fill]", "None"]),
        ("float32", np.datetime64(1, "s"), pk.DTypeError, ["[fill]", "real number"]),
    ],
    ids=lambda v: str(v)[:20],
)
def test_fill_rejects_values(
    dev: pk.Device, dtype: str, value: float, error: type[Exception], parts: list[str]
) -> None:
    t = dev.zeros(4, dtype)  # type: ignore[arg-type]
    with pytest.raises(error) as e:
        fill(t, value)
    assert all(part in str(e.value) for part in parts), str(e.value)
    assert_same_bits(t.numpy(), before(dtype, (4,)))


def test_fill_rejects_views(dev: pk.Device) -> None:
    t = dev.zeros((1, 4))
    with pytest.raises(pk.AliasError, match=r"\[fill\] dst is broadcast or overlaps itself"):
        fill(t.broadcast_to((2, 4)), 1)
    overlapping = pk.Tensor.from_buffer(
        t.buffer, (3, 3), "float32", strides=(4, 4), device=dev
    )  # a sliding window: its elements share memory
    with pytest.raises(pk.AliasError, match=r"\[fill\] dst .* overlaps itself"):
        fill(overlapping, 1)
