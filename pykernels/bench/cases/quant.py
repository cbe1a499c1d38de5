"""Quantised weights: packed from the blocks of a file, dequantised, quantised from floats, and
looked up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Array, Case, Operand, Part
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName
from pykernels.plans.quant.raw_types import RAW, row_bytes
from pykernels.plans.quant.types import GROUP, TYPES, planes
from pykernels.tensors.raw_quantised import entries

COLUMNS = 256  # number of columns that are checked
MAIN = {
    "dequantize": ("u32>f32-4096x4096-q4_0", "u32>f32-4096x4096-q4_k"),
    "pack_blocks": ("u8xu32>u32-4096x4096-q4_0",),
    "quantised_rows": ("u32xi32>f32-512x32000x4096-q4_0",),
    "quantize": ("f32xu32>u32-4096x4096-q8_0",),
    "raw_rows": ("u8xi32>f32-512x32000x4096-float8_e4m3",),
    "rope_append_quant": ("f16xi32xf32xu32>f16-48x16x1x512x64-q8_0",),
    "unpack_blocks": ("u32>u8-4096x4096-q4_0",),
}
# The names of the planes of a type.
_PLANES = ("low", "scales", "high")


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 1 << 32, shape, dtype=np.uint32)


def halves(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Scales: words of two halves from 1 to 2."""
    return rng.integers(0, 1 << 32, shape, dtype=np.uint32) & 0x03FF03FF | 0x3C003C00


def steps(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Integers, of which the largest in each block is 127, so that no number lies between two
    steps."""
    x = rng.integers(-127, 128, shape)
    x[..., ::GROUP] = 127
    return x


def operands(name: str, rows: int, columns: int) -> dict[str, Operand]:
    """The operands for the planes of a matrix."""
    low, scales, high = planes("bench", TYPES[name], (rows, columns))
    found = {"low": Operand(low, "uint32", values=words)}
    found["scales"] = Operand(scales, "uint32", values=halves)
    if high is not None:
        found["high"] = Operand(high, "uint32", values=words)
    return found


def some(name: str) -> Part:
    """A part for checking: some blocks of all rows."""
    kind = TYPES[name]

    def part(t: dict[str, Any]) -> dict[str, Any]:
        blocks = min(COLUMNS // kind.block, t["scales"].shape[1])
        last = {"raw": blocks * kind.nbytes, "dst": blocks * kind.block, "x": blocks * kind.block}
        if "raw" not in t and t["dst" if "dst" in t else "x"].dtype == "uint8":
            last["dst"] = blocks * kind.nbytes
        axis = {"low": blocks * kind.block // GROUP, "high": blocks * kind.block // GROUP}
        axis["scales"] = blocks
        cut_to = {n: (slice(None), slice(axis[n])) for n in _PLANES}
        return {
            n: a[cut_to[n]] if n in cut_to else a[..., : last[n]] if n in last else a
            for n, a in t.items()
        }

    return part


def dequantize(
    shape: tuple[int, ...] = (4096, 4096), dtype: str = "", out: str = "float32",
    name: str = "q4_0",
) -> Case:  # fmt: skip
    """A case: a matrix of quantised weights becomes floats."""
    rows, columns = _sizes(shape, name)
    dst = Operand((rows, columns), cast(DTypeName, out or "float32"))
    tensors = {**operands(name, rows, columns), "dst": dst}
    return Case("dequantize", tensors, {"quant": name}, (rows, columns), name, part=some(name))


def pack_blocks(
    shape: tuple[int, ...] = (4096, 4096), dtype: str = "", out: str = "", name: str = "q4_0"
) -> Case:
    """A case: a matrix of weights in the blocks of a file is packed into planes."""
    rows, columns = _sizes(shape, name)
    raw = Operand((1, rows, columns // TYPES[name].block * TYPES[name].nbytes), "uint8")
    own = operands(name, rows, columns)
    tensors = {"raw": raw} | {n: own[n] for n in ("scales", "low", "high") if n in own}
    return Case("pack_blocks", tensors, {"quant": name}, (rows, columns), name, part=some(name))


def unpack_blocks(
    shape: tuple[int, ...] = (4096, 4096), dtype: str = "", out: str = "", name: str = "q4_0"
) -> Case:
    """A case: the planes of a matrix of weights are unpacked into the blocks of a file."""
    rows, columns = _sizes(shape, name)
    dst = Operand((1, rows, columns // TYPES[name].block * TYPES[name].nbytes), "uint8")
    tensors = {**operands(name, rows, columns), "dst": dst}
    return Case("unpack_blocks", tensors, {"quant": name}, (rows, columns), name, part=some(name))


def quantize(
    shape: tuple[int, ...] = (4096, 4096), dtype: str = "float32", out: str = "",
    name: str = "q8_0",
) -> Case:  # fmt: skip
    """A case: a matrix of floats is quantised."""
    rows, columns = _sizes(shape, name)
    own = operands(name, rows, columns)
    x = Operand((rows, columns), cast(DTypeName, dtype), values=steps)
    tensors = {"x": x} | {n: own[n] for n in ("scales", "low", "high") if n in own}
    return Case("quantize", tensors, {"quant": name}, (rows, columns), name, part=some(name))


def quantised_rows(
    shape: tuple[int, ...] = (512, 32000, 4096), dtype: str = "", out: str = "float32",
    name: str = "q4_0",
) -> Case:  # fmt: skip
    """A case: embeddings, which are rows of a table, for a number of tokens."""
    count, rows, columns = shape if len(shape) == 3 else (shape[0], *_sizes(shape, name))
    rows, columns = _sizes((rows, columns), name)

    def places(rng: np.random.Generator, own: tuple[int, ...]) -> Array:
        return rng.integers(0, rows, own).astype(np.int32)

    tensors = {
        **operands(name, rows, columns), "index": Operand((count,), "int32", values=places),
        "dst": Operand((count, columns), cast(DTypeName, out or "float32")),
    }  # fmt: skip
    args = {"quant": name, "rows": rows}
    return Case("quantised_rows", tensors, args, (count, rows, columns), name, part=some(name))


def raw_rows(
    shape: tuple[int, ...] = (512, 32000, 4096), dtype: str = "", out: str = "float32",
    name: str = "float8_e4m3",
) -> Case:  # fmt: skip
    """A case: embeddings in blocks of a file. All types but float8_e4m3 need the package
    gguf."""
    kind = RAW[name]
    count, rows, columns = shape if len(shape) == 3 else (shape[0], *shape)
    columns = max(columns // kind.block, 1) * kind.block
    own = row_bytes("bench", kind, (rows, columns))

    def places(rng: np.random.Generator, own: tuple[int, ...]) -> Array:
        return rng.integers(0, rows, own).astype(np.int32)

    def scaled(rng: np.random.Generator, own: tuple[int, ...]) -> Array:
        raw = rng.integers(0, 256, own, dtype=np.uint8)
        scale = np.ones(1, np.float16)
        if name == "float8_e4m3":
            scale = np.ones(1, np.float32)
            raw &= 0xBF  # so that there is no NaN, and numbers are below 2
        one = scale.view(np.uint8)
        raw.reshape(-1, kind.nbytes)[:, : one.size] = one
        return raw

    def part(t: dict[str, Any]) -> dict[str, Any]:
        return {
            n: a[:, : kind.nbytes] if n == "data" else a[..., : kind.block] if n == "dst" else a
            for n, a in t.items()
        }

    tensors = {"data": Operand((rows, own), "uint8", values=scaled)}
    if kind.words:
        tensors["table"] = Operand((kind.words,), "uint32", values=lambda *_: entries(kind))
    tensors |= {
        "index": Operand((count,), "int32", values=places),
        "dst": Operand((count, columns), cast(DTypeName, out or "float32")),
    }
    return Case("raw_rows", tensors, {"quant": name}, (count, rows, columns), name, part=part)


def rope_append_quant(
    shape: tuple[int, ...] = (48, 16, 1, 512, 64), dtype: str = "float16", out: str = "",
    name: str = "q8_0",
) -> Case:  # fmt: skip
    """A case of the shape (heads, heads of keys and values, tokens, room, width); all angles are 0,
    so that keys are exact."""
    heads, kept, tokens, room, width = shape
    width = max(width // GROUP, 1) * GROUP
    kind = cast(DTypeName, dtype)
    low, scales, _ = planes("bench", TYPES[name], (kept, room, width))
    tensors = {
        "x": Operand((heads, tokens, width), kind, values=steps),
        "positions": Operand((tokens,), "int32", values=first_rows),
        "table": Operand((2, 1024, 2, width // 2), "float32", values=no_angles),
        "scales": Operand(scales, "uint32", values=halves),
        "low": Operand(low, "uint32", values=words),
        "dst": Operand((heads - kept, tokens, width), kind),
    }  # fmt: skip
    args = {"style": "neox", "quant": name, "room": room}
    return Case("rope_append_quant", tensors, args, (heads, kept, tokens, room, width), name)


def first_rows(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.arange(shape[-1], dtype=np.int32)


def no_angles(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A table of angles whose cosines are 1 and whose sines are 0."""
    found = np.zeros(shape)
    found[:, :, 0] = 1
    return found


def _sizes(shape: tuple[int, ...], name: str) -> tuple[int, int]:
    """The numbers of rows and of columns of a matrix; the columns are a multiple of a block."""
    columns = shape[-1] if shape else GROUP
    block = TYPES[name].block
    return max(math.prod(shape[:-1]), 1), max(columns // block, 1) * block


def cases(edge: int = 0) -> Iterator[Case]:
    size = (cut(4096, edge), cut(4096, edge))
    for name in ("q4_0", "q8_0", "q4_k", "q5_k", "q6_k"):
        yield dequantize(size, name=name)
    yield dequantize(size, out="float16")
    for name in ("q4_0", "q6_k"):
        yield pack_blocks(size, name=name)
        yield unpack_blocks(size, name=name)
    for name in ("q8_0", "q4_0"):
        yield quantize(size, name=name)
    for name in ("q8_0", "q4_0"):
        yield rope_append_quant((48, 16, 1, cut(512, edge), 64), name=name)
    yield quantised_rows((cut(512, edge), cut(32000, edge), cut(4096, edge)))
    for name in ("float8_e4m3", *(("iq2_xxs", "tq2_0") if find_spec("gguf") else ())):
        yield raw_rows((cut(512, edge), cut(32000, edge), cut(4096, edge)), name=name)


PEERS: dict[str, Any] = {}
