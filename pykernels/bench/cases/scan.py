"""cumsum and cumprod: one long row, many rows, short rows, columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.peers import naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.run import Skipped
from pykernels.bench.shapes import POWER, RAGGED, Shape, cut, pick

ROWS = [
    Shape("one-row", (1, 1 << 26), POWER),
    Shape("16384", (16384, 16384), POWER),
    Shape("4096", (4096, 4096), POWER),
    Shape("short-rows", (1048576, 64), "a scan of each head of 64"),
    Shape("4095", (4095, 4095), RAGGED),
]
MAIN = {"cumprod": ("f32-4096x4096",), "cumsum": ("f32-1x67108864", "f32-16384x16384")}


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(ROWS, edge):
        for dtype in ("float32", "float16", "int32"):
            if dtype != "int32" or s.name == "one-row":
                yield problem("cumsum", s.dims, dtype).labelled(name=s.name, origin=s.origin)
    n = cut(16384, edge)
    for dtype in ("float32", "float16"):
        apart = Operand((n, n), dtype, order=(1, 0))  # type: ignore[arg-type]
        yield Case("cumsum", {"x": apart, "dst": apart}, shape=(n, n), note="axis 0")
    yield problem("cumprod", (cut(4096, edge),) * 2, "float32")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    return getattr(np, case.kernel)(t["x"], -1, t["x"].dtype)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    getattr(torch, case.kernel)(t["x"], -1, dtype=t["x"].dtype, out=t["dst"])


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: each invocation goes through one row."""
    x = case.tensors["x"]
    rows, cols = x.shape
    if cols > 1 << 18:
        raise Skipped("one invocation would take seconds")
    t = scalar(x)
    at = f"row + c * {rows}u" if x.order else f"row * {cols}u + c"
    op = "*" if case.kernel == "cumprod" else "+"
    sums = "i32" if x.dtype == "int32" else "f32"
    text = f"""
@group(0) @binding(0) var<storage, read> x: array<{t}>;
@group(0) @binding(1) var<storage, read_write> dst: array<{t}>;
{GROUP_ID}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let row = group_id(w) * 64u + li;
  if (row >= {rows}u) {{ return; }}
  var sum = {sums}({1 if op == "*" else 0});
  for (var c = 0u; c < {cols}u; c++) {{
    sum = sum {op} {sums}(x[{at}]);
    dst[{at}] = {t}(sum);
  }}
}}
"""
    return text, -(-rows // 64)


PEERS = {"numpy": numpy, "torch": torch, "naive": naive}
