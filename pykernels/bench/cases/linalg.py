"""Triangular systems and Cholesky factors: many small matrices, and one large one."""

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
MAIN = {"solve_tri": ("f32-1024x64x64",), "cholesky": ("f32-4096x64x64",)}


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(SHAPES, edge):
        yield solve_tri(s.dims).labelled(name=s.name, origin=s.origin)
    for s in pick(FACTORS, edge):
        yield cholesky(s.dims).labelled(name=s.name, origin=s.origin)


def cholesky(
    shape: tuple[int, ...] = (4096, 64, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """Batches of n equations with symmetric matrices near the identity."""
    a = Operand(shape, "float32", values=symmetric)
    return Case("cholesky", {"a": a, "dst": Operand(shape, "float32")}, {}, shape)


def symmetric(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Symmetric matrices whose eigenvalues are about between 0.5 and 1.5."""
    a = rng.uniform(-1, 1, shape) / (4 * np.sqrt(shape[-1]))
    found: Array = np.eye(shape[-1]) + a + a.swapaxes(-1, -2)
    return found


def solve_tri(
    shape: tuple[int, ...] = (1024, 64, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """Batches of n equations for k right sides, with matrices near the identity."""
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
    else:
        torch.linalg.solve_triangular(t["a"], t["b"], upper=False, out=t["dst"])


PEERS = {"torch": torch}
