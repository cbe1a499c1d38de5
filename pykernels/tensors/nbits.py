"""Weights of ONNX's MatMulNBits as blocks of a QTensor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.quant.types import GROUP

from .host import type_name

__all__ = ["Blocks", "blocks_of"]

NDArray = np.ndarray[Any, np.dtype[Any]]
_OP = "from_nbits"


class Blocks(NamedTuple):
    """The name of a type, and rows of blocks of this type."""

    type: str
    rows: NDArray  # uint8 (n, bytes of a row)


def blocks_of(
    data: Any, scales: Any, zero_points: Any, shape: tuple[int, ...], bits: int, block: int
) -> Blocks:
    """Blocks made of arrays in ONNX's form. Of the types that can hold the numbers, the type with
    the fewest bytes is used."""
    n, k, count = _checked(shape, bits, block)
    numbers = _bytes("data", data)
    want = n * count * block * bits // 8
    if numbers.size != want:
        raise ShapeError(f"[{_OP}] data must have {want} bytes but has {numbers.size}")
    pairs = numbers.reshape(n, -1)[:, : k * bits // 8].reshape(n, k // GROUP, -1)
    factors = _numbers("scales", scales, n, count)
    zeros = _zeros(zero_points, n, count, bits)
    each = GROUP if block >= GROUP else block
    d, z = (np.repeat(v, block // each, 1)[:, : k // each] for v in (factors, zeros))
    with np.errstate(over="ignore"):
        halves = d.astype(np.float16)
    if each < GROUP or not _same(halves, d) or not _are_bytes(z):
        both = [v.astype(np.float32).reshape(n, k // GROUP, -1) for v in (d, z)]
        parts = [np.repeat(v, 2 // v.shape[-1], -1).view(np.uint8) for v in both]
        return Blocks(f"nbits{bits}_16", _joined(n, *parts, pairs))
    record = halves[..., None].view(np.uint8)
    if (z == 1 << (bits - 1)).all():  # use one of ggml's types, which need fewer bytes
        return _of_ggml(bits, n, record, pairs)
    zero = np.stack([z.astype(np.uint8), np.zeros(z.shape, np.uint8)], -1)
    return Blocks(f"nbits{bits}", _joined(n, record, zero, pairs))


def _of_ggml(bits: int, n: int, record: NDArray, pairs: NDArray) -> Blocks:
    if bits == 8:
        return Blocks("q8_0", _joined(n, record, pairs ^ 0x80))
    each = np.stack([pairs & 15, pairs >> 4], -1).reshape(*pairs.shape[:-1], GROUP)
    return Blocks("q4_0", _joined(n, record, each[..., :16] | each[..., 16:] << 4))


def _joined(n: int, *parts: NDArray) -> NDArray:
    found: NDArray = np.concatenate(parts, -1).reshape(n, -1)
    return found


def _checked(shape: tuple[int, ...], bits: int, block: int) -> tuple[int, int, int]:
    """N, K and the number of blocks in a row."""
    if bits not in (4, 8):
        raise ArgumentError(f"[{_OP}] bits must be 4 or 8 but is {bits!r:.60}")
    if not isinstance(block, int) or block < 16 or block & (block - 1):
        raise ArgumentError(f"[{_OP}] block must be a power of two from 16 on but is {block!r:.60}")
    if len(shape) != 2 or shape[1] % GROUP:
        raise ShapeError(f"[{_OP}] shape must be (n, k), k a multiple of {GROUP}, but is {shape}")
    return shape[0], shape[1], -(-shape[1] // block)


def _bytes(name: str, value: Any) -> NDArray:
    if isinstance(value, bytes | bytearray | memoryview):
        return np.frombuffer(value, np.uint8)
    if not isinstance(value, np.ndarray):
        raise DTypeError(f"[{_OP}] {name} must be a numpy array but is {type_name(value)}")
    if value.dtype != np.uint8:
        raise DTypeError(f"[{_OP}] {name} must be uint8 but is {value.dtype}")
    return value.reshape(-1)


def _numbers(name: str, value: Any, n: int, count: int) -> NDArray:
    """One number for each block, (n, count)."""
    if not isinstance(value, np.ndarray):
        raise DTypeError(f"[{_OP}] {name} must be a numpy array but is {type_name(value)}")
    if value.dtype not in (np.float32, np.float16):
        raise DTypeError(f"[{_OP}] {name} must be float32 or float16 but is {value.dtype}")
    if value.size != n * count:
        raise ShapeError(
            f"[{_OP}] {name} must have {n} x {count} elements but has shape {value.shape}"
        )
    return value.reshape(n, count)


def _zeros(value: Any, n: int, count: int, bits: int) -> NDArray:
    """The zero point of each block, from floats or from bytes that are packed like the numbers."""
    if value is None:
        return np.full((n, count), 1 << (bits - 1), np.float32)
    if isinstance(value, np.ndarray) and value.dtype != np.uint8:
        return _numbers("zero_points", value, n, count)
    packed, width = _bytes("zero_points", value), -(-count * bits // 8)
    if packed.size != n * width:
        raise ShapeError(f"[{_OP}] zero_points must have {n} x {width} bytes but has {packed.size}")
    rows = packed.reshape(n, width)
    if bits == 4:
        rows = np.stack([rows & 15, rows >> 4], -1).reshape(n, -1)[:, :count]
    return rows.astype(np.float32)


def _same(halves: NDArray, d: NDArray) -> bool:
    """True if the scales as halves equal the scales; NaN counts as equal to NaN."""
    return bool(((halves.astype(np.float32) == d) | np.isnan(d)).all())


def _are_bytes(z: NDArray) -> bool:
    return bool(((z >= 0) & (z <= 255) & (z == np.floor(z))).all())
