"""Sparse matrices times vectors and matrices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Array, Case, Operand
from pykernels.bench.peers import torch_peer
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName

EACH = 16  # average number of elements of a row
MAIN = {"csr_matmul": ("f32xi32>f32-65536x65536x64-16_a_row",)}


def csr_matmul(
    shape: tuple[int, ...] = (65536, 65536, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """A case: a sparse matrix (m, k) with 16 elements in a row on average, times a matrix (k,
    n)."""
    m, k, n = shape
    name = cast(DTypeName, dtype)
    tensors = {
        "data": Operand((m * EACH,), name),
        "indices": Operand((m * EACH,), "int32", values=partial(columns, below=k)),
        "indptr": Operand((m + 1,), "int32", values=partial(ends, elements=m * EACH)),
        "x": Operand((k, n), name),
        "dst": Operand((m, n), name),
    }
    return Case("csr_matmul", tensors, {"check": False}, shape, f"{EACH} a row")


def columns(rng: np.random.Generator, shape: tuple[int, ...], below: int) -> Array:
    return rng.integers(0, below, shape)


def ends(rng: np.random.Generator, shape: tuple[int, ...], elements: int) -> Array:
    """For each row, the index of its first element, at random; last, the number of all elements."""
    inner = np.sort(rng.integers(0, elements + 1, max(shape[0] - 2, 0)))
    return np.concatenate([[0], inner, [elements]])


def cases(edge: int = 0) -> Iterator[Case]:
    for shape in ((65536, 65536, 64), (1 << 20, 1 << 20, 1), (65536, 65536, 8)):
        yield csr_matmul(tuple(cut(n, edge) for n in shape))
    yield csr_matmul(tuple(cut(n, edge) for n in (65536, 65536, 64)), "float16")


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    a = torch.sparse_csr_tensor(
        t["indptr"], t["indices"], t["data"], (t["dst"].shape[0], t["x"].shape[0])
    )
    t["dst"].copy_(a @ t["x"])


PEERS = {"torch": torch}
