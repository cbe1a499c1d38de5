"""Tensors from and to textures: formats, odd sizes, layers, levels, order, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import numpy_dtype

pytestmark = pytest.mark.gpu
COPY_SRC, COPY_DST, TEXTURE = 1, 2, 4
FORMATS = [
    ("r8unorm", "uint8", 1), ("r8snorm", "int8", 1), ("r8uint", "uint8", 1), ("r8sint", "int8", 1),
    ("r16uint", "uint16", 1), ("r16sint", "int16", 1), ("r16float", "float16", 1),
    ("rg8unorm", "uint8", 2), ("rg8sint", "int8", 2), ("r32float", "float32", 1),
    ("r32uint", "uint32", 1), ("r32sint", "int32", 1), ("rg16float", "float16", 2),
    ("rgba8unorm", "uint8", 4), ("rgba8unorm-srgb", "uint8", 4), ("bgra8unorm", "uint8", 4),
    ("rg32float", "float32", 2), ("rgba16float", "float16", 4), ("rgba16uint", "uint16", 4),
    ("rgba32float", "float32", 4), ("rgba32uint", "uint32", 4),
]  # fmt: skip


def texture_of(dev: pk.Device, size: tuple[int, int, int], fmt: str, **more: Any) -> Any:
    usage = more.pop("usage", COPY_SRC | COPY_DST | TEXTURE)
    return dev.wgpu_device.create_texture(size=size, format=fmt, usage=usage, **more)


@pytest.mark.parametrize(("fmt", "dtype", "channels"), FORMATS, ids=[f[0] for f in FORMATS])
def test_round_trip(dev: pk.Device, fmt: str, dtype: pk.DTypeName, channels: int) -> None:
    width, height = 67, 5
    shape = (height, width) if channels == 1 else (height, width, channels)
    values = np.random.default_rng(0).integers(0, 100, shape).astype(numpy_dtype(dtype))
    whole = dev.zeros((height, 2 * width, *shape[2:]), dtype)
    view = whole[:, 1::2]  # every second column
    view[...] = values
    texture = texture_of(dev, (width, height, 1), fmt)
    view.to_texture(texture)
    found = pk.Tensor.from_texture(texture, device=dev)
    assert found.shape == shape and found.dtype == dtype
    assert (found.numpy() == values).all()


def test_layers_slices_and_levels(dev: pk.Device) -> None:
    values = np.arange(3 * 4 * 6 * 4, dtype=np.float32).reshape(3, 4, 6, 4)
    for dimension in ("2d", "3d"):
        texture = texture_of(dev, (6, 4, 3), "rgba32float", dimension=dimension)
        dev.tensor(values).to_texture(texture)
        assert (pk.Tensor.from_texture(texture, device=dev).numpy() == values).all()
    texture = texture_of(dev, (13, 8, 1), "r8uint", mip_level_count=3)
    for level, shape in enumerate([(8, 13), (4, 6), (2, 3)]):
        level_values = np.full(shape, level + 1, np.uint8)
        dev.tensor(level_values).to_texture(texture, level=level)
    for level, shape in enumerate([(8, 13), (4, 6), (2, 3)]):
        found = pk.Tensor.from_texture(texture, level=level, device=dev)
        assert found.shape == shape and (found.numpy() == level + 1).all()


def test_copies_are_in_order_with_launches(dev: pk.Device) -> None:
    texture = texture_of(dev, (16, 16, 1), "r32float")
    x = dev.zeros((16, 16))
    found = []
    with dev.batch():
        for n in range(4):
            x[...] = float(n)
            x.to_texture(texture)
            x[...] = -1.0
            found.append(pk.Tensor.from_texture(texture, device=dev))
    assert [t.numpy().max() for t in found] == [0, 1, 2, 3]


def test_what_is_refused(dev: pk.Device) -> None:
    texture = texture_of(dev, (8, 4, 1), "rgba8unorm")
    x = dev.zeros((4, 8, 4), "uint8")
    for make, error, said in (
        (lambda: dev.zeros((8, 4, 4), "uint8").to_texture(texture), pk.ShapeError, "(4, 8, 4)"),
        (lambda: dev.zeros((4, 8, 4)).to_texture(texture), pk.DTypeError, "takes uint8"),
        (lambda: x.to_texture(texture, level=1), pk.ArgumentError, "level must be from 0 to 0"),
        (lambda: x.to_texture(x), pk.DTypeError, "must be a GPUTexture"),  # type: ignore[arg-type]
        (lambda: pk.Tensor.from_texture(3), pk.DTypeError, "must be a GPUTexture"),
        (lambda: pk.Tensor.from_texture(texture_of(dev, (8, 4, 1), "rgb10a2unorm"), device=dev),
         pk.DTypeError, "rgb10a2unorm"),
        (lambda: x.to_texture(texture_of(dev, (8, 4, 1), "rgba8unorm", usage=TEXTURE)),
         pk.PyKernelsError, "COPY_DST|CopyDst|COPY DST"),
    ):  # fmt: skip
        with pytest.raises(error, match=said.replace("(", r"\(").replace(")", r"\)")):
            make()
    with dev.capture(), pytest.raises(pk.BufferStateError, match="to_texture"):
        x.to_texture(texture)
    x.to_texture(texture)  # the device works on
    assert (pk.Tensor.from_texture(texture, device=dev).numpy() == 0).all()
