"""Reductions: special values, ties, nothing, accuracy, functions, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import function
from pykernels.reference.reduce import SUM
from tests.harness import Array

from .reduce_calls import KERNELS, ReduceCalls, result_dtype

gpu = pytest.mark.gpu
inf, nan = np.inf, np.nan
MINUS_NAN = np.array(0xFFC00001, np.uint32).view(np.float32)
ROWS: list[list[Any]] = [
    [1, inf, 2, 0, 0, 0, 0, 0], [1, -inf, 2, 0, 0, 0, 0, 0], [inf, -inf, 1, 0, 0, 0, 0, 0],
    [nan, 1, 2, inf, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7, MINUS_NAN], [-inf] * 8, [inf] * 8,
    [nan] * 8,
    [0.0, -0.0] * 4, [-0.0] * 8, [1e-40, -1e-40, 0, 0, 0, 0, 0, 0], [-3.4e38] * 8, [5.0] * 8,
    [3e38, 3e38, -3e38, 0, 0, 0, 0, 0], [3, 7, 7, 3, 7, -2, -2, 7],
    [-1e4, 1e4, 88, -88, 0, 0, 0, 1], [MINUS_NAN, inf, nan, 0, 0, 0, 0, 0],
]  # fmt: skip


@gpu
@pytest.mark.parametrize("name", KERNELS)
def test_special_values(dev: pk.Device, name: str) -> None:
    rows = np.array(ROWS, np.float32)
    if name in ("prod", "count_nonzero", "any", "all"):
        rows[np.abs(rows) == np.float32(1e-40)] = 0  # which a driver may flush
    if name in ("sum", "mean", "prod", "var", "std", "norm"):
        # Partial results overflow or not, by their order.
        rows[np.isfinite(rows) & (np.abs(rows) > 1e15)] = 1e15 if name in ("sum", "mean") else 2
    calls = ReduceCalls(dev)
    calls.add(name, rows, 1)
    calls.add(name, np.repeat(rows, 9, 1)[:, 3:], 1)
    calls.add(name, np.ascontiguousarray(rows.T), 0)
    if name == "norm":
        calls.add(name, rows, 1, ord=1.0)
        calls.add(name, rows, 1, ord=inf)
    calls.check()


@gpu
@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min"])
def test_integers_at_their_limits(dev: pk.Device, name: str) -> None:
    calls = ReduceCalls(dev)
    for dtype in ("int32", "uint32"):
        info = np.iinfo(dtype)
        for values in ([info.min] * 40, [info.max] * 40, [info.min, info.max] * 20):
            calls.add(name, np.array(values, dtype), 0)
    calls.check()


@gpu
def test_ties_give_the_first_position(dev: pk.Device) -> None:
    calls = ReduceCalls(dev)
    rng = np.random.default_rng(1)
    for shape, axis in (((3, 5000), 1), ((700, 8), 0), ((40, 50, 3), (0, 1)), ((2, 3, 4, 5), None)):
        for name in ("argmax", "argmin"):
            calls.add(name, rng.integers(0, 3, shape).astype(np.float32), axis)
            zeros = np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(np.float32)
            calls.add(name, zeros, axis)  # both are one number
    calls.check()


@gpu
@pytest.mark.parametrize("name", KERNELS)
def test_of_no_elements(dev: pk.Device, name: str) -> None:
    x = dev.zeros((3, 0))
    if name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(pk.ShapeError, match=rf"\[{name}\] x must have elements"):
            getattr(pk, name)(x, 1)
    else:
        want = function(name)(np.zeros((3, 0), np.float32), 1)
        np.testing.assert_array_equal(getattr(pk, name)(x, 1).numpy(), want)
    assert getattr(pk, name)(x, 0).shape == (0,)
    if name == "norm":
        with pytest.raises(pk.ShapeError, match="must have elements"):
            pk.norm(x, 1, ord=np.inf)


# -- accuracy -------------------------------------------------------------------------------------


@gpu
def test_a_sum_of_ones_is_exact(dev: pk.Device) -> None:
    assert pk.sum(dev.ones(10_000_000)).item() == 10_000_000
    assert pk.mean(dev.ones((5, 2_000_000)), 0).numpy().max() == 1


@gpu
@pytest.mark.parametrize("shape", [(3_000_000,), (3_000, 1000)])
def test_sums_keep_their_share(dev: pk.Device, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=shape), rng.random(shape), np.full(shape, 0.1)):
        x = x.astype(np.float32)
        for axis in range(len(shape)):
            want = x.sum(axis, dtype=np.float64)
            error = np.abs(pk.sum(dev.tensor(x), axis).numpy() - want)
            assert (error <= SUM * np.abs(x).sum(axis, dtype=np.float64)).all()


@gpu
@pytest.mark.parametrize("mean", [0.0, 1e4, -1e4])
def test_variance_far_from_zero(dev: pk.Device, mean: float) -> None:
    x = (np.random.default_rng(0).normal(size=(1000, 500)) + mean).astype(np.float32)
    x[:, 0] = 0.0  # no element of a row may stand for its mean
    for axis in (0, 1, None):
        want = x.astype(np.float64).var(axis)
        got = pk.var(dev.tensor(x), axis).numpy()
        np.testing.assert_allclose(got, want, rtol=2e-6)


@gpu
def test_ddof(dev: pk.Device) -> None:
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    t = dev.tensor(x)
    for name in ("var", "std"):
        for ddof in (0, 1, 2, -1):
            want = getattr(np, name)(x.astype(np.float64), 1, ddof=ddof)
            np.testing.assert_allclose(getattr(pk, name)(t, 1, ddof=ddof).numpy(), want, rtol=3e-6)
        assert np.isposinf(getattr(pk, name)(t, 1, ddof=3).numpy()).all()
        assert np.isnan(getattr(pk, name)(dev.ones((5, 1)), 1, ddof=1).numpy()).all()


# -- functions ------------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("name", KERNELS)
def test_functions_allocate_their_output(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16", "int32", "uint8", "bool"):
        x = rng.integers(0, 2, (4, 6)).astype(dtype)
        t = dev.tensor(x)
        for axis, keepdims, shape in (
            (None, False, ()), (1, False, (4,)), (-2, True, (1, 6)), ((0, 1), True, (1, 1)),
        ):  # fmt: skip
            for _ in range(2):  # the second time by what the first one left
                got = getattr(pk, name)(t, axis=axis, keepdims=keepdims)
                assert got.shape == shape and got.dtype == result_dtype(name, dtype)
            want = function(name)(x, axis, shape=shape)
            np.testing.assert_allclose(got.numpy(), want.astype(got.numpy().dtype), rtol=2e-3)
    host: Array = getattr(pk, name)(x, 1)
    assert isinstance(host, np.ndarray) and host.shape == (4,)
    out = dev.empty((4,), result_dtype(name, "float32"))  # type: ignore[arg-type]
    assert getattr(pk, name)(dev.ones((4, 6)), 1, out=out) is out


@gpu
def test_sums_of_halves_may_be_given_as_float32(dev: pk.Device) -> None:
    x = dev.full((2, 70_000), 1.0, "float16")
    assert np.isposinf(pk.sum(x, 1).numpy()).all()
    assert (pk.sum(x, 1, out=dev.empty(2)).numpy() == 70_000).all()


@gpu
def test_functions_refuse(dev: pk.Device) -> None:
    x = dev.ones((2, 3))
    for axis in (2, -3, (0, 2), (0, 0), (0, -2)):
        with pytest.raises(pk.ShapeError, match=r"\[sum\] axis"):
            pk.sum(x, axis)
    wrong: list[tuple[Any, ...]] = [("1",), (1.0,), (True,), ((0, True),), (0, 1)]
    for arguments in wrong:
        with pytest.raises(pk.ArgumentError, match=r"\[sum\] (axis|keepdims) must"):
            pk.sum(x, *arguments)
    with pytest.raises(pk.ArgumentError, match=r"\[norm\] ord must be 1, 2 or inf but is 3"):
        pk.norm(x, ord=3)
    with pytest.raises(pk.ArgumentError, match=r"\[var\] ddof must be an integer"):
        pk.var(x, ddof=0.5)  # type: ignore[call-overload]
    with pytest.raises(pk.DTypeError, match=r"\[sum\] x must be .* but is complex64"):
        pk.sum(np.zeros(3, np.complex64))
    with pytest.raises(pk.ShapeError, match=r"\[sum\] out must have shape \(2,\)"):
        pk.sum(x, 1, out=dev.empty(3))
    with pytest.raises(pk.DTypeError, match=r"\[argmax\] out must be int32"):
        pk.argmax(x, 1, out=dev.empty(2))


@gpu
def test_kernels_refuse(dev: pk.Device) -> None:
    x = dev.ones((2, 3))
    with pytest.raises(pk.ShapeError, match=r"\[sum\] dst must have shape \(2,\) or \(2, 1\)"):
        pk.kernels.sum(x, dev.empty(3), axis=1)
    for name, dtype in (("sum", "int32"), ("max", "uint8"), ("argmax", "uint32")):
        with pytest.raises(pk.DTypeError, match=rf"\[{name}\] dst must be"):
            getattr(pk.kernels, name)(x, dev.empty(2, dtype), axis=1)  # type: ignore[arg-type]


@pytest.mark.gpu
def test_axes_that_do_not_exist(dev: pk.Device) -> None:
    x = dev.ones((2, 3))
    for axis in (2, -3, (0, 2)):
        with pytest.raises(pk.ShapeError, match=r"does not exist in shape \(2, 3\)"):
            pk.kernels.sum(x, dev.zeros((2,)), axis=axis)


@pytest.mark.gpu
def test_columns_of_a_part_of_a_tensor(dev: pk.Device) -> None:
    """What follows the last row counts nothing: with 7 * 2^n rows, the first of 2^n lanes has one
    row less than eight. A row that no binding holds is 0 on most drivers."""
    for cols in (1, 40, 1000):
        t = dev.full((1800, cols), -1.0)
        for rows in (*range(1, 20), *(7 << n for n in range(2, 9))):
            x = t[:rows]
            for got, want in ((pk.max(x, 0), -1), (pk.prod(x, 0), (-1) ** rows)):
                assert (got.numpy() == want).all(), (rows, cols)
