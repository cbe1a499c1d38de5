"""Copies between tensors and textures, on the device.

The rows of a texture lie in a buffer at multiples of 256 bytes, so a copy goes through a buffer
with such rows. Elements are bytes as the format stores them: nothing is converted.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import ArgumentError, BufferStateError, DTypeError, ShapeError

from .host import type_name

__all__ = ["Texels", "read_texture", "texels", "write_texture"]

ROW = 256  # WebGPU requires that bytes_per_row of a copy is a multiple of this
_FORMAT = re.compile(r"(r|rg|rgba|bgra)(8|16|32)(unorm|snorm|uint|sint|float)(-srgb)?")
_KINDS = {"unorm": "uint", "snorm": "int", "uint": "uint", "sint": "int", "float": "float"}


class Texels(NamedTuple):
    """The shape and dtype of a texture's tensor. With one channel, there is no axis of channels."""

    shape: tuple[int, ...]
    dtype: DTypeName
    width: int
    rows: int  # rows of all layers together
    row_bytes: int


def texels(op: str, texture: Any, level: int) -> Texels:
    """The texels of one mip level. Raises an error for a texture that cannot be copied."""
    try:
        dimension, fmt, levels = texture.dimension, texture.format, texture.mip_level_count
        width, height, depth = texture.size
    except (AttributeError, TypeError, ValueError):
        raise DTypeError(
            f"[{op}] texture must be a GPUTexture but is {type_name(texture)}"
        ) from None
    found = _FORMAT.fullmatch(str(fmt))
    dtype = found and f"{_KINDS[found[3]]}{found[2]}"
    if found is None or dtype not in DTYPES:
        raise DTypeError(
            f"[{op}] the texture must have a format of 8, 16 or 32 bits a channel (r8unorm to "
            f"rgba32float), of a dtype of tensors, but has {fmt}"
        )
    if texture.sample_count != 1 or str(dimension) not in ("2d", "3d"):
        raise ArgumentError(
            f"[{op}] the texture must be 2d or 3d with one sample but is {dimension} with "
            f"{texture.sample_count}"
        )
    if type(level) is not int or not 0 <= level < levels:
        raise ArgumentError(f"[{op}] level must be from 0 to {levels - 1} but is {level!r:.40}")
    width, height = max(width >> level, 1), max(height >> level, 1)
    if str(dimension) == "3d":
        depth = max(depth >> level, 1)
    layers = (depth,) if str(dimension) == "3d" or depth > 1 else ()
    channels = () if found[1] == "r" else (len(found[1]),)
    row_bytes = width * len(found[1]) * int(found[2]) // 8
    shape = (*layers, height, width, *channels)
    return Texels(shape, dtype, width, height * depth, row_bytes)  # type: ignore[arg-type]


def write_texture(t: Any, texture: Any, level: int) -> None:
    """Copy a tensor to a mip level of a texture; see `Tensor.to_texture`."""
    found = texels("to_texture", texture, level)
    context = _checked("to_texture", t.device, texture)
    if t.dtype != found.dtype:
        raise DTypeError(
            f"[to_texture] a texture of the format {texture.format} takes {found.dtype}, but the "
            f"tensor is {t.dtype}"
        )
    if t.shape != found.shape:
        raise ShapeError(
            f"[to_texture] the texture takes {found.shape}, but the tensor has the shape {t.shape}"
        )
    rows = _rows(t.device, found)
    rows[:, : rows_of(found)] = t.reshape((found.rows, rows_of(found)))
    _copy(context, rows, texture, level, found, to_texture=True)


def read_texture(device: Any, texture: Any, level: int) -> Any:
    """A new tensor with the texels of a mip level; see `Tensor.from_texture`."""
    found = texels("from_texture", texture, level)
    context = _checked("from_texture", device, texture)
    rows = _rows(device, found)
    _copy(context, rows, texture, level, found, to_texture=False)
    return rows[:, : rows_of(found)].copy().reshape(found.shape)


def rows_of(found: Texels) -> int:
    """Elements of a row."""
    return found.row_bytes // DTYPES[found.dtype].itemsize


def _checked(op: str, device: Any, texture: Any) -> Any:
    context = device._context
    context.check()
    context.refuse(op, "inside a capture or a recorded pass")
    if getattr(texture, "_device", None) is not context.raw:
        raise BufferStateError(f"[{op}] the texture belongs to another device")
    return context


def _rows(device: Any, found: Texels) -> Any:
    """A tensor with padded rows, to which and from which a texture can be copied."""
    pitch = -(-found.row_bytes // ROW) * ROW
    return device.empty((found.rows, pitch // DTYPES[found.dtype].itemsize), found.dtype)


def _copy(
    context: Any, rows: Any, texture: Any, level: int, found: Texels, *, to_texture: bool
) -> None:
    """Run one copy after all launches that were recorded before it: they are submitted first."""
    buffer = rows.buffer
    layers, height = (1, *found.shape)[:2] if found.rows == found.shape[0] else found.shape[:2]
    pitch = rows.shape[1] * rows._layout.dtype.itemsize
    linear = {
        "buffer": buffer, "offset": rows.offset, "bytes_per_row": pitch, "rows_per_image": height,
    }  # fmt: skip
    place = {"texture": texture, "mip_level": level, "origin": (0, 0, 0)}
    size = (found.width, height, layers)
    with context.lock:
        try:
            encoder = context.raw.create_command_encoder()
            if to_texture:
                encoder.copy_buffer_to_texture(linear, place, size)
            else:
                encoder.copy_texture_to_buffer(place, linear, size)
            context.raw.queue.submit([encoder.finish()])
        except context.engine.error_class as e:
            raise context.engine.error(e, "copy of a texture") from None
