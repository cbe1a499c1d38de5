"""Sorts of one long row, of many short rows and of narrow keys; and kernels that sort first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.peers import numpy_peer, torch_peer
from pykernels.bench.run import Skipped
from pykernels.bench.shapes import POWER, RAGGED, Shape, cut, pick
from pykernels.dtypes import DTypeName

Array = np.ndarray[Any, Any]
ROWS = [
    Shape("one-row", (1, 1 << 24), POWER),
    Shape("4096", (4096, 4096), POWER),
    Shape("short-rows", (65536, 256), "many rows that share a workgroup"),
    Shape("block-rows", (8192, 2048), "rows that fill workgroup memory"),
    Shape("ragged", (1, 9_999_999), RAGGED),
]
MAIN = {
    "argsort": ("f32>i32-1x16777216",),
    "bincount": ("i32-16777216x256",),
    "bincount_weights": ("i32xf32>f32-16777216x256",),
    "median": ("f32-4096x4096",),
    "searchsorted": ("f32>i32-1048576x16777216",),
    "sort": ("f32-1x16777216",),
    "top_k": ("f32>i32-512x128256x50",),
}


def argsort(
    shape: tuple[int, ...] = (1, 1 << 24), dtype: str = "float32", out: str = "int32"
) -> Case:
    """A case: the positions of each row's elements in order."""
    x = Operand(shape, cast(DTypeName, dtype))
    return Case("argsort", {"x": x, "dst": Operand(shape, "int32")}, {}, shape)


def top_k(
    shape: tuple[int, ...] = (512, 128256, 50), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case of the shape (..., n, k): the k largest elements of each row."""
    kept = cast(DTypeName, dtype)
    found = (*shape[:-2], shape[-1])
    tensors = {
        "x": Operand(shape[:-1], kept), "dst": Operand(found, kept),
        "index": Operand(found, "int32"),
    }  # fmt: skip
    return Case("top_k", tensors, {}, shape)


def searchsorted(
    shape: tuple[int, ...] = (1 << 20, 1 << 24), dtype: str = "float32", out: str = "int32"
) -> Case:
    """A case of the shape (n, m): m values are looked up in one sorted row of n numbers."""
    kept = cast(DTypeName, dtype)

    def ascending(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        numbers = rng.random(shape, np.float32)
        return np.sort(100 * numbers if "int" in dtype else numbers)

    tensors = {
        "sorted": Operand(shape[:1], kept, values=ascending), "values": Operand(shape[1:], kept),
        "dst": Operand(shape[1:], "int32"),
    }  # fmt: skip
    return Case("searchsorted", tensors, {}, shape, part=some)


def some(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: about 65,536 of the values to look up, with all sorted numbers."""
    step = max(t["dst"].size >> 16, 1)
    return {n: a if n == "sorted" else a[::step] for n, a in t.items()}


def median(
    shape: tuple[int, ...] = (4096, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the median of each row."""
    kept = cast(DTypeName, dtype)
    tensors = {"x": Operand(shape, kept), "dst": Operand(shape[:-1], kept)}
    return Case("median", tensors, {}, shape)


def bincount(
    shape: tuple[int, ...] = (1 << 24, 256), dtype: str = "int32", out: str = "int32"
) -> Case:
    """A case of the shape (n, bins): n numbers below 100 are counted in `bins` bins."""
    tensors = {"x": Operand(shape[:1], "int32"), "dst": Operand(shape[1:], "int32")}
    return Case("bincount", tensors, {}, shape)


def bincount_weights(
    shape: tuple[int, ...] = (1 << 24, 256), dtype: str = "float32", out: str = "float32"
) -> Case:
    """The case of `bincount` with weights."""
    tensors = {
        "x": Operand(shape[:1], "int32"), "weights": Operand(shape[:1], "float32"),
        "dst": Operand(shape[1:], "float32"),
    }  # fmt: skip
    return Case("bincount_weights", tensors, {}, shape)


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(ROWS, edge):
        for case in (argsort(s.dims), problem("sort", s.dims, "float32")):
            yield case.labelled(name=s.name, origin=s.origin)
    yield top_k((cut(512, edge), cut(128256, edge), min(50, cut(128256, edge)))).labelled(
        name="llama-3-logits", origin="Llama 3: the 50 best of 512 tokens"
    )
    n = cut(1 << 24, edge)
    yield searchsorted((cut(1 << 20, edge), n))
    yield bincount((n, 256))
    yield bincount((n, 1 << 20))
    yield bincount_weights((n, 256))
    yield median((cut(4096, edge), cut(4096, edge)))
    yield argsort((1, n), "float16")
    yield argsort((1, n), "uint32")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    if case.kernel.startswith("bincount"):
        return np.bincount(t["x"], t.get("weights"), t["dst"].size)
    if case.kernel == "median":
        return np.median(t["x"], -1)
    if case.kernel == "searchsorted":
        return np.searchsorted(t["sorted"], t["values"])
    if case.kernel == "top_k":
        return np.argpartition(t["x"], -t["dst"].shape[-1], axis=-1)
    return getattr(np, case.kernel)(t["x"], -1, kind="stable")


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "searchsorted":
        torch.searchsorted(t["sorted"], t["values"], out_int32=True, out=t["dst"])
    elif case.kernel.startswith("bincount"):
        torch.bincount(t["x"], t.get("weights"), t["dst"].numel())
    elif t["x"].dtype == torch.uint32:
        raise Skipped("torch sorts no uint32")
    elif case.kernel == "top_k":
        torch.topk(t["x"], t["dst"].shape[-1])
    elif case.kernel == "median":
        torch.quantile(t["x"], 0.5, dim=-1)
    else:
        getattr(torch, case.kernel)(t["x"], dim=-1, stable=True)


PEERS = {"numpy": numpy, "torch": torch}
