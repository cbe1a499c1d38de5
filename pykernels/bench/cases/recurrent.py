"""Linear recurrences, with sizes of known networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pykernels.bench.case import Array, Case, Operand
from pykernels.bench.shapes import Shape, pick

# (B, T, H, K, V)
SHAPES = [
    Shape("mamba", (1, 1024, 1536, 16, 1), "Mamba-130M: a channel is a head"),
    Shape("rwkv7", (1, 1024, 32, 64, 64), "RWKV-7 1.5B, with what the state knows of a key"),
    Shape("token", (1, 1, 32, 128, 128), "one token of a gated delta net"),
]
MAIN = {"linear_recurrence": ("f32-1x1024x1536x16x1", "f32-1x1024x32x64x64")}


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(SHAPES, edge):
        yield linear_recurrence(s.dims).labelled(name=s.name, origin=s.origin)


def linear_recurrence(
    shape: tuple[int, ...] = (1, 1024, 32, 64, 64), dtype: str = "float32", out: str = ""
) -> Case:
    """A case. Heads with one column of values have rates, as in Mamba; other heads have pairs of
    vectors: one reads the old state, and the other writes the result back."""
    b, t, h, k, v = shape
    keys, values = Operand((b, t, h, k), "float32"), Operand((b, t, h, v), "float32")
    operands = {
        "q": keys, "k": keys, "v": values, "decay": Operand((b, t, h, k), "float32", values=fading),
        "state": Operand((b, h, k, v), "float32"),
    }  # fmt: skip
    if v == 1:
        operands["rate"] = Operand((h, k), "float32", values=falling)
    else:
        operands["pair"] = Operand((b, t, h, 2, k), "float32", values=short)
    states = Operand((b, 1, h, k, v), "float32")
    return Case("linear_recurrence", {**operands, "dst": values, "states": states}, {}, shape)


def fading(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.9, 1, shape)


def falling(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return -rng.uniform(0.01, 0.1, shape)


def short(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Vectors so short that their products with each other are far below 1."""
    found: Array = rng.uniform(-0.3, 0.3, shape) / shape[-1] ** 0.5
    return found
