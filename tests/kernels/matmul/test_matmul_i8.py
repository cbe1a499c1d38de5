"""matmul of bytes and scaled_matmul: numpy's rules, what they allocate, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.call.arrays import Call
from tests.harness import assert_same_bits
from tests.kernels.matmul.test_matmul import FIT, UNFIT

gpu = pytest.mark.gpu


def made(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@gpu
@pytest.mark.parametrize("a_shape, b_shape", FIT, ids=str)
def test_matmul_has_numpys_shapes(
    dev: pk.Device, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    a, b = made(rng, a_shape, "int8"), made(rng, b_shape, "int8")
    want = np.asarray(np.matmul(a.astype(np.int32), b.astype(np.int32)))
    got = pk.matmul(dev.tensor(a), dev.tensor(b))
    assert isinstance(got, pk.Tensor)
    assert_same_bits(got.numpy(), want)
    out = dev.empty(want.shape, "int32")
    assert pk.matmul(dev.tensor(a), b, out=out) is out
    assert_same_bits(out.numpy(), want)
    # A factor for each row, each column and the whole: powers of two keep it exact.
    rows = 2.0 ** rng.integers(-3, 3, a_shape[-2:-1]).astype(np.float32)
    cols = 2.0 ** rng.integers(-3, 3, b_shape[-1:] if b.ndim > 1 else ()).astype(np.float32)
    bias = rng.integers(-9, 9, want.shape).astype(np.float16)
    scaled = want * (rows[:, None] if a.ndim > 1 and b.ndim > 1 else rows) * cols + bias
    for _ in range(2):  # the second call is known
        found = pk.scaled_matmul(dev.tensor(a), dev.tensor(b), dev.tensor(rows), dev.tensor(cols),
                                 bias=dev.tensor(bias))  # fmt: skip
        assert_same_bits(found.numpy(), scaled.astype(np.float32))


@gpu
@pytest.mark.parametrize("a_shape, b_shape", UNFIT, ids=str)
def test_matmul_refuses_what_numpy_refuses(
    dev: pk.Device, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    a, b = np.ones(a_shape, np.uint8), np.ones(b_shape, np.uint8)
    with pytest.raises(pk.ShapeError, match=r"\[matmul\]"):
        pk.matmul(dev.tensor(a), dev.tensor(b))
    with pytest.raises(pk.ShapeError, match=r"\[scaled_matmul\]"):
        pk.scaled_matmul(a, dev.tensor(b))


@gpu
def test_what_they_return(dev: pk.Device) -> None:
    x = np.full((2, 300), 255, np.uint8)
    product = pk.matmul(x, x.T)
    assert isinstance(product, np.ndarray)
    assert product.dtype == np.int32
    assert (product == 255 * 255 * 300).all()
    assert (dev.tensor(x) @ dev.tensor(x).T).dtype == "int32"
    t = dev.tensor(x)
    assert pk.scaled_matmul(t, t.T).dtype == "float32"
    assert pk.scaled_matmul(t, t.T, dtype="float16").dtype == "float16"
    assert pk.scaled_matmul(t, t.T, dtype=np.dtype("float16")).dtype == "float16"  # type: ignore
    half = dev.empty((2, 2), "float16")
    assert pk.scaled_matmul(t, x.T, np.float32(2.0**-11).reshape(1), out=half) is half
    np.testing.assert_allclose(half.numpy(), 255 * 255 * 300 / 2048, rtol=1e-3)
    batch = dev.tensor(np.ones((3, 2, 8), np.int8))
    factors = dev.tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    got = pk.scaled_matmul(batch, dev.ones((8, 4), "int8"), factors).numpy()
    assert_same_bits(got, np.repeat(8 * factors.numpy()[..., None], 4, -1))


@gpu
def test_known_calls_take_a_short_way(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    a, b = (dev.tensor(made(rng, s, "int8")) for s in ((4, 3, 8), (4, 8, 5)))
    want = [(pk.matmul(x, y).numpy(), pk.scaled_matmul(x, y, b_scale=dev.full(5, 0.5)).numpy())
            for x, y in zip(a, b, strict=True)]  # fmt: skip

    def refuse(*args: Any, **more: Any) -> None:
        raise AssertionError("a call of a known layout")

    monkeypatch.setattr(Call, "__init__", refuse)
    for x, y, (plain, scaled) in zip(a, b, want, strict=True):
        assert_same_bits(pk.matmul(x, y).numpy(), plain)
        assert_same_bits(pk.scaled_matmul(x, y, b_scale=dev.full(5, 0.5)).numpy(), scaled)
    assert_same_bits(want[0][1], (want[0][0] * 0.5).astype(np.float32))


@gpu
def test_what_they_refuse(dev: pk.Device) -> None:
    a: Any = dev.ones((2, 3), "int8")
    b: Any = dev.ones((3, 4), "int8")
    other, real = dev.ones((3, 4), "uint8"), dev.ones((3, 4))
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] a and b must have one dtype, int8 or"):
        pk.matmul(a, other)
    with pytest.raises(pk.DTypeError, match=r"\[scaled_matmul\] a and b must have one dtype"):
        pk.scaled_matmul(a, other)
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] a must be .* or bfloat16 but is int8"):
        pk.matmul(a, real)
    with pytest.raises(pk.DTypeError, match=r"\[scaled_matmul\] b must be int8 or uint8 but is"):
        pk.scaled_matmul(a, real)
    for option in ({"scale": 2.0}, {"bias": real}, {"activation": "relu"}, {"precision": "fast"}):
        with pytest.raises(pk.ArgumentError, match=r"\[matmul\] bias, .* need float operands"):
            pk.matmul(a, b, **option)
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] out must be int32 but is float32"):
        pk.matmul(a, b, out=dev.empty((2, 4)))
    with pytest.raises(
        pk.DTypeError, match=r"\[scaled_matmul\] dtype must be float32, float16 or bfloat16"
    ):
        pk.scaled_matmul(a, b, dtype="int32")  # type: ignore[call-overload]
    with pytest.raises(pk.DTypeError, match=r"\[scaled_matmul\] out must be float32 but is int32"):
        pk.scaled_matmul(a, b, out=dev.empty((2, 4), "int32"))
    with pytest.raises(pk.DTypeError, match=r"\[scaled_matmul\] a_scale must be float32"):
        pk.scaled_matmul(a, b, dev.ones(2, "float16"))
    with pytest.raises(pk.ShapeError, match=r"a_scale must broadcast to \(2,\) but has shape \(4"):
        pk.scaled_matmul(a, b, dev.ones(4))
    with pytest.raises(pk.ShapeError, match=r"b_scale must broadcast to \(4,\) but has shape \(2"):
        pk.scaled_matmul(a, b, None, dev.ones(2))
    with pytest.raises(pk.ShapeError, match=r"bias must broadcast to \(2, 4\) but has shape \(3"):
        pk.scaled_matmul(a, b, bias=dev.ones(3))
