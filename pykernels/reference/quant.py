"""Quantised weights: blocks of a file, planes of a device, and numbers, in numpy's float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pykernels.plans.quant.types import GROUP, ROWS, TYPES, BlockType

from .raw_quant import raw_rows
from .rope import rope

__all__ = [
    "dequantize",
    "dequantized",
    "pack_blocks",
    "quantised_rows",
    "quantize",
    "raw_rows",
    "rope_append_quant",
    "unpack_blocks",
]  # fmt: skip

Array = np.ndarray[Any, Any]
IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


class Places(NamedTuple):
    """How a block of a file stores numbers: for number i, the byte and the shift of its lower bits
    and of its upper bits; and the bytes of each word of the record, which holds the scales."""

    low: tuple[Array, Array]
    high: tuple[Array, Array] | None
    record: tuple[range, ...]


def _places(kind: BlockType) -> Places:
    i = np.arange(kind.block)
    half, four, two = i & 15, i & 31, i >> 7
    nibble = (half, 4 * (i >> 4 & 1))
    wide = (32 * (i >> 6) + four, 4 * (i >> 5 & 1))
    pairs = (32 * two + four, 2 * (i >> 5 & 3))
    eighths = (four, i >> 5)
    words = {
        "q4_0": ((2, nibble), None, (range(2),)),
        "q4_1": ((4, nibble), None, (range(4),)),
        "q5_0": ((6, nibble), (2, (i >> 3, i & 7)), (range(2),)),
        "q5_1": ((8, nibble), (4, (i >> 3, i & 7)), (range(4),)),
        "q8_0": ((2, (i, 0 * i)), None, (range(2),)),
        "q2_k": ((16, pairs), None, (*_fours(0, 4), range(80, 84))),
        "q3_k": ((32, pairs), (0, eighths), (*_fours(96, 3), range(108, 110))),
        "q4_k": ((16, wide), None, _fours(0, 4)),
        "q5_k": ((48, wide), (16, eighths), _fours(0, 4)),
        "q6_k": (
            (0, (64 * two + (i & 63), 4 * (i >> 6 & 1))), (128, pairs),
            (*_fours(192, 4), range(208, 210)),
        ),
        "iq4_nl": ((2, nibble), None, (range(2),)),
        "iq4_xs": ((8, (16 * (i >> 5) + half, 4 * (i >> 4 & 1))), None, _fours(0, 2)),
        "mxfp4": ((1, nibble), None, (range(1),)),
        "nbits4": ((4, (i >> 1, 4 * (i & 1))), None, (range(4),)),
        "nbits8": ((4, (i, 0 * i)), None, (range(4),)),
        "nbits4_16": ((16, (i >> 1, 4 * (i & 1))), None, _fours(0, 4)),
        "nbits8_16": ((16, (i, 0 * i)), None, _fours(0, 4)),
    }  # fmt: skip
    low, high, record = words[kind.name]
    above = None if high is None else (high[0] + high[1][0], high[1][1])
    return Places((low[0] + low[1][0], low[1][1]), above, record)


def _fours(first: int, count: int) -> tuple[range, ...]:
    return tuple([range(first + 4 * k, first + 4 * k + 4) for k in range(count)])


def _bits(kind: BlockType) -> int:
    return kind.vec * kind.parts  # bits of a number in `low`


def _read(kind: BlockType, raw: Array) -> tuple[Array, Array]:
    """Take rows of bytes apart into stored numbers (..., K) and records (..., blocks, words), both
    uint32."""
    blocks = raw.reshape(*raw.shape[:-1], -1, kind.nbytes).astype(np.uint32)
    at, bits = _places(kind), _bits(kind)
    stored = blocks[..., at.low[0]] >> at.low[1] & 2**bits - 1
    if at.high is not None:
        stored |= (blocks[..., at.high[0]] >> at.high[1] & 2**kind.high - 1) << bits
    if kind.name == "q8_0":
        stored ^= 0x80
    words = [sum(blocks[..., b] << 8 * e for e, b in enumerate(word)) for word in at.record]
    record = np.stack(words, -1).astype(np.uint32)
    return stored.reshape(*raw.shape[:-1], -1).astype(np.uint32), record


def _write(kind: BlockType, stored: Array, record: Array) -> Array:
    """The inverse of `_read`: rows of bytes."""
    stored = stored.reshape(*record.shape[:-1], kind.block)
    if kind.name == "q8_0":
        stored = stored ^ 0x80
    out = np.zeros((*record.shape[:-1], kind.nbytes), np.uint32)
    at, bits = _places(kind), _bits(kind)
    for i in range(kind.block):
        out[..., at.low[0][i]] |= (stored[..., i] & 2**bits - 1) << int(at.low[1][i])
        if at.high is not None:
            out[..., at.high[0][i]] |= stored[..., i] >> bits << int(at.high[1][i])
    for k, word in enumerate(at.record):
        for e, b in enumerate(word):
            out[..., b] |= record[..., k] >> 8 * e & 0xFF
    return out.astype(np.uint8).reshape(*record.shape[:-2], -1)


def _plane(numbers: Array, bits: int, words: int) -> Array:
    """Words (..., K / 32, words) of a plane that holds `bits` bits of each number."""
    s = (numbers & 2**bits - 1).reshape(*numbers.shape[:-1], -1, words, 16 // bits, 2)
    shifts = np.arange(16 // bits, dtype=np.uint32) * bits
    couples = s[..., 0] | s[..., 1] << 16
    found: Array = np.bitwise_or.reduce(couples << shifts, -1).astype(np.uint32)
    return found


def _numbers(plane: Array, bits: int) -> Array:
    """The inverse of `_plane`: numbers (..., K) from words (..., K / 32, words)."""
    shifts = np.arange(16 // bits, dtype=np.uint32) * bits
    couples = plane[..., None] >> shifts
    both = np.stack([couples, couples >> 16], -1) & 2**bits - 1
    found: Array = both.reshape(*plane.shape[:-2], -1)
    return found


def _padded(rows: Array) -> Array:
    """The array (batches, N, ...), padded to a multiple of four rows."""
    more = -rows.shape[1] % ROWS
    return np.pad(rows, ((0, 0), (0, more), *[(0, 0)] * (rows.ndim - 2)))


def _planes(kind: BlockType, stored: Array, record: Array) -> tuple[Array, ...]:
    """The planes (scales, low, and high if the type has it) of stored numbers (batches, N, K)."""
    bits = _bits(kind)
    low = _padded(_plane(stored, bits, bits))
    low = low.reshape(*low.shape[:3], kind.parts, kind.vec).transpose(0, 2, 3, 1, 4)
    scales = _padded(record)
    shape = (scales.shape[0], -1, kind.share, *scales.shape[2:])
    shifts = (np.arange(kind.share, dtype=np.uint32) * (32 // kind.share))[:, None, None]
    scales = np.bitwise_or.reduce(scales.reshape(shape) << shifts, 2).transpose(0, 2, 3, 1)
    if not kind.high:
        return scales, low
    above = _padded(_plane(stored >> bits, kind.high, kind.high)).transpose(0, 2, 3, 1)
    return scales, low, above


def _unplaned(
    kind: BlockType, low: Array, scales: Array, high: Array | None, rows: int
) -> tuple[Array, Array]:
    """The stored numbers (batches, N, K) and the records that planes hold."""
    bits = _bits(kind)
    words = low.transpose(0, 3, 1, 2, 4).reshape(low.shape[0], low.shape[3], low.shape[1], -1)
    stored = _numbers(words, bits)
    if high is not None:
        stored |= _numbers(high.transpose(0, 3, 1, 2), kind.high) << bits
    size = 32 // kind.share
    shifts = np.arange(kind.share, dtype=np.uint32) * size
    record = scales.transpose(0, 3, 1, 2)[:, :, None] >> shifts[:, None, None] & 2**size - 1
    record = record.reshape(record.shape[0], -1, *record.shape[3:])
    return stored[:, :rows], record[:, :rows]


def pack_blocks(raw: Array, quant: str = "q4_0") -> tuple[Array, ...]:
    """The planes (scales, low, and high if the type has it) of blocks of a file."""
    return _planes(TYPES[quant], *_read(TYPES[quant], raw))


def unpack_blocks(
    low: Array,
    scales: Array,
    shape: tuple[int, ...],
    high: Array | None = None,
    quant: str = "q4_0",
) -> Array:
    """The blocks of a file that planes hold."""
    return _write(TYPES[quant], *_unplaned(TYPES[quant], low, scales, high, shape[1]))


def dequantized(quant: str, raw: Array) -> Array:
    """The float32 numbers (..., K) of rows of a file's bytes."""
    return _values(TYPES[quant], *_read(TYPES[quant], raw))


def dequantize(
    low: Array, scales: Array, shape: tuple[int, ...], dtype: Any, high: Array | None = None,
    quant: str = "q4_0",
) -> Array:  # fmt: skip
    """The numbers that planes hold."""
    stored, record = _unplaned(TYPES[quant], low, scales, high, shape[-2])
    with np.errstate(all="ignore"):
        return _values(TYPES[quant], stored, record).reshape(shape).astype(dtype)


def packed_sizes(
    low: Array, scales: Array, shape: tuple[int, int], high: Array | None, quant: str
) -> tuple[Array, Array]:
    """For sums of products in packed float16: the magnitudes (N, K) of the terms that weights give,
    and the magnitudes of their scales. With offsets, a weight gives two terms: the scaled number
    minus the middle of its range, and this middle minus the offset."""
    kind = TYPES[quant]
    stored, record = _unplaned(kind, low, scales, high, shape[0])
    with np.errstate(all="ignore"):
        scale, offset = (None if v is None else v.astype(np.float64) for v in _scales(kind, record))
        assert scale is not None
        q = _integers(kind, stored).astype(np.float64).reshape(*scale.shape, -1)
        if quant.startswith("nbits"):
            q = q - _zeros(kind, record)[..., None]
        size = np.abs(scale)[..., None] * np.ones_like(q)
        if offset is None:
            found = size * np.abs(q)
        else:
            middle = 2 ** (_bits(kind) + kind.high - 1)
            found = size * np.abs(q - middle) + np.abs(scale * middle - offset)[..., None]
    return found.reshape(shape), size.reshape(shape)


def quantised_rows(
    low: Array, scales: Array, index: Array, dtype: Any, high: Array | None = None,
    quant: str = "q4_0", rows: int = 0, check: bool = True,
) -> Array:  # fmt: skip
    """Rows of the numbers that planes hold; rows for indices out of range are unspecified."""
    stored, record = _unplaned(TYPES[quant], low, scales, high, rows)
    with np.errstate(all="ignore"):
        whole = _values(TYPES[quant], stored, record)[0]
        found: Array = whole[np.clip(index, 0, rows - 1)].astype(dtype)
        return found


def rope_append_quant(
    x: Array, positions: Array, scales: Array, low: Array, dst: Array,
    table: Array | None = None, style: str = "normal", quant: str = "q8_0", room: int = 0,
    check: bool = True,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Planes of a cache after the keys and values of x are written to it; and the queries, float64,
    in the shape of dst. For a position outside of the cache nothing is written, and the queries are
    rotated as at position 0."""
    queries, width = dst.shape[-3], x.shape[-1]
    lead, tokens, heads = x.shape[:-3], x.shape[-2], x.shape[-3] - queries
    q = np.broadcast_to(positions, (*lead, tokens)).astype(np.int64)
    inside = (q >= 0) & (q < room)
    turned = x.astype(np.float64)
    if table is not None:
        some = slice(0, queries + heads // 2)
        turned[..., some, :, :] = rope(x[..., some, :, :], np.where(inside, q, 0), table, style)
    made = quantize(turned[..., queries:, :, :].astype(np.float32), quant)
    kind = TYPES[quant]
    stored, record = _unplaned(kind, low, scales, None, low.shape[3])
    new, marks = _unplaned(kind, made[1], made[0], None, tokens)
    stored, record = (a.reshape(*lead, heads, *a.shape[1:]).copy() for a in (stored, record))
    new = new.reshape(*lead, heads, tokens, width)
    marks = marks.reshape(*lead, heads, tokens, *marks.shape[2:])
    for at in np.ndindex(q.shape):
        if inside[at]:
            to = (*at[:-1], slice(None), q[at])
            stored[to] = new[(*at[:-1], slice(None), at[-1])]
            record[to] = marks[(*at[:-1], slice(None), at[-1])]
    both = [a.reshape(-1, *a.shape[len(lead) + 1 :]) for a in (stored, record)]
    after = _planes(kind, both[0], both[1])
    return after[0], after[1], turned[..., :queries, :, :]


def _half(word: Array, upper: bool = False) -> Array:
    return (word >> (16 if upper else 0)).astype(np.uint16).view(np.float16).astype(np.float32)


def _bytes(words: Array) -> Array:
    """The bytes of each word as four numbers along the last axis."""
    return np.ascontiguousarray(words).view(np.uint8)


def _values(kind: BlockType, stored: Array, record: Array) -> Array:
    """scale * q, scale * q - offset (ggml), or scale * (q - zero) (ONNX), in float32."""
    with np.errstate(all="ignore"):
        scale, offset = _scales(kind, record)
        q = _integers(kind, stored).astype(np.float32).reshape(*scale.shape, -1)
        if kind.name.startswith("nbits"):
            q = q - _zeros(kind, record)[..., None]
        found = scale[..., None] * q
        if offset is not None:
            found = found - offset[..., None]
    return found.reshape(stored.shape)


def _integers(kind: BlockType, stored: Array) -> Array:
    tables = {"iq4_nl": IQ4, "iq4_xs": IQ4, "mxfp4": FP4}
    if kind.name in tables:
        return np.array(tables[kind.name])[stored]
    less = {"q4_0": 8, "q5_0": 16, "q8_0": 128, "q3_k": 4, "q6_k": 32}
    return stored.astype(np.int32) - less.get(kind.name, 0)


def _scales(kind: BlockType, record: Array) -> tuple[Array, Array | None]:
    """The scales (..., blocks, scales of a block), and the offsets or None.

    Offsets are subtracted from scale * q.
    """
    name, first = kind.name, record[..., :1]
    if name == "mxfp4":
        bits = np.where(first < 2, 0x200000 << np.minimum(first, 1), first - 1 << 23)
        return bits.astype(np.uint32).view(np.float32), None
    if name in ("q4_1", "q5_1"):
        return _half(first), -_half(first, upper=True)
    if name.endswith("_16"):
        return np.ascontiguousarray(record[..., :2]).view(np.float32), None
    if name == "iq4_xs":
        j = np.arange(8, dtype=np.uint32)
        six = (record[..., 1:] >> 4 * j & 15) | (first >> (16 + 2 * j) & 3) << 4
        return _half(first) * (six.astype(np.float32) - 32), None
    if name == "q6_k":
        signed = _bytes(record[..., :4]).view(np.int8).astype(np.float32)
        return _half(record[..., 4:]) * signed, None
    if name == "q2_k":
        both = _bytes(record[..., :4])
        d, least = _half(record[..., 4:]), _half(record[..., 4:], upper=True)
        return d * (both & 15).astype(np.float32), least * (both >> 4).astype(np.float32)
    if name == "q3_k":
        b, i = _bytes(record[..., :3]), np.arange(16)
        six = b[..., i & 7] >> 4 * (i >> 3) & 15 | (b[..., 8 + (i & 3)] >> 2 * (i >> 2) & 3) << 4
        return _half(record[..., 3:]) * (six.astype(np.float32) - 32), None
    if name in ("q4_k", "q5_k"):
        s, m, both = np.split(_bytes(record[..., 1:]), 3, -1)
        scale = np.concatenate([s & 63, both & 15 | s >> 6 << 4], -1).astype(np.float32)
        least = np.concatenate([m & 63, both >> 4 | m >> 6 << 4], -1).astype(np.float32)
        return _half(first) * scale, _half(first, upper=True) * least
    return _half(first), None


def _zeros(kind: BlockType, record: Array) -> Array:
    """The zero points (..., blocks, scales of a block)."""
    if kind.step < GROUP:
        return np.ascontiguousarray(record[..., 2:]).view(np.float32)
    return (record >> 16 & 0xFF).astype(np.float32)


def quantize(x: Array, quant: str = "q4_0") -> tuple[Array, ...]:
    """The planes of numbers (..., N, K), quantised by ggml's rule."""
    kind = TYPES[quant]
    rows = x.astype(np.float32).reshape(-1, *x.shape[-2:])
    blocks = rows.reshape(*rows.shape[:-1], -1, GROUP)
    with np.errstate(all="ignore"):
        stored, record = _made(kind, blocks)
    lost = np.isnan(blocks).any(-1, keepdims=True)
    if kind.name != "mxfp4":
        nan = 0x7E007E00 if kind.name in ("q4_1", "q5_1") else 0x7E00
        record = np.where(lost, nan, record).astype(np.uint32)
    return _planes(kind, stored.reshape(rows.shape).astype(np.uint32), record)


def _made(kind: BlockType, x: Array) -> tuple[Array, Array]:
    """The stored numbers and the records of blocks (..., 32)."""
    one = np.float32(1)
    top = np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1)
    if kind.name in ("q4_1", "q5_1"):
        most = 15 if kind.name == "q4_1" else 31
        least = x.min(-1, keepdims=True)
        d = (x.max(-1, keepdims=True) - least) / np.float32(most)
        inverse = np.where(d == 0, 0, one / d)
        q = np.clip(np.trunc((x - least) * inverse + np.float32(0.5)), 0, most)
        return q, _bits_of(d) | _bits_of(least) << 16
    if kind.name == "q8_0":
        d = np.abs(top) / np.float32(127)
        size = np.abs(x * np.where(d == 0, 0, one / d))
        whole = np.floor(size)
        q = np.copysign(np.clip(whole + np.floor(2 * (size - whole)), 0, 127), x * one)
        return q + 128, _bits_of(d)
    if kind.name == "mxfp4":
        exponent = np.frexp(np.abs(top))[1] - 1  # power of two
        e = np.where(top == 0, 0, np.maximum(exponent + 125, 0))
        scaled = np.ldexp(x.astype(np.float64), 128 - e)
        q = np.abs(np.array(FP4) - scaled[..., None]).argmin(-1)
        return q, e.astype(np.uint32)
    if kind.name == "iq4_nl":
        return _made_iq4_nl(x, top)
    half = 8 if kind.name == "q4_0" else 16
    d = top / np.float32(-half)
    inverse = np.where(d == 0, 0, one / d)
    q = np.clip(np.trunc(x * inverse + np.float32(half + 0.5)), 0, 2 * half - 1)
    return q, _bits_of(d)


def _made_iq4_nl(x: Array, top: Array) -> tuple[Array, Array]:
    one = np.float32(1)
    inverse = np.where(np.abs(top) < 1e-15, 0, one / (top / np.float32(-127)))
    table = np.array(IQ4, np.float32)
    y = (x * inverse)[..., None]
    # The index of the nearest number of the table; halfway between two numbers, the index of the
    # larger number.
    up = (y >= table[:-1]) & ~(y - table[:-1] < table[1:] - y)
    place = np.where(up, np.arange(1, 16), 0).max(-1)
    q, weight = table[place], x * x
    products = np.cumsum(weight * q * x, -1, dtype=np.float32)[..., -1:]
    squares = np.cumsum(weight * q * q, -1, dtype=np.float32)[..., -1:]
    d = np.where(np.abs(top) < 1e-15, 0, products / squares).astype(np.float32)
    return place, _bits_of(d)


def _bits_of(d: Array) -> Array:
    return d.astype(np.float32).astype(np.float16).view(np.uint16).astype(np.uint32)
