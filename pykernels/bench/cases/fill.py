"""fill and memset: whole tensors of many sizes, and a view with gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.peers import naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import BYTES, cut, pick

MAIN = {"fill": ("f32-268435456",), "memset": ("u8-1073741824",)}


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(BYTES, edge):
        (nbytes,) = s.dims
        yield problem("fill", (nbytes // 4,), "float32").labelled(name=s.name, origin=s.origin)
        yield problem("memset", (nbytes,), "uint8").labelled(name=s.name, origin=s.origin)
    yield problem("fill", (cut(1 << 28, edge * edge),), "float16")
    n = cut(8192, edge)
    gaps = Operand((n, n), "float32", gap=64, phase=3)
    yield Case("fill", {"dst": gaps}, {"value": 1}, (n, n), "with gaps")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    t["dst"].fill(1)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    t["dst"].fill_(1)


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """One element an invocation."""
    dst = case.output
    t = scalar(dst)
    count = dst.shape[0] if len(dst.shape) == 1 else dst.shape[0] * dst.shape[1]
    text = f"""
@group(0) @binding(0) var<storage, read_write> dst: array<{t}>;
{GROUP_ID}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let i = group_id(w) * 256u + li;
  if (i < {count}u) {{ dst[i] = {t}(1.0); }}
}}
"""
    return text, -(-count // 256)


PEERS = {"numpy": numpy, "torch": torch, "naive": naive}
