"""flash_attn and its gradients: prompts and single tokens of known networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import pykernels as pk
from bench import form, shapes
from bench.others import (
    GROUP_ID,
    Node,
    Skipped,
    naive_peer,
    numpy_peer,
    onnx_peer,
    scalar,
    torch_peer,
)
from pykernels.bench.case import Case, problem

HALVES = ("llama-2-7b-4096", "gpt-2-1024", "llama-3-8b-decode", "llama-3-8b-long", "ragged-heads")
# The check of a gradient by a key needs all queries: with four heads to a key 2048 are enough.
GRADIENTS = ("llama-2-7b-4096", "llama-3-8b-2048", "gpt-2-1024", "ragged-heads")
ROWS = 64  # of the output that are checked
LONG = 512  # queries from which torch's backward lasts longer than its launch


def attend(kernel: str, s: shapes.Shape, dtype: str, causal: bool) -> Case:
    case = problem(kernel, s.dims, dtype).labelled(name=s.name, origin=s.origin)
    group = s.dims[1] // s.dims[2]
    if causal:
        case = replace(case, args={"causal": True}, note="causal")
    if kernel == "flash_attn":
        return case.labelled(part=partial(last_rows, group))
    return case.labelled(part=partial(last_head, group), prepare=partial(forward, case.args))


def last_rows(group: int, t: dict[str, Any]) -> dict[str, Any]:
    """The last queries of the heads that share the last KV head."""
    own, shared = (slice(-1, None), slice(-group, None), slice(-ROWS, None)), slice(-1, None)
    return {
        "q": t["q"][own], "k": t["k"][shared, shared], "v": t["v"][shared, shared],
        "dst": t["dst"][own],
    }  # fmt: skip


def last_head(group: int, t: dict[str, Any]) -> dict[str, Any]:
    """The heads that share the last KV head."""
    return {
        n: a[-1:, -1:] if n in ("k", "v", "dk", "dv") else a[-1:, -group:] for n, a in t.items()
    }


def forward(args: dict[str, Any], t: dict[str, Any]) -> None:
    """What the gradients need of the forward call."""
    pk.kernels.flash_attn(t["q"], t["k"], t["v"], t["o"], lse=t["lse"], **args)


def cases(edge: int = 0) -> Iterator[Case]:
    for s in shapes.pick(shapes.ATTENTION, edge):
        for dtype in ("float32", "float16") if s.name in HALVES else ("float32",):
            for causal in (False, True) if s.dims[3] > 1 else (False,):
                yield attend("flash_attn", s, dtype, causal)
                # The checks of the large ones take seconds each.
                long = s.dims[3] > 1024 and (dtype != "float32" or (not causal and s.dims[2] == 8))
                if s.name in GRADIENTS and not long:
                    yield attend("flash_attn_backward", s, dtype, causal)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    if case.kernel != "flash_attn" or case.args:
        raise Skipped("written for the output, without a mask")
    group = t["q"].shape[1] // t["k"].shape[1]
    k, v = (np.repeat(t[n], group, axis=1) for n in ("k", "v"))
    scores = t["q"] @ np.swapaxes(k, -1, -2) * t["q"].dtype.type(t["q"].shape[-1] ** -0.5)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    q, k, v = (t[n] for n in ("q", "k", "v"))
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
    """ONNX Runtime's own MultiHeadAttention, whose output can be the next one's queries."""
    if case.kernel != "flash_attn":
        raise Skipped("ONNX has no gradients")
    heads, shared = (case.tensors[n].shape[1] for n in ("q", "k"))
    if heads != shared:
        raise Skipped("its MultiHeadAttention has as many heads of keys as of queries")
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
    """One invocation per query, key after key."""
    if case.kernel != "flash_attn":
        raise Skipped("written for the output")
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
bench_flash_attn = form.benches(cases, PEERS)
