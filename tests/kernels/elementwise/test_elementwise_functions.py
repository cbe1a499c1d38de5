"""Functions of several elementwise operations, and gated units."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.elementwise import OPS

gpu = pytest.mark.gpu


@gpu
def test_functions_of_several_operations(dev: pk.Device) -> None:
    x = np.array([-3, -0.5, 0, 2, np.nan, np.inf], "f4")
    t = dev.tensor(x)
    for low, high in ((-1, 1), (None, 1), (-1, None), (np.full(6, -2, "f4"), 1.5)):
        want = np.clip(x, low, high)  # type: ignore[call-overload]
        np.testing.assert_array_equal(pk.clamp(t, low, high).numpy(), want)
    np.testing.assert_array_equal(
        pk.masked_fill(t, dev.tensor(x > 0), 7).numpy(), np.where(x > 0, 7, x)
    )
    y = x + np.float32(1e-7)
    for nan in (False, True):
        np.testing.assert_array_equal(
            pk.isclose(t, y, equal_nan=nan).numpy(), np.isclose(x, y, equal_nan=nan)
        )
        assert pk.allclose(t, y, equal_nan=nan) is bool(np.allclose(x, y, equal_nan=nan))
    assert not pk.allclose(t[:4], y[:4] + 1)
    assert pk.isclose(dev.tensor(np.array([1, 2], "i4")), 2).numpy().tolist() == [False, True]


@gpu
def test_infinities_become_the_largest_of_their_dtype(dev: pk.Device) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -2], "f4")
    for dtype in ("f4", "f2"):
        given = x.astype(dtype)
        np.testing.assert_array_equal(
            pk.nan_to_num(dev.tensor(given)).numpy(), np.nan_to_num(given)
        )
        np.testing.assert_array_equal(pk.nan_to_num(given, nan=1), np.nan_to_num(given, nan=1))
    narrow = pk.nan_to_num(dev.tensor(x).astype("bfloat16"), neginf=-5)
    assert narrow.dtype == "bfloat16"
    assert narrow.astype("float32").numpy().tolist() == [0, 3.3895313892515355e38, -5, -2]


@gpu
@pytest.mark.parametrize("name", ["swiglu", "geglu", "reglu"])
def test_gated_units_take_halves_in_either_order(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 6)).astype("f4")
    t, op, function = dev.tensor(x), OPS[name], getattr(pk, name)
    for axis in (-1, 1):
        first, second = np.split(x, 2, axis)
        got = function(t, axis=axis).numpy()
        np.testing.assert_allclose(got, op.reference(second, first), rtol=1e-5, atol=1e-7)
        got = function(t, axis=axis, swapped=True).numpy()
        np.testing.assert_allclose(got, op.reference(first, second), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        function(t, x[0]).numpy(), op.reference(x, x[0]), rtol=1e-5, atol=1e-7
    )
    with pytest.raises(pk.ShapeError, match=r"axis 0 must have an even size but the shape is \(3"):
        function(t, axis=0)
