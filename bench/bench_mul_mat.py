"""mul_mat: products by shape, by dtypes, and by which operand lies transposed.

In ggml's terms: dst (n, m) from b (n, k) and a (m, k). An operand is called turned where its k is
not the axis that lies together in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
from pykernels.plans.matmul import mul_mat as plans
from pykernels.plans.matmul.select import Choice

# Shapes that are measured in other dtypes too.
HALVES = ("4096", "llama-3-8b-down", "decode-4096", "decode-16384")


def turned(case: Case, *names: str) -> Case:
    """The case with these operands transposed in memory."""
    tensors = dict(case.tensors)
    for name in names:
        rank = len(tensors[name].shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        tensors[name] = replace(tensors[name], order=order)
    note = " ".join(f"{name} turned" for name in names)
    return replace(case, tensors=tensors, note=note)


def cases(edge: int = 0) -> Iterator[Case]:
    for s in shapes.pick(shapes.PRODUCTS, edge):
        dtypes = ["float32"]
        if s.name in HALVES:
            dtypes += ["float16:float32", "float16"]
        for dtype in dtypes:
            case = problem("mul_mat", s.dims, dtype).labelled(name=s.name, origin=s.origin)
            yield case
            if s.name in ("4096", "decode-16384"):
                yield turned(case, "a")
            if s.name == "4096" and dtype == "float32":
                yield turned(case, "b")
                yield turned(case, "a", "b")
                fast = turned(case, "a")
                yield replace(fast, args={"precision": "fast"}, note=f"{fast.note} fast")
    n = shapes.cut(4096, edge)
    mixed = problem("mul_mat", (n, n, n), "float32")
    tensors = dict(mixed.tensors)
    tensors["a"] = replace(tensors["a"], dtype="float16")
    yield replace(mixed, tensors=tensors)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    return np.matmul(t["b"], np.swapaxes(t["a"], -1, -2))


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if len({x.dtype for x in t.values()}) > 1:
        raise Skipped("torch multiplies and gives one dtype only")
    torch.matmul(t["b"], t["a"].transpose(-1, -2), out=t["dst"])


@onnx_peer
def ort(case: Case) -> Node:
    """dst = b @ a^T, and dst is the next b: square a only. It gets a^T whichever way a lies."""
    a = case.tensors["a"]
    if a.shape[-1] != a.shape[-2]:
        raise Skipped("its output cannot be its input again")
    return Node("MatMul", "b", ("b", "a"), scale=(3 / a.shape[-1]) ** 0.5, arrange=of_columns)


def of_columns(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """MatMul wants a as (k, m)."""
    return array.swapaxes(-1, -2) if name == "a" else array


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """One invocation per element of dst, k after k."""
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


@contextmanager
def chosen(dev: pk.Device, config: str) -> Iterator[None]:
    """The plan takes this choice: BODY or BODY/SLICES, a tile of kernels/mul_mat.wgsl or "vec"."""
    before = plans.choose
    body, _, slices = config.partition("/")
    plans.choose = lambda caps, s: Choice(body, int(slices or 1))
    forget(dev)
    try:
        yield
    finally:
        plans.choose = before
        forget(dev)


def forget(dev: pk.Device) -> None:
    dev._context.forget_calls()


PEERS = {"numpy": numpy, "torch": torch, "ort": ort, "naive": naive}
bench_mul_mat = form.benches(cases, PEERS)
