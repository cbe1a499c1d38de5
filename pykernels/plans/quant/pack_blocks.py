"""pack_blocks: one dispatch for each part that fits into bindings."""

from __future__ import annotations

from pykernels._generated.bodies import pack_blocks as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .planes import Piece, pieces, written
from .types import ROWS, BlockType, type_of

__all__ = ["plan"]

_TILE = body.CONFIGS["rows32"]


def plan(
    caps: Caps, scratch: Scratch, raw: View, scales: View, high: View | None, low: View,
    quant: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none without numbers."""
    kind = type_of("pack_blocks", quant)
    if raw.ndim != 3 or raw.shape[2] % kind.nbytes or (raw.size and raw.strides[2] != 1):
        raise ShapeError(
            f"[pack_blocks] raw must be (batches, rows, bytes) with whole blocks of {kind.nbytes} "
            f"bytes but has shape {raw.shape}"
        )
    shape = (*raw.shape[:2], raw.shape[2] // kind.nbytes * kind.block)
    copies, low, scales, high = written(
        "pack_blocks", caps, scratch, kind, shape, low, scales, high
    )
    if raw.size == 0:
        return []
    found = pieces(caps, kind, low, scales, high, [raw], kind.nbytes)
    return [_step(caps, kind, piece) for piece in found] + copies


def _step(caps: Caps, kind: BlockType, piece: Piece) -> Step:
    low, scales, high, raw, first_row = piece
    groups, rows = low.shape[1], raw.shape[1]
    padded = cdiv(rows, ROWS) * ROWS
    return body.step(
        caps, raw, scales, high, low, TYPE=kind.name, LV=kind.vec, rows=rows, padded=padded,
        first_row=first_row, groups_k=groups, across=cdiv(padded, _TILE.ROWS),
        down=cdiv(groups, _TILE.GROUPS),
    )  # fmt: skip
