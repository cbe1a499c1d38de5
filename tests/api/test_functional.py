"""The functional layer: numpy or tensors in and out, axes, `out`, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.softmax import log_softmax, softmax, softmax_backward

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]
SHAPE = (3, 5, 7)


@pytest.fixture(scope="module", autouse=True)
def _needs_an_adapter(dev: pk.Device) -> None:
    """The column's driver is there; numpy arguments run on wgpu's default device."""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def normal(rng: np.random.Generator, shape: tuple[int, ...] = SHAPE, dtype: str = "f4") -> Array:
    return rng.standard_normal(shape).astype(dtype)


def along(call: Callable[..., Array], axis: int, *arrays: Array, **more: Any) -> Array:
    """A reference over another axis than the last one."""
    return np.moveaxis(call(*(np.moveaxis(a, axis, -1) for a in arrays), **more), -1, axis)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
def test_softmax_over_any_axis(rng: np.random.Generator, axis: int) -> None:
    x = normal(rng)
    y = pk.softmax(x, axis)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, along(softmax, axis, x), rtol=1e-5)
    np.testing.assert_array_equal(pk.softmax(x, dim=axis), y)
    np.testing.assert_allclose(
        pk.log_softmax(x, axis=axis, scale=0.5), along(log_softmax, axis, x, scale=0.5), rtol=1e-4
    )
    dy = normal(rng)
    np.testing.assert_allclose(
        pk.softmax_backward(y, dy, axis), along(softmax_backward, axis, y, dy), atol=1e-6
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(5, 7), (3, 1, 7), (1,), (3, 5, 1), (7,), (1, 5, 1)])
def test_mask_broadcasts_in_the_order_of_x(
    rng: np.random.Generator, axis: int, shape: tuple[int, ...]
) -> None:
    x, mask = normal(rng), normal(rng, shape, "f2")
    full = np.broadcast_to(mask.astype("f4"), SHAPE)
    got = pk.softmax(x, axis, mask=mask)
    np.testing.assert_allclose(got, along(softmax, axis, x + full), rtol=1e-4)


def test_sinks_and_alibi_on_the_last_axis(rng: np.random.Generator) -> None:
    x, mask, sinks = normal(rng), normal(rng, (5, 7)), normal(rng, (3,))
    want = softmax(x, mask, sinks, max_bias=8.0)
    for axis in (-1, 2):
        got = pk.softmax(x, axis, mask=mask, sinks=sinks, max_bias=8.0)
        np.testing.assert_allclose(got, want, rtol=1e-4)


def test_kinds_in_decide_the_kind_out(dev: pk.Device, rng: np.random.Generator) -> None:
    x, mask = normal(rng), normal(rng, (5, 7))
    t, m = dev.tensor(x), dev.tensor(mask)
    want = softmax(x, mask)
    assert isinstance(pk.softmax(x, mask=mask), np.ndarray)
    for given in ((t, m), (t, mask), (x, m)):
        y = pk.softmax(given[0], mask=given[1])
        assert isinstance(y, pk.Tensor)
        assert y.device is dev
        assert y.contiguous
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_out(dev: pk.Device, rng: np.random.Generator) -> None:
    x = normal(rng)
    want = along(softmax, 1, x)
    out = dev.empty(SHAPE)
    assert pk.softmax(x, 1, out=out) is out
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5)
    t = dev.tensor(x)
    assert pk.softmax(t, 1, out=t) is t
    np.testing.assert_allclose(t.numpy(), want, rtol=1e-5)
    strided = dev.zeros((7, 5, 6))[:, ::-1, ::2].T
    pk.softmax(x, 1, out=strided)
    np.testing.assert_allclose(strided.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3)])
def test_empty(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        assert pk.softmax(np.zeros(shape, "f4"), axis).shape == shape


ONE = np.ones(SHAPE, "f4")
REFUSED = {
    "integers": (pk.DTypeError, r"x must be .* or bfloat16 but is int64: .*\.astype",
                 lambda: pk.softmax(np.ones(3, "i8"))),
    "float64": (pk.DTypeError, r"x must be .* but is float64: .*\.astype\('float32'\)",
                lambda: pk.softmax(np.ones(3))),
    "byte-swapped": (pk.DTypeError, "x must be .* but is >f4",
                     lambda: pk.softmax(np.ones(3, ">f4"))),
    "a list": (pk.DTypeError, "x must be a pykernels.Tensor or a numpy array but is list",
               lambda: pk.softmax([1.0])),  # type: ignore[call-overload]
    "nothing": (pk.DTypeError, "x must be a pykernels.Tensor or a numpy array but is NoneType",
                lambda: pk.softmax(None)),  # type: ignore[call-overload]
    "no such axis of a number": (pk.ShapeError, r"axis -2 does not exist in shape \(\)",
                                 lambda: pk.softmax(np.array(1, "f4"), -2)),
    "axis too large": (pk.ShapeError, r"axis 3 does not exist in shape \(3, 5, 7\)",
                       lambda: pk.softmax(ONE, 3)),
    "axis no integer": (pk.ArgumentError, "axis must be an integer but is 1.0",
                        lambda: pk.softmax(ONE, 1.0)),  # type: ignore[call-overload]
    "axis and dim": (pk.ArgumentError, "axis and dim are two names of one",
                     lambda: pk.softmax(ONE, 0, dim=-1)),
    "mask shape": (pk.ShapeError, r"mask must broadcast to \(3, 5, 7\) but has shape \(2, 7\)",
                   lambda: pk.softmax(ONE, mask=np.ones((2, 7), "f4"))),
    "mask shape, axis": (pk.ShapeError, r"mask must broadcast to \(3, 5, 7\) .* \(2, 1, 1\)",
                         lambda: pk.softmax(ONE, 0, mask=np.ones((2, 1, 1), "f4"))),
    "mask axes": (pk.ShapeError, "mask must broadcast to",
                  lambda: pk.softmax(ONE[0], 0, mask=ONE)),
    "mask dtype": (pk.DTypeError, "mask must be float32, float16 or bfloat16 but is bool",
                   lambda: pk.softmax(ONE, mask=ONE > 0)),
    "sinks off the last axis": (pk.ArgumentError, "axis must be -1 if sinks is given",
                                lambda: pk.softmax(ONE, 0, sinks=np.ones(3, "f4"))),
    "max_bias off the last axis": (pk.ArgumentError, "axis must be -1 if max_bias is given",
                                   lambda: pk.softmax(ONE, 0, max_bias=8.0)),
    "out no tensor": (pk.DTypeError, "out must be a pykernels.Tensor but is numpy.ndarray",
                      lambda: pk.softmax(ONE, out=ONE)),  # type: ignore[call-overload]
    "out shape": (pk.ShapeError, r"out must have shape \(3, 5, 7\) but has \(3,\)",
                  lambda: pk.softmax(ONE, 0, out=pk.empty(3))),
    "out dtype": (pk.DTypeError, "out must be float32 but is float16",
                  lambda: pk.softmax(ONE, out=pk.empty(SHAPE, "float16"))),
    "scale no number": (pk.ArgumentError, "scale must be a real number but is 'a'",
                        lambda: pk.softmax(ONE, scale="a")),  # type: ignore[call-overload]
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_softmax_refuses(case: str) -> None:
    error, message, call = REFUSED[case]
    with pytest.raises(error, match=r"^\[softmax\] " + ".*" + message):
        call()


def test_errors_name_the_function_that_was_called() -> None:
    with pytest.raises(pk.DTypeError, match=r"^\[log_softmax\] x must be"):
        pk.log_softmax(np.ones(3))
    with pytest.raises(pk.ShapeError, match=r"^\[softmax_backward\] dy must have the shape"):
        pk.softmax_backward(ONE, ONE[0], 0)


def test_tensors_of_two_devices(dev: pk.Device) -> None:
    other = pk.default_device()
    with pytest.raises(pk.BufferStateError, match="tensors of two devices"):
        pk.softmax(dev.tensor(ONE), out=other.empty(SHAPE))


def test_copy_and_astype(dev: pk.Device, rng: np.random.Generator) -> None:
    x = normal(rng)
    np.testing.assert_array_equal(pk.copy(x.T), x.T)
    t = dev.tensor(x)
    y = pk.copy(t.T)
    assert isinstance(y, pk.Tensor)
    assert y.contiguous
    np.testing.assert_array_equal(y.numpy(), x.T)
    half = pk.astype(t, "float16")
    assert half.dtype == "float16"
    np.testing.assert_array_equal(half.numpy(), x.astype("f2"))
    assert pk.astype(x, np.dtype("int8")).dtype == "int8"
    with pytest.raises(pk.DTypeError, match=r"^\[astype\] dtype must be one of .* 'float64'"):
        pk.astype(x, "float64")  # type: ignore[call-overload]


def test_copyto(dev: pk.Device) -> None:
    dst = dev.zeros((4, 3))
    pk.copyto(dst[1:3], np.arange(3, dtype="i4"))
    np.testing.assert_array_equal(dst.numpy(), [[0] * 3, [0, 1, 2], [0, 1, 2], [0] * 3])
    with pytest.raises(pk.ShapeError, match=r"^\[copyto\] src must broadcast to \(4, 3\)"):
        pk.copyto(dst, np.ones(2, "f4"))
    with pytest.raises(pk.DTypeError, match=r"^\[copyto\] dst must be a pykernels.Tensor"):
        pk.copyto(np.ones(3), dst)  # type: ignore[arg-type]


def test_creation(dev: pk.Device) -> None:
    assert pk.zeros(3).device is pk.default_device()
    for t, value in (
        (pk.zeros((2, 3), device=dev), 0),
        (pk.ones((2, 3), "int8", device=dev), 1),
        (pk.full((2, 3), 2.5, "float16", device=dev), 2.5),
    ):
        assert t.device is dev
        assert (t.numpy() == value).all()
    t = pk.empty((2, 3), "uint16", device=dev)
    pk.fill(t, 7)
    assert (t.numpy() == 7).all()
    pk.memset(t, 255, offset=1, size=2)
    assert t.numpy().reshape(-1)[:2].tolist() == [0xFF07, 0x00FF]
