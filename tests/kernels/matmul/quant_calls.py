"""Products with quantised weights in one case, each checked against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk
from pykernels.tensors.block_types import TYPES
from pykernels.tensors.quantised import QTensor
from tests.harness import Array

# Where the blocks of a file have halves: scales, and what is subtracted.
HALVES = {
    "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "q8_0": (0,), "q2_k": (80, 82),
    "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,),
}  # fmt: skip


def weights(dev: pk.Device, rng: np.random.Generator, kind: str, n: int, k: int) -> QTensor:
    """Random blocks, whose numbers are about 1."""
    t = TYPES[kind]
    blocks = rng.integers(0, 256, (n, k // t.block, t.nbytes), dtype=np.uint8)
    size = {32: 0.1 if "8" not in kind else 0.01, 256: 0.004}[t.block]
    for at in HALVES[kind]:
        scale = rng.uniform(0.5, 1.5, blocks.shape[:2]) * rng.choice([-1, 1], blocks.shape[:2])
        blocks[..., at : at + 2] = (size * scale).astype("<f2")[..., None].view(np.uint8)
    return QTensor.from_bytes(blocks.tobytes(), (n, k), kind, dev)


def bound(w: Array, x: Array, **options: Any) -> Array:
    return 0
