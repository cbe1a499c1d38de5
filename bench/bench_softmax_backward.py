"""The gradient of softmax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench import form, shapes
from bench.others import GROUP_ID, Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.case import Case, problem

SHAPES = [
    s for s in shapes.ROWS if s.name in ("65536x4096", "4096", "head-dim", "bert-base-scores")
]


def cases(edge: int = 0) -> Iterator[Case]:
    for s in shapes.pick(SHAPES, edge):
        for dtype in ("float32", "float16"):
            case = problem("softmax_backward", s.dims, dtype)
            yield case.labelled(name=s.name, origin=s.origin)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    y, dy = t["y"], t["dy"]
    return y * (dy - (y * dy).sum(-1, keepdims=True))


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    grad = torch.ops.aten._softmax_backward_data.out
    grad(t["dy"], t["y"], -1, t["y"].dtype, grad_input=t["dst"])


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """One invocation per row."""
    y = case.tensors["y"]
    rows, cols = int(np.prod(y.shape[:-1])), y.shape[-1]
    if cols > 1 << 18:
        raise Skipped("one invocation would take seconds")
    t = scalar(y)
    text = f"""
@group(0) @binding(0) var<storage, read> y: array<{t}>;
@group(0) @binding(1) var<storage, read> dy: array<{t}>;
@group(0) @binding(2) var<storage, read_write> dst: array<{t}>;
{GROUP_ID}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let row = group_id(w) * 64u + li;
  if (row >= {rows}u) {{ return; }}
  var sum = 0.0f;
  for (var c = 0u; c < {cols}u; c++) {{
    sum += f32(y[row * {cols}u + c]) * f32(dy[row * {cols}u + c]);
  }}
  for (var c = 0u; c < {cols}u; c++) {{
    let i = row * {cols}u + c;
    dst[i] = {t}(f32(y[i]) * (f32(dy[i]) - sum));
  }}
}}
"""
    return text, -(-rows // 64)


PEERS = {"numpy": numpy, "torch": torch, "naive": naive}
bench_softmax_backward = form.benches(cases, PEERS)
