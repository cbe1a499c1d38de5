"""set_rows and get_rows: rows of many lengths in a random order, and a lookup of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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
from pykernels.bench.case import Case, Operand, cut, problem

Array = np.ndarray[Any, Any]
COLUMNS = 64  # that are checked


def permutation(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Each place once."""
    return rng.permutation(shape[0]).astype(np.int32)


def columns(t: dict[str, Any]) -> dict[str, Any]:
    """Some columns, the last among them, of all rows."""
    width = t["dst"].shape[-1]
    step = max(width // COLUMNS, 1)
    some = slice((width - 1) % step, None, step)
    return {n: a if n == "index" else a[..., some] for n, a in t.items()}


def rows(kernel: str, dims: tuple[int, ...], dtype: str) -> Case:
    case = problem(kernel, dims, dtype)
    index = replace(case.tensors["index"], values=permutation)
    return replace(case, tensors={**case.tensors, "index": index}, part=columns)


def cases(edge: int = 0) -> Iterator[Case]:
    for kernel in ("set_rows", "get_rows"):
        for s in shapes.pick(shapes.ROW_MOVES, edge):
            for dtype in ("float32", "float16", "float32:float16"):
                case = rows(kernel, s.dims, dtype)
                yield case.labelled(name=s.name, origin=s.origin)
    m, n, k = (cut(size, edge) for size in (128256, 4096, 4096))

    def tokens(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.integers(0, m, shape).astype(np.int64)

    table, picked = Operand((m, k), "float16"), Operand((n, k), "float16")
    index = Operand((n,), "int64", values=tokens)
    yield Case(
        "get_rows", {"src": table, "index": index, "dst": picked}, shape=(m, n, k), part=columns,
        note="embedding", name="llama-3-8b-embedding", origin="Llama 3 8B: 4096 tokens looked up",
    )  # fmt: skip


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "set_rows":
        t["dst"][t["index"]] = t["src"]
    else:
        t["dst"][...] = t["src"][t["index"]]


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if t["src"].dtype != t["dst"].dtype:
        raise Skipped("torch's rows keep their dtype")
    if case.kernel == "set_rows":
        t["dst"].index_copy_(0, t["index"].long(), t["src"])
    else:
        torch.index_select(t["src"], 0, t["index"], out=t["dst"])


@onnx_peer
def ort(case: Case) -> Node:
    if case.kernel != "get_rows":
        raise Skipped("its ScatterND copies the whole tensor first")
    return Node("Gather", "src", ("src", "index"), {"axis": 0})


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """One element an invocation."""
    src, dst = case.tensors["src"], case.output
    n, k = case.tensors["index"].shape[0], dst.shape[-1]
    step = 2 if case.tensors["index"].dtype == "int64" else 1
    there, here = ("dst[at * K + c]", "src[i]") if case.kernel == "set_rows" else (
        "dst[i]", "src[at * K + c]"
    )  # fmt: skip
    text = f"""
const K = {k}u;
@group(0) @binding(0) var<storage, read> src: array<{scalar(src)}>;
@group(0) @binding(1) var<storage, read> index: array<u32>;
@group(0) @binding(2) var<storage, read_write> dst: array<{scalar(dst)}>;
{GROUP_ID}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let i = group_id(w) * 256u + li;
  if (i >= {n * k}u) {{ return; }}
  let at = index[i / K * {step}u];
  let c = i % K;
  {there} = {scalar(dst)}({here});
}}
"""
    return text, -(-n * k // 256)


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
bench_rows = form.benches(cases, PEERS)
