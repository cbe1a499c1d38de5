"""dequantize: a dispatch; several of whole blocks of columns where a plane is larger than a binding."""

from __future__ import annotations

from pykernels._generated.bodies import dequantize as body
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.block_types import type_of
from pykernels.tensors.layout import View

from .planes import bound

__all__ = ["plan"]

_TILE = body.CONFIGS["rows32"]


def plan(
    caps: Caps, scratch: Scratch, low: View, scales: View, high: View | None, dst: View,
    type: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty dst."""
    kind = type_of("dequantize", type)
    low, scales, high = bound("dequantize", kind, dst.shape, low, scales, high)
    if dst.size == 0:
        return []
    groups = low.shape[1]
    vectors = dst.padded and dst.vectorizable(4)
    return [
        body.step(
            caps, low, scales, high, dst, TYPE=kind.name, LV=kind.vec, V=4 if vectors else 1,
            groups_k=groups, across=cdiv(groups, _TILE.GROUPS),
        )
    ]  # fmt: skip
