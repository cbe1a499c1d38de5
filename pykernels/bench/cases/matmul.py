"""mul_mat and mul_mat_i8: products of many shapes and dtypes, with either operand transposed.

In ggml's terms: dst (n, m) from b (n, k) and a (m, k). An operand is called transposed if its axis
k is not contiguous in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import POWER, RAGGED, Shape, cut, pick
from pykernels.dtypes import DTypeName
from pykernels.plans.quant.types import planes, type_of

# n x m x k: dst (n, m) is a product over k; with a fourth size in front, a batch
PRODUCTS = [
    Shape("4096", (4096, 4096, 4096), POWER),
    Shape("8192", (8192, 8192, 8192), POWER),
    Shape("2048", (2048, 2048, 2048), POWER),
    Shape("1024", (1024, 1024, 1024), POWER),
    Shape("512", (512, 512, 512), POWER),
    Shape("256", (256, 256, 256), POWER),
    Shape("4095", (4095, 4095, 4095), RAGGED),
    Shape("llama-3-8b-down", (512, 4096, 14336), "Llama 3 8B: down projection, 512 tokens"),
    Shape("llama-3-8b-up", (512, 14336, 4096), "Llama 3 8B: up projection, 512 tokens"),
    Shape("64-tokens", (64, 4096, 4096), "Llama 3 8B: output projection, 64 tokens"),
    Shape("deep", (128, 128, 65536), "few sums over a long k"),
    Shape("bert-scores", (1536, 512, 512, 64), "BERT base, batch 128: scores of 1536 heads"),
    Shape("decode-4096", (1, 4096, 4096), "Llama 3 8B: output projection, one token"),
    Shape("decode-16384", (1, 16384, 16384), POWER),
    Shape("decode-lm-head", (1, 128256, 4096), "Llama 3 8B: logits of one token"),
    Shape("decode-8", (8, 16384, 16384), "eight tokens at a time"),
    Shape("dot", (1, 1, 1 << 24), "a dot product"),
]
# Shapes for matrix units: in f16 with precision="fast", and in f32 with precision="split".
MATRIX = ("4096", "8192", "2048", "1024", "4095", "llama-3-8b-down")
# Shapes that are measured in other dtypes too.
HALVES = ("4096", "llama-3-8b-down", "decode-4096", "decode-16384")
BYTES = ("4096", "2048", "1024", "4095", "llama-3-8b-down", "64-tokens", "decode-4096",
         "decode-16384", "decode-8")  # fmt: skip
# Shapes of products with quantised weights; MIXED are the types of the weights.
QUANTISED = [
    Shape("4096", (4096, 4096, 4096), POWER),
    Shape("decode-16384", (1, 16384, 16384), POWER),
    Shape("decode-8", (8, 16384, 16384), "eight tokens at a time"),
    Shape("decode-32", (32, 16384, 16384), "32 tokens at a time"),
    Shape("llama-3-8b-down", (512, 4096, 14336), "Llama 3 8B: down projection, 512 tokens"),
    Shape("decode-4096", (1, 4096, 4096), "Llama 3 8B: output projection, one token"),
]
MIXED = ("q4_0", "q8_0", "q4_k", "q5_k", "q6_k")
ALL_TYPES = ("4096", "decode-16384")  # all other shapes run with the first two types of MIXED
FACTORS = {"a_scale", "b_scale"}
MAIN = {
    "mul_mat": (
        "f32-4096x4096x4096", "f32-4096x4096x4096-a_transposed", "f32-2048x2048x2048",
        "f32-512x4096x14336", "f32-1x16384x16384", "f16-4096x4096x4096",
    ),
    "mul_mat_i8": ("i8>i32-4096x4096x4096", "i8>i32-1x4096x4096"),
    "rms_norm_linear": ("f16-16384x2048", "f16xu32>f16-16384x2048-q4_0"),
    "mul_mat_quant": ("u32xf16>f32-4096x4096x4096-q4_0", "u32xf16>f32-1x16384x16384-q4_0"),
    "mul_mat_id": (
        "i32xf16xu32>f16-8x512x2x4096x4096-q4_0", "i32xf16>f16-8x512x2x4096x4096",
        "i32xf16xu32>f16-8x1x2x4096x4096-q4_0",
    ),
}  # fmt: skip


def mul_mat(
    shape: tuple[int, ...] = (4096, 4096, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case of the shape (..., n, m, k): the product dst (n, m) of b (n, k) and a (m, k)."""
    *lead, n, m, k = shape
    given = cast(DTypeName, dtype)
    tensors = {
        "a": Operand((*lead, m, k), given),
        "b": Operand((*lead, n, k), given),
        "dst": Operand((*lead, n, m), cast(DTypeName, out)),
    }
    return Case("mul_mat", tensors, {}, shape, part=part)


def mul_mat_i8(
    shape: tuple[int, ...] = (4096, 4096, 4096), dtype: str = "int8", out: str = "int32"
) -> Case:
    """A case: the product of bytes; for a float output, each row of a and b has a factor."""
    if dtype not in ("int8", "uint8"):  # a command without a dtype asks for float32
        dtype, out = "int8", "int32"
    if out == dtype:
        out = "int32"
    *lead, n, m, _ = shape
    case = mul_mat(shape, dtype, out)
    if out == "int32":
        return replace(case, kernel="mul_mat_i8")
    tensors = dict(case.tensors)
    dst = tensors.pop("dst")
    tensors["a_scale"] = Operand((*lead, m), "float32", values=small_factors)
    tensors["b_scale"] = Operand((*lead, n), "float32")
    return replace(case, kernel="mul_mat_i8", tensors={**tensors, "dst": dst})


def mul_mat_quant(
    shape: tuple[int, ...] = (4096, 4096, 4096), dtype: str = "float16", out: str = "float32",
    quant: str = "q4_0",
) -> Case:  # fmt: skip
    """A case of the shape (n, m, k): the product dst (n, m) of b (n, k) and quantised weights (m,
    k)."""
    *lead, n, m, k = shape
    kind = type_of("bench", quant)
    k = -(-k // kind.block) * kind.block
    low, scales, high = planes("bench", kind, (m, k))
    tensors = {
        "low": Operand(low, "uint32", values=any_words),
        "scales": Operand(scales, "uint32", values=small_scales),
        "b": Operand((*lead, n, k), cast(DTypeName, dtype)),
        "dst": Operand((*lead, n, m), cast(DTypeName, "float32" if dtype == "float32" else out)),
    }
    if high is not None:
        tensors = {"high": Operand(high, "uint32", values=any_words), **tensors}
    dims = (*lead, n, m, k)
    return Case("mul_mat_quant", tensors, {"quant": quant}, dims, note=quant, part=quantised_part)


def rms_norm_linear(
    shape: tuple[int, ...] = (16384, 2048), dtype: str = "float16", out: str = "",
    quant: str = "",
) -> Case:  # fmt: skip
    """A case: the norm of one row, followed by a gated product with weights (m, k)."""
    m, k = max(shape[-2] // 2 * 2, 2), shape[-1]
    block = type_of("bench", quant).block if quant else 8
    k = -(-k // block) * block
    own = cast(DTypeName, dtype)
    tensors = {"x": Operand((k,), own), "gain": Operand((k,), own)}
    if quant:
        low, scales, high = planes("bench", type_of("bench", quant), (m, k))
        tensors["w"] = Operand(low, "uint32", values=any_words)
        tensors["scales"] = Operand(scales, "uint32", values=small_scales)
        if high is not None:
            tensors["high"] = Operand(high, "uint32", values=any_words)
    else:
        tensors["w"] = Operand((m, k), own)
    tensors["dst"] = Operand((m // 2,), cast(DTypeName, out or dtype))
    args = {"quant": quant, "activation": "silu", "gated": True}
    return Case("rms_norm_linear", tensors, args, (m, k), note=quant)


def mul_mat_id(
    shape: tuple[int, ...] = (8, 512, 2, 4096, 4096), dtype: str = "float16", out: str = "",
    quant: str = "",
) -> Case:  # fmt: skip
    """A case of the shape (experts, tokens, slots, m, k); all slots of a token have the same row
    of b."""
    experts, tokens, slots, m, k = shape
    block = type_of("bench", quant).block if quant else 16
    k = -(-k // block) * block
    own = cast(DTypeName, dtype)

    def any_experts(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return rng.integers(0, experts, shape, dtype=np.int32)

    tensors = {
        "ids": Operand((tokens, slots), "int32", values=any_experts),
        "b": Operand((tokens, 1, k), own),
    }
    if quant:
        low, scales, high = planes("bench", type_of("bench", quant), (experts, m, k))
        tensors["low"] = Operand(low, "uint32", values=any_words)
        tensors["scales"] = Operand(scales, "uint32", values=small_scales)
        if high is not None:
            tensors["high"] = Operand(high, "uint32", values=any_words)
    else:
        tensors["w"] = Operand((experts, m, k), own)
    tensors["dst"] = Operand((tokens, slots, m), own)
    dims, args = (experts, tokens, slots, m, k), {"quant": quant or None}
    return Case("mul_mat_id", tensors, args, dims, note=quant, part=experts_part)


def experts_part(tensors: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: about 16 tokens, and the first 64 columns."""
    dst = tensors["dst"]
    cols = min(64, dst.shape[2] // 4 * 4) or dst.shape[2]
    t = slice(None, None, max(dst.shape[0] // 16, 1))
    found = {"ids": tensors["ids"][t], "b": tensors["b"][t], "dst": dst[t, :, :cols]}
    if "w" in tensors:
        return {**found, "w": tensors["w"][:, :cols]}
    low, scales = tensors["low"], tensors["scales"]
    wide = -(-cols // 4) * 4
    found["low"] = low[:, :, :, :wide]
    found["scales"] = scales[..., : wide // (low.shape[3] // scales.shape[3])]
    if "high" in tensors:
        found["high"] = tensors["high"][..., :wide]
    return found


def any_words(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Words of random bits."""
    return rng.integers(0, 1 << 32, shape, dtype=np.uint32)


def small_scales(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Records of scales, whose bytes are from 32 to 47, so that halves are from 0.009 to 0.11."""
    return rng.integers(32, 48, (*shape, 4), dtype=np.uint8).view(np.uint32)[..., 0]


def quantised_part(tensors: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: a small product of about 64 rows of b and the first 64 columns."""
    b, dst = (tensors[n][(0,) * (tensors[n].ndim - 2)] for n in ("b", "dst"))
    cols = min(64, dst.shape[1] // 4 * 4) or dst.shape[1]
    low, scales = tensors["low"], tensors["scales"]
    share = low.shape[3] // scales.shape[3]
    wide = -(-cols // 4) * 4
    n = slice(b.shape[0] % 7 if b.shape[0] > 64 else 0, None, max(b.shape[0] // 61, 1))
    found = {"low": low[:, :, :, :wide], "scales": scales[..., : wide // share]}
    if "high" in tensors:
        found["high"] = tensors["high"][..., :wide]
    return {**found, "b": b[n], "dst": dst[n, :cols]}


def small_factors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Factors so small that float16 holds the products of small integers."""
    return rng.uniform(1e-4, 1e-3, shape).astype(np.float32)


def part(tensors: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: a small product of about 64 rows of each operand in the last batch."""
    a, b, dst = (tensors[n][(-1,) * (tensors[n].ndim - 2)] for n in ("a", "b", "dst"))
    m, n = (
        slice(rows % 7 if rows > 64 else 0, None, max(rows // 61, 1))
        for rows in (a.shape[0], b.shape[0])
    )
    rows = {name: tensors[name][(-1,) * (tensors[name].ndim - 1)] for name in FACTORS & {*tensors}}
    factors = {name: t[m if name == "a_scale" else n] for name, t in rows.items()}
    return {"a": a[m], "b": b[n], **factors, "dst": dst[n, m]}


def transposed(case: Case, *names: str) -> Case:
    """The case with these operands transposed in memory."""
    tensors = dict(case.tensors)
    for name in names:
        rank = len(tensors[name].shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        tensors[name] = replace(tensors[name], order=order)
    note = " ".join(f"{name} transposed" for name in names)
    return replace(case, tensors=tensors, note=note)


def fast(case: Case) -> Case:
    """The case with precision="fast"."""
    return _with(case, "fast")


def split(case: Case) -> Case:
    """The case with precision="split"."""
    return _with(case, "split")


def _with(case: Case, precision: str) -> Case:
    return replace(
        case, args={**case.args, "precision": precision}, note=f"{case.note} {precision}".strip()
    )


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(PRODUCTS, edge):
        pairs = [("float32", "float32")]
        if s.name in HALVES:
            pairs += [("float16", "float32"), ("float16", "float16")]
        for dtype, out in pairs:
            case = mul_mat(s.dims, dtype, out).labelled(name=s.name, origin=s.origin)
            yield case
            if s.name in ("4096", "decode-16384"):
                yield transposed(case, "a")
            if s.name == "4096" and dtype == "float32":
                yield transposed(case, "b")
                yield transposed(case, "a", "b")
                yield fast(transposed(case, "a"))
            if s.name == "4096" and dtype != out:
                yield fast(case)
        if s.name in MATRIX:
            halves = mul_mat(s.dims, "float16", "float16").labelled(name=s.name, origin=s.origin)
            yield from (halves, fast(halves)) if s.name not in HALVES else [fast(halves)]
            yield split(mul_mat(s.dims).labelled(name=s.name, origin=s.origin))
    mixed = mul_mat((cut(4096, edge),) * 3)
    tensors = dict(mixed.tensors)
    tensors["a"] = replace(tensors["a"], dtype="float16")
    yield replace(mixed, tensors=tensors)
    # precision="split" for the usual product of two arrays, where k is the axis of rows of the
    # second array, and for f16 times f32.
    yield split(transposed(mul_mat((cut(4096, edge),) * 3), "a"))
    yield split(replace(mixed, tensors=tensors))
    yield from of_bytes(edge)
    yield from of_blocks(edge)
    yield from behind_norms(edge)
    yield from of_experts(edge)


def of_bytes(edge: int) -> Iterator[Case]:
    """The cases of mul_mat_i8."""
    for s in pick(PRODUCTS, edge):
        if s.name not in BYTES:
            continue
        case = mul_mat_i8(s.dims).labelled(name=s.name, origin=s.origin)
        yield case
        if s.name in ("4096", "decode-4096"):
            yield transposed(case, "a")
            scaled = mul_mat_i8(s.dims, out="float16")
            yield scaled.labelled(name=s.name, origin=s.origin, note="scaled")
        if s.name == "4096":
            yield transposed(case, "a", "b")
            yield mul_mat_i8(s.dims, "uint8").labelled(name=s.name, origin=s.origin)


def of_blocks(edge: int) -> Iterator[Case]:
    """The cases of mul_mat_quant."""
    for s in pick(QUANTISED, edge):
        for quant in MIXED if s.name in ALL_TYPES else MIXED[:2]:
            case, wide = (
                mul_mat_quant(s.dims, dtype, quant=quant).labelled(name=s.name, origin=s.origin)
                for dtype in ("float16", "float32")
            )
            yield case
            if s.name in ALL_TYPES and quant in MIXED[:2]:
                yield wide
            if s.name == "decode-16384":
                yield _with(case, "fast")
            if s.name == "4096" and quant == "q4_0":
                yield _with(wide, "fast")


def behind_norms(edge: int) -> Iterator[Case]:
    """The cases of rms_norm_linear: gate and up of Llama 3.2 1B."""
    shape = cut(16384, edge), cut(2048, edge)
    for dtype, out, quant in (
        ("float16", "", ""),
        ("float32", "", ""),
        ("float16", "", "q4_0"),
        ("float16", "float32", "q6_k"),  # products with random blocks of this type exceed float16
    ):
        yield rms_norm_linear(shape, dtype, out, quant)


def of_experts(edge: int) -> Iterator[Case]:
    """The cases of mul_mat_id: a prompt and a token of Mixtral, where each token uses 2 of 8
    experts, and a token of Qwen 3 MoE, which uses 8 of 128."""
    wide = cut(4096, edge)
    for tokens in (cut(512, edge), 1):
        for dtype, quant in (("float16", "q4_0"), ("float16", ""), ("float32", "")):
            yield mul_mat_id((8, tokens, 2, wide, wide), dtype, quant=quant)
    few = cut(768, edge), cut(2048, edge)
    for dtype, quant in (("float16", "q4_0"), ("float16", "")):
        yield mul_mat_id((128, 1, 8, *few), dtype, quant=quant)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    if case.kernel in ("mul_mat_id", "rms_norm_linear"):
        raise Skipped("this peer is written for plain products only")
    if case.kernel == "mul_mat_quant":
        raise Skipped("numpy has no quantised weights")
    if case.kernel == "mul_mat_i8":
        sums = np.matmul(t["b"], np.swapaxes(t["a"], -1, -2), dtype=np.int32)
        scaled = "a_scale" in t
        return t["b_scale"][..., None] * sums * t["a_scale"][..., None, :] if scaled else sums
    return np.matmul(t["b"], np.swapaxes(t["a"], -1, -2))


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel in ("mul_mat_id", "rms_norm_linear"):
        raise Skipped("torch has no such function")
    if case.kernel == "mul_mat_quant":
        raise Skipped("torch does not read these blocks")
    if case.kernel == "mul_mat_i8":
        if t["dst"].dtype != torch.int32 or t["a"].dtype != torch.int8 or t["dst"].shape[0] <= 16:
            raise Skipped("torch._int_mm takes int8, gives int32, and needs more than 16 rows")
        torch._int_mm(t["b"], t["a"].transpose(-1, -2), out=t["dst"])
        return
    if len({x.dtype for x in t.values()}) > 1:
        raise Skipped("torch multiplies and gives one dtype only")
    torch.matmul(t["b"], t["a"].transpose(-1, -2), out=t["dst"])


@onnx_peer
def ort(case: Case) -> Node:
    """dst = b @ a^T. In the chain, dst is b of the next product, so a must be square. ONNX Runtime
    gets a^T, whatever the layout of a in memory."""
    if case.kernel in ("mul_mat_id", "rms_norm_linear"):
        raise Skipped("ONNX has no such function")
    if case.kernel == "mul_mat_quant":
        raise Skipped("MatMulNBits takes weights in another layout")
    a = case.tensors["a"]
    if case.kernel == "mul_mat_i8":
        raise Skipped("MatMulInteger's output cannot be its next input")
    if a.shape[-1] != a.shape[-2]:
        raise Skipped("its output cannot be its next input")
    return Node("MatMul", "b", ("b", "a"), scale=(3 / a.shape[-1]) ** 0.5, arrange=of_columns)


def of_columns(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """MatMul wants a as (k, m)."""
    return array.swapaxes(-1, -2) if name == "a" else array


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: one invocation for each element of dst goes through k."""
    if case.kernel != "mul_mat":
        raise Skipped("this peer is written for mul_mat only")
    a, b, dst = case.tensors["a"], case.tensors["b"], case.output
    *lead, n, m = dst.shape
    k, batches = a.shape[-1], int(np.prod(lead))
    if batches * n * m * k > 1 << 38 or k > 1 << 18:
        raise Skipped("it would take seconds")
    at_a = f"kk * {m}u + col" if a.order else f"col * {k}u + kk"
    at_b = f"kk * {n}u + row" if b.order else f"row * {k}u + kk"
    across, down = -(-m // 16), -(-n // 16)
    text = f"""
@group(0) @binding(0) var<storage, read> a: array<{scalar(a)}>;
@group(0) @binding(1) var<storage, read> b: array<{scalar(b)}>;
@group(0) @binding(2) var<storage, read_write> dst: array<{scalar(dst)}>;
{GROUP_ID}
@compute @workgroup_size(16, 16)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_id) l: vec3<u32>) {{
  let g = group_id(w);
  let batch = g / {across * down}u;
  let row = (g / {across}u) % {down}u * 16u + l.y;
  let col = g % {across}u * 16u + l.x;
  if (row >= {n}u || col >= {m}u || batch >= {batches}u) {{ return; }}
  let from_a = batch * {m * k}u;
  let from_b = batch * {n * k}u;
  var sum = 0.0f;
  for (var kk = 0u; kk < {k}u; kk++) {{
    sum = fma(f32(b[from_b + {at_b}]), f32(a[from_a + {at_a}]), sum);
  }}
  dst[(batch * {n}u + row) * {m}u + col] = {scalar(dst)}(sum);
}}
"""
    return text, batches * across * down


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
