"""quantize: a dispatch for each part that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import quantize as body
from pykernels.errors import ArgumentError
from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .planes import Piece, has_fours, in_fours, matrices, pieces, written
from .types import ROWS, TYPES, BlockType, type_of

__all__ = ["plan"]

_TILE = body.CONFIGS["rows32"]


def plan(
    caps: Caps, scratch: Scratch, x: View, scales: View, high: View | None, low: View,
    quant: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none without numbers."""
    kind = type_of("quantize", quant)
    if not kind.made:
        raise ArgumentError(
            f"[quantize] {kind.name} cannot be made of numbers here, only read from files: type "
            f"must be one of {', '.join(t.name for t in TYPES.values() if t.made)}"
        )
    copies, low, scales, high = written("quantize", caps, scratch, kind, x.shape, low, scales, high)
    if x.size == 0:
        return []
    before: list[Step] = []
    if not has_fours(x):
        copy = scratch.empty(x.shape, x.dtype.name)
        before, x = cpy.plan(caps, scratch, x, copy), copy
    found = pieces(caps, kind, low, scales, high, matrices(x), kind.block)
    return before + [_step(caps, kind, piece) for piece in found] + copies


def _step(caps: Caps, kind: BlockType, piece: Piece) -> Step:
    low, scales, high, other, first_row = piece
    groups, rows = low.shape[1], other.shape[1]
    padded = cdiv(rows, ROWS) * ROWS
    x, _ = in_fours(other)
    return body.step(
        caps, x, scales, high, low, TYPE=kind.name, rows=rows, padded=padded,
        first_row=first_row, groups_k=groups, across=cdiv(padded, _TILE.ROWS),
        down=cdiv(groups, _TILE.GROUPS),
    )  # fmt: skip
