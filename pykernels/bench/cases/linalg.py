"""Linear systems and factors: many small matrices, and one large one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pykernels.bench.case import Array, Case, Operand
from pykernels.bench.peers import torch_peer
from pykernels.bench.shapes import Shape, pick

SHAPES = [
    Shape("chunks", (1024, 64, 64), "the chunks of 64 tokens of a gated delta rule, 32 heads"),
    Shape("1024", (1, 1024, 1024), "one matrix of some size"),
]
FACTORS = [
    Shape("blocks", (4096, 64, 64), "covariances of 64 variables"),
    Shape("2048", (1, 2048, 2048), "the kernel matrix of a Gaussian process on 2048 points"),
]
SYSTEMS = [
    Shape("blocks", (4096, 64, 1), "a system of 64 unknowns for each item of a batch"),
    Shape("2048", (1, 2048, 16), "one matrix of some size, few right sides"),
]
MAIN = {
    "cholesky": ("f32-4096x64x64",),
    "lu_factor": ("f32>i32-4096x64x64",),
    "solve": ("f32-4096x64x1",),
    "solve_tri": ("f32-1024x64x64",),
}


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(SHAPES, edge):
        yield solve_tri(s.dims).labelled(name=s.name, origin=s.origin)
    for s in pick(FACTORS, edge):
        yield cholesky(s.dims).labelled(name=s.name, origin=s.origin)
        yield lu_factor(s.dims).labelled(name=s.name, origin="matrices as large as cholesky's")
    for s in pick(SYSTEMS, edge):
        yield solve(s.dims).labelled(name=s.name, origin=s.origin)


def cholesky(
    shape: tuple[int, ...] = (4096, 64, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """A case: batches of symmetric matrices near the identity."""
    a = Operand(shape, "float32", values=symmetric)
    return Case("cholesky", {"a": a, "dst": Operand(shape, "float32")}, {}, shape)


def symmetric(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Symmetric matrices whose eigenvalues are about between 0.5 and 1.5."""
    a = rng.uniform(-1, 1, shape) / (4 * np.sqrt(shape[-1]))
    found: Array = np.eye(shape[-1]) + a + a.swapaxes(-1, -2)
    return found


def lu_factor(
    shape: tuple[int, ...] = (4096, 64, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """A case: batches of matrices near the identity, with their rows in another order."""
    tensors = {
        "a": Operand(shape, "float32", values=mixed), "dst": Operand(shape, "float32"),
        "pivots": Operand(shape[:-1], "int32"),
    }  # fmt: skip
    return Case("lu_factor", tensors, {}, shape)


def solve(shape: tuple[int, ...] = (4096, 64, 1), dtype: str = "float32", out: str = "") -> Case:
    """A case: batches of n equations for k right sides. The matrices are near the identity, with
    their rows in another order."""
    batch, n, k = shape
    a, b = Operand((batch, n, n), "float32", values=mixed), Operand((batch, n, k), "float32")
    return Case("solve", {"a": a, "b": b, "dst": b}, {}, shape)


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    found: Array = near_identity(rng, shape)[..., rng.permutation(shape[-1]), :]
    return found


def solve_tri(
    shape: tuple[int, ...] = (1024, 64, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """A case: batches of n equations for k right sides, with matrices near the identity."""
    batch, n, k = shape
    a = Operand((batch, n, n), "float32", values=near_identity)
    b = Operand((batch, n, k), "float32")
    return Case("solve_tri", {"a": a, "b": b, "dst": b}, {}, shape)


def near_identity(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.eye(shape[-1]) + rng.uniform(-1, 1, shape) / shape[-1]


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "cholesky":
        torch.linalg.cholesky(t["a"], out=t["dst"])
    elif case.kernel == "lu_factor":
        torch.linalg.lu_factor(t["a"], out=(t["dst"], t["pivots"]))
    elif case.kernel == "solve":
        torch.linalg.solve(t["a"], t["b"], out=t["dst"])
    else:
        torch.linalg.solve_triangular(t["a"], t["b"], upper=False, out=t["dst"])


PEERS = {"torch": torch}
