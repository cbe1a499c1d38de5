"""fill and memset: whole tensors of many sizes, and a view with gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.peers import Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import BYTES, cut, pick
from pykernels.dtypes import DTypeName

MAIN = {
    "arange": ("i32-268435456",), "fill": ("f32-268435456",),
    "fill_where": ("bool>f32-67108864",), "memset": ("u8-1073741824",),
}  # fmt: skip


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(BYTES, edge):
        (nbytes,) = s.dims
        yield problem("fill", (nbytes // 4,), "float32").labelled(name=s.name, origin=s.origin)
        yield problem("memset", (nbytes,), "uint8").labelled(name=s.name, origin=s.origin)
    yield problem("fill", (cut(1 << 28, edge * edge),), "float16")
    n = cut(8192, edge)
    yield arange((cut(1 << 28, edge * edge),))
    gaps = Operand((n, n), "float32", gap=64, phase=3)
    yield Case("fill", {"dst": gaps}, {"value": 1}, (n, n), "with gaps")
    yield fill_where((cut(1 << 26, edge * edge),))


def arange(shape: tuple[int, ...] = (1 << 28,), dtype: str = "int32", out: str = "") -> Case:
    """A case: evenly spaced numbers. The check takes the first numbers, which are a small problem
    of the same kind."""
    dst = Operand(shape, cast(DTypeName, dtype))
    return Case("arange", {"dst": dst}, {"start": 3, "step": 2}, shape, part=beginning)


def beginning(t: dict[str, Any]) -> dict[str, Any]:
    return {"dst": t["dst"][: 1 << 19]}


def fill_where(shape: tuple[int, ...] = (1 << 26,), dtype: str = "float32", out: str = "") -> Case:
    """A case in which the mask selects half of the elements."""
    tensors = {
        "mask": Operand(shape, "bool", values=lambda rng, of: rng.integers(0, 2, of).astype(bool)),
        "dst": Operand(shape, cast(DTypeName, dtype)),
    }
    return Case("fill_where", tensors, {"value": 1}, shape)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "arange":
        raise Skipped("numpy has no such function that writes to an array")
    if case.kernel == "fill_where":
        np.putmask(t["dst"], t["mask"], 1)
        return
    t["dst"].fill(1)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "arange":
        torch.arange(3, 3 + 2 * t["dst"].numel(), 2, out=t["dst"])
    elif case.kernel == "fill_where":
        t["dst"].masked_fill_(t["mask"], 1)
    else:
        t["dst"].fill_(1)


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: each invocation writes one element."""
    if case.kernel in ("arange", "fill_where"):
        raise Skipped("this peer is written for fill and memset only")
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
