"""set_rows and get_rows: rows of many lengths in a random order, and a lookup of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, naive_peer, numpy_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import POWER, RAGGED, Shape, cut, pick
from pykernels.dtypes import DTypeName

Array = np.ndarray[Any, Any]
COLUMNS = 64  # number of columns that are checked
# rows x elements: the rows are written or read at places in random order
MOVES = [
    Shape("rows-of-512-bytes", (131072, 128), "a head of 128 in f32: the keys of a cache"),
    Shape("rows-of-4-KiB", (32768, 1024), POWER),
    Shape("rows-of-16-KiB", (8192, 4096), "Llama 3 8B: a token in f32"),
    Shape("ragged-rows", (131072, 127), RAGGED),
]
MAIN = {
    "add_rows": ("f32xi32>f32-32000x8192x4096-embedding",),
    "get_rows": ("f32xi32>f32-8192x4096", "f16xi64>f16-128256x4096x4096-embedding"),
    "set_rows": ("f32xi32>f32-8192x4096",),
    "timestep_embedding": ("f32-4096x320",),
}


def permutation(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Each place once."""
    return rng.permutation(shape[0]).astype(np.int32)


def columns(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: some columns of all rows, the last column among them."""
    width = t["dst"].shape[-1]
    step = max(width // COLUMNS, 1)
    some = slice((width - 1) % step, None, step)
    return {n: a if n == "index" else a[..., some] for n, a in t.items()}


def rows(kernel: str, shape: tuple[int, ...], dtype: str, out: str) -> Case:
    """A case: rows (..., n, k) move to, or from, as many places in a random order."""
    index = Operand(shape[-2:-1], "int32", values=permutation)
    tensors = {
        "src": Operand(shape, cast(DTypeName, dtype)), "index": index,
        "dst": Operand(shape, cast(DTypeName, out)),
    }  # fmt: skip
    return Case(kernel, tensors, {}, shape, part=columns)


def set_rows(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case that writes n rows of k elements to n places of a tensor, for each leading index."""
    return rows("set_rows", shape, dtype, out)


def get_rows(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case that reads n rows of k elements from n places of a tensor, for each leading index."""
    return rows("get_rows", shape, dtype, out)


def cases(edge: int = 0) -> Iterator[Case]:
    pairs = [("float32", "float32"), ("float16", "float16"), ("float32", "float16")]
    for kernel in ("set_rows", "get_rows"):
        for s in pick(MOVES, edge):
            for dtype, out in pairs:
                case = rows(kernel, s.dims, dtype, out)
                yield case.labelled(name=s.name, origin=s.origin)
    yield timestep_embedding((cut(4096, edge), cut(320, edge)))
    yield lookup(*(cut(size, edge) for size in (128256, 4096, 4096)))
    for dtype in ("float32", "float16"):
        yield sums(tuple(cut(size, edge) for size in (32000, 8192, 4096)), dtype).labelled(
            note="embedding", name="llama-2-embedding",
            origin="Llama 2 7B: the gradient of 8192 tokens",
        )  # fmt: skip
    few = cut(64, edge), cut(1 << 16, edge * edge), cut(256, edge)
    yield sums(few).labelled(note="few places")
    yield append(*(cut(size, edge) for size in (4, 8, 8192, 128)))


def timestep_embedding(
    shape: tuple[int, ...] = (4096, 320), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case of the shape (number of timesteps, width): embeddings of random timesteps."""

    def timesteps(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.uniform(0, 1000, size)

    x = Operand(shape[:1], cast(DTypeName, dtype), values=timesteps)
    dst = Operand(shape, cast(DTypeName, out))
    return Case("timestep_embedding", {"x": x, "dst": dst}, {}, shape)


def lookup(m: int, n: int, k: int) -> Case:
    """A case: n rows are picked from m rows, some of them several times."""

    def tokens(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.integers(0, m, shape).astype(np.int64)

    table, picked = Operand((m, k), "float16"), Operand((n, k), "float16")
    index = Operand((n,), "int64", values=tokens)
    return Case(
        "get_rows", {"src": table, "index": index, "dst": picked}, shape=(m, n, k), part=columns,
        note="embedding", name="llama-3-8b-embedding", origin="Llama 3 8B: 4096 tokens looked up",
    )  # fmt: skip


def add_rows(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: rows (n, k) are added to n / 16 places."""
    return sums((max(shape[0] // 16, 1), *shape), dtype)


def sums(shape: tuple[int, ...], dtype: str = "float32") -> Case:
    """A case: n rows of k elements are added to any of m rows."""
    m, n, k = shape

    def tokens(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.integers(0, m, shape).astype(np.int32)

    tensors = {
        "src": Operand((n, k), cast(DTypeName, dtype)),
        "index": Operand((n,), "int32", values=tokens), "dst": Operand((m, k), "float32"),
    }  # fmt: skip
    return Case("add_rows", tensors, {}, shape, part=columns)


def append(batch: int, heads: int, tokens: int, width: int) -> Case:
    """A case: keys with transposed heads and tokens are written to places of a cache that is twice
    as long."""

    def places(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.permutation(2 * tokens)[:tokens].astype(np.int64)

    def last(t: dict[str, Any]) -> dict[str, Any]:
        return {n: a if n == "index" else a[-1, -1, :, -2:] for n, a in t.items()}

    size = (batch, heads, tokens, width)
    tensors = {
        "src": Operand(size, "float32", order=(0, 2, 1, 3)),
        "index": Operand((tokens,), "int64", values=places),
        "dst": Operand((batch, heads, 2 * tokens, width), "float16"),
    }
    return Case(
        "set_rows", tensors, {}, size, part=last, note="cache", name="kv-cache",
        origin="a batch of keys into a cache",
    )  # fmt: skip


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    if "index" not in t:
        raise Skipped("this peer is written for kernels with an index only")
    if case.kernel == "add_rows":
        np.add.at(t["dst"], t["index"], t["src"])
    elif case.kernel == "set_rows":
        t["dst"][..., t["index"], :] = t["src"]
    else:
        t["dst"][...] = t["src"][t["index"]]


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if "index" not in t:
        raise Skipped("this peer is written for kernels with an index only")
    if t["src"].dtype != t["dst"].dtype:
        raise Skipped("torch's rows keep their dtype")
    if case.kernel == "add_rows":
        t["dst"].index_add_(0, t["index"], t["src"])
    elif case.kernel == "set_rows":
        t["dst"].index_copy_(-2, t["index"].long(), t["src"])
    else:
        torch.index_select(t["src"], 0, t["index"], out=t["dst"])


@onnx_peer
def ort(case: Case) -> Node:
    if case.kernel != "get_rows":
        raise Skipped("its ScatterND copies the whole tensor first")
    return Node("Gather", "src", ("src", "index"), {"axis": 0})


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: each invocation moves one element."""
    if "index" not in case.tensors or case.kernel == "add_rows":
        raise Skipped("this peer is written for get_rows and set_rows only")
    src, dst = case.tensors["src"], case.output
    if len(dst.shape) != 2:
        raise Skipped("this peer is written for matrices only")
    n, k = case.tensors["index"].shape[0], dst.shape[1]
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
