"""What callers get wrong, and what they are told: the hint must lead to what they meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu


def attention(dev: pk.Device, **more: Any) -> Any:
    q = dev.rand((1, 2, 4, 8))
    return pk.scaled_dot_product_attention(q, q, q, **more)


@pytest.mark.parametrize("dtype", ("int32", "uint8", "int64"))
def test_an_integer_mask_is_told_to_become_bool(dev: pk.Device, dtype: str) -> None:
    mask = np.tril(np.ones((4, 4), dtype))
    x = dev.rand((4, 4))
    for call in (
        lambda: attention(dev, attn_mask=mask),
        lambda: attention(dev, attn_mask=dev.tensor(mask)),
        lambda: pk.flash_attn(*(dev.rand((1, 2, 4, 8)),) * 3, mask=mask),
        lambda: pk.softmax(x, mask=mask),
    ):
        with pytest.raises(pk.DTypeError, match=r"mask") as e:
            call()
        assert ".astype('float" not in str(e.value)
    with pytest.raises(pk.DTypeError, match=r"\.astype\(bool\)"):
        attention(dev, attn_mask=mask)


def test_hints_are_right_where_they_are_given(dev: pk.Device) -> None:
    table, x = dev.rand((4, 8)), np.ones((4, 8))
    with pytest.raises(pk.DTypeError, match=r"convert it with \.astype\('float32'\)"):
        pk.softmax(x)
    with pytest.raises(pk.DTypeError, match=r"convert it with \.astype\('int32'\)"):
        pk.embedding(table, np.array([1, 2], "u1"))
    with pytest.raises(pk.DTypeError, match=r"convert it with \.astype\('float32'\)"):
        pk.softmax(dev.zeros((4, 8), "bool"))
    # Fractions would be lost, and tensors of int64 become nothing but int32.
    for call in (
        lambda: pk.embedding(table, np.array([1.5, 2], "f4")),
        lambda: pk.softmax(dev.tensor(np.ones((4, 8), "i8"))),
        lambda: pk.softmax(np.ones((4, 8), "c8")),
        lambda: pk.zeros(3, np.float64, device=dev),
    ):
        with pytest.raises(pk.DTypeError) as e:
            call()
        assert "astype" not in str(e.value)


class Foreign:
    """Another package's tensor."""


Foreign.__module__, Foreign.__qualname__ = "torch", "Tensor"


def test_other_tensors_are_named_with_their_module(dev: pk.Device) -> None:
    x: Any = Foreign()
    t = dev.rand((3, 3))
    for call in (
        lambda: pk.softmax(x),
        lambda: pk.matmul(t, x),
        lambda: pk.softmax(t, out=x),
        lambda: pk.copyto(x, t),
    ):
        with pytest.raises(pk.DTypeError, match=r"but is torch\.Tensor"):
            call()
    with pytest.raises(pk.DTypeError, match=r"pk\.tensor\(x\)"):
        pk.softmax(x)
    with pytest.raises(pk.DTypeError, match=r"but is list"):
        pk.softmax([1.0])  # type: ignore[call-overload]


def test_matmul_names_both_shapes(dev: pk.Device) -> None:
    with pytest.raises(pk.ShapeError, match=r"a .*\(3, 4\).* b .*\(5, 6\)"):
        pk.matmul(dev.rand((3, 4)), dev.rand((5, 6)))
    with pytest.raises(pk.ShapeError, match=r"a .*\(2, 3, 4\).* b .*\(5,\)"):
        pk.matmul(dev.rand((2, 3, 4)), dev.rand(5))


@pytest.mark.parametrize("device", (5, "", 1.5, "cpu", 0, False))
def test_devices_are_devices(device: Any) -> None:
    for call in (pk.zeros, pk.ones, pk.empty):
        with pytest.raises(pk.DTypeError, match=r"device must be a pykernels\.Device or None"):
            call(3, device=device)


@pytest.mark.parametrize("adapter", (1.5, "", True, b"llvmpipe", [0]))
def test_adapters_are_numbers_or_names(adapter: Any) -> None:
    with pytest.raises(pk.ArgumentError, match="adapter must be"):
        pk.Device(adapter)


@pytest.mark.parametrize("engine", ("", "cuda", 5, ["wgpu"]))
def test_engines_are_known(engine: Any) -> None:
    with pytest.raises(pk.PyKernelsError, match="engine"):
        pk.Device(engine=engine)


def test_dlpack_refuses_what_it_cannot_do(dev: pk.Device) -> None:
    t: Any = dev.rand(3)
    with pytest.raises(pk.ArgumentError, match="stream"):
        t.__dlpack__(stream=5)
    with pytest.raises(BufferError, match="host"):
        t.__dlpack__(dl_device=(2, 0))
    assert np.from_dlpack(t).shape == (3,)


FLAGS: list[Callable[..., object]] = [
    lambda dev, v: attention(dev, is_causal=v),
    lambda dev, v: attention(dev, enable_gqa=v),
    lambda dev, v: pk.flash_attn(*(dev.rand((1, 2, 4, 8)),) * 3, causal=v),
    lambda dev, v: pk.flash_attn(*(dev.rand((1, 2, 4, 8)),) * 3, return_lse=v),
    lambda dev, v: pk.get_rows(dev.rand((4, 8)), np.array([1], "i4"), check=v),
    lambda dev, v: pk.embedding(dev.rand((4, 8)), np.array([1], "i4"), check=v),
]


@pytest.mark.parametrize("value", ("no", "", 1, 0, 1.0, None, np.float32(1)), ids=repr)
@pytest.mark.parametrize("call", FLAGS)
def test_flags_are_true_or_false(dev: pk.Device, call: Any, value: Any) -> None:
    for good in (True, np.False_):  # the same call, known from before
        call(dev, good)
    with pytest.raises(pk.ArgumentError):
        call(dev, value)


INTEGERS: list[Callable[..., object]] = [
    lambda dev, v: pk.conv2d(dev.rand((1, 1, 4, 4)), dev.rand((1, 1, 1, 1)), stride=v),
    lambda dev, v: pk.conv2d(dev.rand((1, 1, 4, 4)), dev.rand((1, 1, 1, 1)), groups=v),
    lambda dev, v: pk.softmax(dev.rand((4, 4)), v),
    lambda dev, v: dev.rand((4, 4)).reshape(v, 16),
    lambda dev, v: dev.rand((4, 4)).transpose(v, 0),
    lambda dev, v: dev.zeros((v, 2)),
]


@pytest.mark.parametrize("value", (True, 1.0, "1", np.True_), ids=repr)
@pytest.mark.parametrize("call", INTEGERS)
def test_bools_and_floats_are_no_integers(dev: pk.Device, call: Any, value: Any) -> None:
    call(dev, 1)
    with pytest.raises(pk.PyKernelsError):
        call(dev, value)


def test_a_size_above_31_bits_says_so(dev: pk.Device) -> None:
    x, w = dev.rand((1, 1, 4, 4)), dev.rand((1, 1, 1, 1))
    for name in ("stride", "padding", "dilation"):
        with pytest.raises(pk.ArgumentError, match=rf"{name} .*below 2\*\*31"):
            pk.conv2d(x, w, **{name: 2**31})  # type: ignore[call-overload]
