"""timestep_embedding: one dispatch."""

from __future__ import annotations

import math

from pykernels._generated.bodies import timestep_embedding as body
from pykernels.errors import ArgumentError, ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, x: View, dst: View, max_period: float = 10000.0
) -> list[Step]:
    """One step, none for an empty dst."""
    if x.ndim != 1 or dst.ndim != 2 or dst.shape[0] != x.shape[0]:
        raise ShapeError(
            "[timestep_embedding] x must have shape (n,) and dst (n, d) but they have shapes "
            f"{x.shape} and {dst.shape}"
        )
    if not 0.0 < max_period < math.inf:
        raise ArgumentError(
            f"[timestep_embedding] max_period must be above 0 and finite but is {max_period}"
        )
    if dst.size == 0:
        return []
    decay = math.log2(max_period) / max(dst.shape[1] // 2, 1)
    return [body.step(caps, x, dst, decay=decay)]
