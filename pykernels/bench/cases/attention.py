"""flash_attn and its gradients: prompts and single tokens of known networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels import kernels
from pykernels.bench.case import Case, Operand
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import RAGGED, Shape, pick
from pykernels.dtypes import DTypeName
from pykernels.plans.quant.types import TYPES, planes

from .quant import words

# batch x heads x key heads x queries x keys x head size
ATTENTION = [
    Shape("llama-2-7b-4096", (1, 32, 32, 4096, 4096, 128), "Llama 2 7B: a prompt of 4096"),
    Shape("llama-3-8b-4096", (1, 32, 8, 4096, 4096, 128), "Llama 3 8B: a prompt of 4096"),
    Shape("llama-3-8b-decode", (1, 32, 8, 1, 16384, 128), "Llama 3 8B: one token, 16384 before"),
    Shape("llama-3-8b-long", (1, 32, 8, 1, 65536, 128), "Llama 3 8B: one token, 65536 before"),
    Shape("llama-3-8b-2048", (1, 32, 8, 2048, 2048, 128), "Llama 3 8B: a prompt of 2048"),
    Shape("llama-3-8b-4-tokens", (4, 32, 8, 4, 8192, 128), "Llama 3 8B: 4 guessed tokens, batch 4"),
    Shape("llama-3-8b-chunk", (1, 32, 8, 64, 16384, 128), "Llama 3 8B: a chunk of a prompt"),
    Shape("gpt-2-1024", (8, 16, 16, 1024, 1024, 64), "GPT-2 medium, batch 8"),
    Shape("bert-base-512", (8, 12, 12, 512, 512, 64), "BERT base, batch 8"),
    Shape("phi-3-2048", (1, 32, 32, 2048, 2048, 96), "Phi-3 mini: heads of 96"),
    Shape("phi-2-2048", (1, 32, 32, 2048, 2048, 80), "Phi-2: heads of 80"),
    Shape("gemma-2b-2048", (1, 8, 1, 2048, 2048, 256), "Gemma 2B: heads of 256"),
    Shape("ragged-heads", (2, 6, 2, 77, 93, 40), RAGGED),
]
HALVES = (
    "llama-2-7b-4096", "gpt-2-1024", "llama-3-8b-decode", "llama-3-8b-long", "llama-3-8b-4-tokens",
    "llama-3-8b-chunk", "ragged-heads",
)  # fmt: skip
# Shapes whose gradients are measured. Checking the gradient of a key needs all queries, so the
# shape with four query heads for each KV head has only 2048 queries.
GRADIENTS = ("llama-2-7b-4096", "llama-3-8b-2048", "gpt-2-1024", "ragged-heads")
# Decoding with a cache whose filled length only the device knows: the length of the cache divided
# by each of these numbers.
FILLED = {"llama-3-8b-decode": (1, 4)}
ROWS = 64  # number of rows of the output that are checked
LONG = 512  # with at least this many queries, torch's backward takes longer than its launch
_LLAMA_2, _GPT_2 = "1x32x32x4096x4096x128", "8x16x16x1024x1024x64"
MAIN = {
    "flash_attn": (
        f"f32-{_LLAMA_2}", f"f16-{_LLAMA_2}", f"f32-{_LLAMA_2}-causal", f"f32-{_GPT_2}",
        "f16-1x32x8x1x16384x128",
    ),
    "flash_attn_backward": (f"f32-{_LLAMA_2}", f"f32-{_GPT_2}-causal"),
    "flash_attn_quant": ("f16xu32>f16-1x32x8x1x16384x128-q8_0",),
}  # fmt: skip


def flash_attn(
    shape: tuple[int, ...] = (8, 16, 16, 1024, 1024, 64),
    dtype: str = "float32",
    out: str = "float32",
) -> Case:
    """A case of the shape (batch, heads, KV heads, queries, keys, head size)."""
    wide, narrow, result = _tensors(shape, dtype, out)
    tensors = {"q": wide, "k": narrow, "v": narrow, "dst": result}
    return Case("flash_attn", tensors, {}, shape, part=partial(last_rows, shape[1] // shape[2]))


def flash_attn_backward(
    shape: tuple[int, ...] = (8, 16, 16, 1024, 1024, 64),
    dtype: str = "float32",
    out: str = "float32",
) -> Case:
    """A case of the shape (batch, heads, KV heads, queries, keys, head size); o and lse come from
    flash_attn."""
    b, h, _, s, _, _ = shape
    wide, narrow, dq = _tensors(shape, dtype, out)
    dk = replace(narrow, dtype=dq.dtype)
    tensors = {
        "q": wide, "k": narrow, "v": narrow, "o": wide, "lse": Operand((b, h, s), "float32"),
        "do": wide, "dq": dq, "dk": dk, "dv": dk,
    }  # fmt: skip
    return Case(
        "flash_attn_backward", tensors, {}, shape, part=partial(last_head, shape[1] // shape[2]),
        prepare=partial(forward, {}),
    )  # fmt: skip


def flash_attn_quant(
    shape: tuple[int, ...] = (1, 32, 8, 1, 16384, 128), dtype: str = "float16",
    out: str = "float16", name: str = "q8_0",
) -> Case:  # fmt: skip
    """A case of the shape (batch, heads, KV heads, queries, keys, head size)."""
    b, h, shared, s, t, d = shape
    d = max(d // 32, 1) * 32
    wide = Operand((b, h, s, d), cast(DTypeName, dtype))
    low, scales, _ = planes("bench", TYPES[name], (b * shared, t, d))
    numbers, marks = Operand(low, "uint32", values=words), Operand(scales, "uint32", values=small)
    tensors = {
        "q": wide, "k_low": numbers, "k_scales": marks, "v_low": numbers, "v_scales": marks,
        "dst": replace(wide, dtype=cast(DTypeName, out or dtype)),
    }  # fmt: skip
    args = {"quant": name, "keys": t}
    return Case("flash_attn_quant", tensors, args, (b, h, shared, s, t, d), name)


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Scales: words of two halves from 2^-7 to 2^-6."""
    return rng.integers(0, 1 << 32, shape, dtype=np.uint32) & 0x03FF03FF | 0x20002000


def _tensors(shape: tuple[int, ...], dtype: str, out: str) -> tuple[Operand, Operand, Operand]:
    """The tensors: queries, keys, and an output with the shape of the queries."""
    b, h, shared, s, t, d = shape
    if h % shared:
        raise ValueError(f"{h} heads cannot share {shared} heads of keys")
    given = cast(DTypeName, dtype)
    wide = Operand((b, h, s, d), given)
    return wide, Operand((b, shared, t, d), given), replace(wide, dtype=cast(DTypeName, out))


def causal(case: Case) -> Case:
    """The case with causal=True."""
    args = {"causal": True}
    case = replace(case, args=args, note="causal")
    return case.labelled(prepare=partial(forward, args)) if case.prepare else case


def filled(keys: int, case: Case) -> Case:
    """The case with lengths: the number of keys that count in each batch."""
    tensors = dict(case.tensors)
    dst = tensors.pop("dst")
    b, h, _, d = tensors["k"].shape
    lengths = Operand((b,), "int32", values=lambda rng, shape: np.full(shape, keys))
    used = {n: (b, h, keys, d) for n in ("k", "v")}
    tensors |= {"lengths": lengths, "dst": dst}
    return case.labelled(tensors=tensors, used=used, note=f"{keys} keys filled")


def last_rows(group: int, t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last queries of the heads that share the last KV head."""
    own, shared = (slice(-1, None), slice(-group, None), slice(-ROWS, None)), slice(-1, None)
    some = {
        "q": t["q"][own], "k": t["k"][shared, shared], "v": t["v"][shared, shared],
        "dst": t["dst"][own],
    }  # fmt: skip
    return some | ({"lengths": t["lengths"][shared]} if "lengths" in t else {})


def last_head(group: int, t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the heads that share the last KV head."""
    return {
        n: a[-1:, -1:] if n in ("k", "v", "dk", "dv") else a[-1:, -group:] for n, a in t.items()
    }


def forward(args: dict[str, Any], t: dict[str, Any]) -> None:
    """Computes o and lse, the results of the forward call, which the gradients need."""
    kernels.flash_attn(t["q"], t["k"], t["v"], t["o"], lse=t["lse"], **args)


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(ATTENTION, edge):
        for dtype in ("float32", "float16") if s.name in HALVES else ("float32",):
            yield from attentions(s, dtype)
            if s.name in GRADIENTS:
                yield from gradients(s, dtype)

    for s in pick([s for s in ATTENTION if s.name == "llama-3-8b-decode"], edge):
        for name in ("q8_0", "q4_0"):
            shape = (*s.dims[:4], s.dims[4] // 4 * 4, s.dims[5])
            yield flash_attn_quant(shape, name=name).labelled(name=s.name, origin=s.origin)


def attentions(s: Shape, dtype: str) -> Iterator[Case]:
    """Cases with all keys, with only the keys before each query, and with lengths."""
    case = flash_attn(s.dims, dtype, dtype).labelled(name=s.name, origin=s.origin)
    yield case
    if s.dims[3] > 1:
        yield causal(case)
    for part in FILLED.get(s.name, ()):
        yield filled(s.dims[4] // part, case)


def gradients(s: Shape, dtype: str) -> Iterator[Case]:
    """Gradients of the same shapes, without some large shapes whose checks take seconds each."""
    case = flash_attn_backward(s.dims, dtype, dtype).labelled(name=s.name, origin=s.origin)
    large = s.dims[3] > 1024
    if not large or (dtype == "float32" and s.dims[1] == s.dims[2]):
        yield case
    if not large or dtype == "float32":
        yield causal(case)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    if case.kernel != "flash_attn" or case.args or case.used:
        raise Skipped("this peer is written for flash_attn only, without a mask or lengths")
    group = t["q"].shape[1] // t["k"].shape[1]
    k, v = (np.repeat(t[n], group, axis=1) for n in ("k", "v"))
    scores = t["q"] @ np.swapaxes(k, -1, -2) * t["q"].dtype.type(t["q"].shape[-1] ** -0.5)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    q, k, v = (t[n] for n in ("q", "k", "v"))
    if case.used:  # torch cannot read the lengths from the device
        k, v = (a[:, :, : case.used["k"][2]] for a in (k, v))
    causal = bool(case.args)
    if causal and q.shape[2] != k.shape[2]:
        raise Skipped("torch's first query sees the first key")
    given = {"is_causal": causal} | ({"enable_gqa": True} if q.shape[1] != k.shape[1] else {})
    sdpa = torch.nn.functional.scaled_dot_product_attention
    if case.kernel == "flash_attn":
        sdpa(q, k, v, **given)
        return
    if q.shape[2] < LONG:
        raise Skipped("its backward is bound to the stream of its forward, so not in a CUDA graph")
    if "forward" not in t:
        t["forward"] = sdpa(*(a.requires_grad_() for a in (q, k, v)), **given)
    torch.autograd.grad(t["forward"], (q, k, v), t["do"], retain_graph=True)


@onnx_peer
def ort(case: Case) -> Node:
    """ONNX Runtime's own MultiHeadAttention. Its output has the shape of its queries, so nodes can
    form a chain."""
    if case.kernel != "flash_attn":
        raise Skipped("ONNX has no gradients")
    heads, shared = (case.tensors[n].shape[1] for n in ("q", "k"))
    if heads != shared:
        raise Skipped("its MultiHeadAttention has as many heads of keys as of queries")
    if case.used:
        raise Skipped("this peer takes no lengths")
    return Node(
        "MultiHeadAttention", "q", ("q", "k", "v"), domain="com.microsoft",
        attributes={"num_heads": heads, "unidirectional": int(bool(case.args))}, arrange=tokens,
    )  # fmt: skip


def tokens(name: str, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(batch, heads, tokens, size) as (batch, tokens, heads * size)."""
    batch, heads, count, size = a.shape
    return a.swapaxes(1, 2).reshape(batch, count, heads * size)


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: one invocation for each query goes through the keys."""
    if case.kernel != "flash_attn" or case.used:
        raise Skipped("this peer is written for flash_attn only, without lengths")
    q, k = case.tensors["q"], case.tensors["k"]
    (batch, heads, queries, depth), (_, kv_heads, keys, _) = q.shape, k.shape
    if keys * depth > 1 << 18:
        raise Skipped("one invocation would take seconds")
    count, t = batch * heads * queries, scalar(q)
    text = f"""
const D = {depth}u;
const T = {keys}u;
@group(0) @binding(0) var<storage, read> q: array<{t}>;
@group(0) @binding(1) var<storage, read> k: array<{t}>;
@group(0) @binding(2) var<storage, read> v: array<{t}>;
@group(0) @binding(3) var<storage, read_write> dst: array<{t}>;
{GROUP_ID}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let row = group_id(w) * 64u + li;
  if (row >= {count}u) {{ return; }}
  let head = row / {queries}u % {heads}u;
  let matrix = row / {heads * queries}u * {kv_heads}u + head / {heads // kv_heads}u;
  let seen = {f"min(T, row % {queries}u + T + 1u - {queries}u)" if case.args else "T"};
  var top = -3.0e38f;
  var total = 0.0f;
  var sums: array<f32, D>;
  for (var j = 0u; j < seen; j++) {{
    let at = (matrix * T + j) * D;
    var s = 0.0f;
    for (var c = 0u; c < D; c++) {{ s += f32(q[row * D + c]) * f32(k[at + c]); }}
    s *= {depth**-0.5!r}f;
    let more = max(top, s);
    let keep = exp(top - more);
    let p = exp(s - more);
    for (var c = 0u; c < D; c++) {{ sums[c] = sums[c] * keep + p * f32(v[at + c]); }}
    total = total * keep + p;
    top = more;
  }}
  for (var c = 0u; c < D; c++) {{ dst[row * D + c] = {t}(sums[c] / total); }}
}}
"""
    return text, -(-count // 64)


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
