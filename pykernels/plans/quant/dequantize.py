"""dequantize: a dispatch for each part that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import dequantize as body
from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .planes import Piece, has_fours, in_fours, matrices, pieces, read
from .types import BlockType, type_of

__all__ = ["plan"]

_TILE = body.CONFIGS["rows32"]


def plan(
    caps: Caps, scratch: Scratch, low: View, scales: View, high: View | None, dst: View,
    quant: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty dst."""
    kind = type_of("dequantize", quant)
    copies, low, scales, high = read(
        "dequantize", caps, scratch, kind, dst.shape, low, scales, high
    )
    if dst.size == 0:
        return []
    out = dst if has_fours(dst) else scratch.empty(dst.shape, dst.dtype.name)
    found = pieces(caps, kind, low, scales, high, matrices(out), kind.block)
    steps = copies + [_step(caps, kind, piece) for piece in found]
    return steps if out is dst else steps + cpy.plan(caps, scratch, out, dst)


def _step(caps: Caps, kind: BlockType, piece: Piece) -> Step:
    groups, rows = piece.low.shape[1], piece.other.shape[1]
    dst, _ = in_fours(piece.other)
    across, down = cdiv(groups, _TILE.GROUPS), cdiv(rows, _TILE.ROWS)
    return body.step(
        caps, piece.low, piece.scales, piece.high, dst, TYPE=kind.name, LV=kind.vec,
        groups_k=groups, rows_n=rows, first_row=piece.first_row, across=across, down=down,
    )  # fmt: skip
