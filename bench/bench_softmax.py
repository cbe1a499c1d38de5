"""softmax and log_softmax: short and long rows, one row, axis 0; their gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

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
from pykernels.bench.case import Case, Operand, problem


def cases(edge: int = 0) -> Iterator[Case]:
    for s in shapes.pick(shapes.ROWS, edge):
        for dtype in ("float32", "float16"):
            case = problem("softmax", s.dims, dtype)
            yield case.labelled(name=s.name, origin=s.origin)
    n = shapes.cut(4096, edge)
    turned = Operand((n, n), "float32", order=(1, 0))
    yield Case("softmax", {"x": turned, "dst": turned}, shape=(n, n), note="axis 0")
    yield problem("log_softmax", (n, n), "float32")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    x = t["x"] - t["x"].max(-1, keepdims=True)
    e = np.exp(x)
    sums = e.sum(-1, keepdims=True)
    return x - np.log(sums) if case.kernel == "log_softmax" else e / sums


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    getattr(torch, case.kernel)(t["x"], -1, out=t["dst"])


@onnx_peer
def ort(case: Case) -> Node:
    op = "LogSoftmax" if case.kernel == "log_softmax" else "Softmax"
    return Node(op, "x", ("x",), {"axis": -1})


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """One invocation per row: what a loop over rows becomes at first."""
    x = case.tensors["x"]
    rows, cols = int(np.prod(x.shape[:-1])), x.shape[-1]
    at = "row + c * ROWS" if x.order else "row * COLS + c"
    t = scalar(x)
    result = "l - log(sum)" if case.kernel == "log_softmax" else "exp(l) / sum"
    if cols > 1 << 18:
        raise Skipped("one invocation would take seconds")
    text = f"""
const ROWS = {rows}u;
const COLS = {cols}u;
@group(0) @binding(0) var<storage, read> x: array<{t}>;
@group(0) @binding(1) var<storage, read_write> dst: array<{t}>;
{GROUP_ID}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let row = group_id(w) * 64u + li;
  if (row >= ROWS) {{ return; }}
  var m = -0x1.fffffep+127f;
  for (var c = 0u; c < COLS; c++) {{ m = max(m, f32(x[{at}])); }}
  var sum = 0.0f;
  for (var c = 0u; c < COLS; c++) {{ sum += exp(f32(x[{at}]) - m); }}
  for (var c = 0u; c < COLS; c++) {{
    let l = f32(x[{at}]) - m;
    dst[{at}] = {t}({result});
  }}
}}
"""
    return text, -(-rows // 64)


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
bench_softmax = form.benches(cases, PEERS)
