"""softmax, log_softmax and the gradient: short and long rows, one row, axis 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import POWER, RAGGED, Shape, cut, pick

# ... x rows x cols, for kernels that run over rows
ROWS = [
    Shape("65536x4096", (65536, 4096), POWER),
    Shape("4096", (4096, 4096), POWER),
    Shape("32768x1024", (32768, 1024), POWER),
    Shape("short-rows", (4194304, 8), POWER),
    Shape("head-dim", (1048576, 64), "one head of 64 for each row, as in GPT-2"),
    Shape("4095", (4095, 4095), RAGGED),
    Shape("long-rows", (4096, 32768), "longer than registers hold"),
    Shape("one-row", (1, 1 << 24), POWER),
    Shape("bert-base-scores", (8, 12, 512, 512), "BERT base, batch 8: attention scores"),
    Shape("llama-3-8b-scores", (32, 2048, 2048), "Llama 3 8B: scores of 2048 tokens"),
    Shape("gpt-2-logits", (1024, 50257), "GPT-2: logits of 1024 tokens"),
    Shape("llama-3-logits", (512, 128256), "Llama 3: logits of 512 tokens"),
    Shape("imagenet-logits", (4096, 1000), "ImageNet classes, batch 4096"),
]
GRADIENTS = ("65536x4096", "4096", "head-dim", "bert-base-scores")
MAIN = {
    "log_softmax": ("f32-4096x4096",),
    "softmax": ("f32-65536x4096", "f16-65536x4096", "f32-32768x1024", "f32-4096x4096"),
    "softmax_backward": ("f32-65536x4096", "f32-4096x4096"),
}


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(ROWS, edge):
        for kernel in ("softmax", "softmax_backward") if s.name in GRADIENTS else ("softmax",):
            for dtype in ("float32", "float16"):
                case = problem(kernel, s.dims, dtype)
                yield case.labelled(name=s.name, origin=s.origin)
    n = cut(4096, edge)
    transposed = Operand((n, n), "float32", order=(1, 0))
    yield Case("softmax", {"x": transposed, "dst": transposed}, shape=(n, n), note="axis 0")
    yield problem("log_softmax", (n, n), "float32")
    wide = problem("softmax", (cut(163840, edge), n), "float32")
    yield wide.labelled(note="in parts", origin="2.5 GiB: more than one binding of a large GPU")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    if case.kernel == "softmax_backward":
        y, dy = t["y"], t["dy"]
        return y * (dy - (y * dy).sum(-1, keepdims=True))
    x = t["x"] - t["x"].max(-1, keepdims=True)
    e = np.exp(x)
    sums = e.sum(-1, keepdims=True)
    return x - np.log(sums) if case.kernel == "log_softmax" else e / sums


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "softmax_backward":
        grad = torch.ops.aten._softmax_backward_data.out
        grad(t["dy"], t["y"], -1, t["y"].dtype, grad_input=t["dst"])
    else:
        getattr(torch, case.kernel)(t["x"], -1, out=t["dst"])


@onnx_peer
def ort(case: Case) -> Node:
    if case.kernel == "softmax_backward":
        raise Skipped("ONNX has no gradients")
    op = "LogSoftmax" if case.kernel == "log_softmax" else "Softmax"
    return Node(op, "x", ("x",), {"axis": -1})


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: each invocation goes through one row."""
    if case.kernel == "softmax_backward":
        return naive_gradient(case)
    x = case.tensors["x"]
    rows, cols = int(np.prod(x.shape[:-1])), x.shape[-1]
    at = "row + c * ROWS" if x.order else "row * COLS + c"
    t = scalar(x)
    result = "l - log(sum)" if case.kernel == "log_softmax" else "exp(l) / sum"
    if cols > 1 << 18:
        raise Skipped("one invocation would take seconds")
    if rows * cols > 1 << 29:
        raise Skipped("it is larger than one binding")
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


def naive_gradient(case: Case) -> tuple[str, int]:
    """A simple kernel: each invocation goes through one row."""
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


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
