"""cpy: contiguous, at an odd offset, transposed, columns of a matrix, conversions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import BYTES, POWER, RAGGED, Shape, cut, pick
from pykernels.dtypes import DTYPES, DTypeName

# rows x cols
MATRICES = [
    Shape("4096", (4096, 4096), POWER),
    Shape("16384", (16384, 16384), POWER),
    Shape("4095", (4095, 4095), RAGGED),
    Shape("llama-3-8b-down", (4096, 14336), "Llama 3 8B: a down projection"),
]
# the shape of dst, the order of its axes in the memory of src, and a use of such a copy
PERMUTES = [
    ((4096, 4096, 16), (0, 2, 1), "few columns"),
    ((4096, 16, 4096), (0, 2, 1), "few rows"),
    ((1024, 1024, 256), (2, 1, 0), "all axes"),
    ((256, 1024, 1024), (1, 2, 0), "rotated"),
    ((32, 1024, 32, 128), (0, 2, 1, 3), "heads"),
    ((64, 3, 512, 512), (0, 2, 3, 1), "images to channels first"),
    ((64, 512, 512, 3), (0, 3, 1, 2), "images to channels last"),
    ((4096, 4096, 4), (1, 0, 2), "pairs of pairs"),
    ((1048576, 8, 8), (0, 2, 1), "small matrices"),
]
MAIN = {
    "cpy": ("f32-16384x16384-transposed", "f32-268435456", "f32>f16-16384x16384"),
    "narrow": ("i64>i32-67108864",),
}


def narrow(shape: tuple[int, ...] = (1 << 26,), dtype: str = "int64", out: str = "int32") -> Case:
    """A case: numbers of int64 that fit into int32."""
    src = Operand(shape, "int64", values=lambda rng, of: rng.integers(-(2**31), 2**31, of))
    return Case("narrow", {"src": src, "dst": Operand(shape, "int32")}, {}, shape)


def cases(edge: int = 0) -> Iterator[Case]:
    yield narrow((cut(1 << 26, edge * edge),))
    for s in pick(BYTES, edge):
        (nbytes,) = s.dims
        yield problem("cpy", (nbytes // 4,), "float32").labelled(name=s.name, origin=s.origin)
    for name in ("float32", "float16", "uint8"):
        dtype: DTypeName = name
        n = cut(1 << 28, edge * edge) // DTYPES[dtype].itemsize
        yield Case(
            "cpy", {"src": Operand((n,), dtype, phase=1), "dst": Operand((n,), dtype, gap=1)},
            shape=(n,), note="one element off",
        )  # fmt: skip
    for s in pick(MATRICES, edge):
        for name in ("float32", "float16"):
            src = Operand(s.dims, cast(DTypeName, name), order=(1, 0))
            dst = Operand(s.dims, src.dtype)
            yield Case(
                "cpy", {"src": src, "dst": dst}, shape=s.dims, note="transposed", name=s.name,
                origin=s.origin,
            )  # fmt: skip
    for shape, order, note in PERMUTES:
        for name in ("float32", "float16"):
            dims = tuple(cut(size, edge) for size in shape)
            src = Operand(dims, cast(DTypeName, name), order=order)
            dst = Operand(dims, src.dtype)
            yield Case("cpy", {"src": src, "dst": dst}, shape=dims, note=f"permuted {note}")
    for name in ("float32", "float16"):
        for width in (128, 127):  # a part of a concatenation along the last axis
            part = Operand((cut(1 << 20, edge * edge), width), cast(DTypeName, name))
            slot = Operand(part.shape, part.dtype, gap=width)
            yield Case("cpy", {"src": part, "dst": slot}, shape=part.shape, note="concatenated")
    n = cut(16384, edge)
    for pair in ("float32:float16", "float16:float32", "float32:bfloat16", "int32:uint8"):
        yield problem("cpy", (n, n), pair)
    inner = Operand((n, n - 16), "float32", gap=8, phase=8)
    yield Case("cpy", {"src": inner, "dst": inner}, shape=inner.shape, note="columns 8 to -8")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    t["dst"][...] = t["src"]


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    t["dst"].copy_(t["src"])


@onnx_peer
def ort(case: Case) -> Node:
    if case.kernel == "narrow" or case.note != "transposed" or case.shape[0] != case.shape[1]:
        raise Skipped("its output cannot be its next input, or the node computes nothing")
    return Node("Transpose", "src", ("src",), {"perm": [1, 0]}, arrange=as_it_lies)


def as_it_lies(name: str, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The operand as an array in the order of its memory; `src` is transposed there."""
    return a.T if name == "src" else a


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: each invocation copies one element, and neighbouring invocations write
    neighbouring elements."""
    src, dst = case.tensors["src"], case.output
    s, d = scalar(src), scalar(dst)
    if len(dst.shape) > 2 or case.kernel == "narrow":
        raise Skipped("this peer is written for matrices only")
    rows, cols = dst.shape if len(dst.shape) == 2 else (1, math.prod(dst.shape))
    at = f"(i % {cols}u) * {rows}u + i / {cols}u" if src.order else "i"
    text = f"""
@group(0) @binding(0) var<storage, read> src: array<{s}>;
@group(0) @binding(1) var<storage, read_write> dst: array<{d}>;
{GROUP_ID}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let i = group_id(w) * 256u + li;
  if (i < {rows * cols}u) {{ dst[i] = {d}(src[{at}]); }}
}}
"""
    return text, -(-rows * cols // 256)


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
