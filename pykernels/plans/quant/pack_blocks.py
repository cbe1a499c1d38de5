"""pack_blocks: a dispatch for each part of rows and of groups that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import pack_blocks as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.block_types import type_of
from pykernels.tensors.layout import View

from .planes import bound

__all__ = ["plan"]

_TILE = body.CONFIGS["rows32"]


def plan(
    caps: Caps, scratch: Scratch, raw: View, scales: View, high: View | None, low: View,
    type: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none without numbers."""
    kind = type_of("pack_blocks", type)
    if raw.ndim != 3 or raw.shape[2] % kind.nbytes or raw.strides[2] != 1:
        raise ShapeError(
            f"[pack_blocks] raw must be (batches, rows, bytes) with whole blocks of {kind.nbytes} "
            f"bytes but has shape {raw.shape}"
        )
    batches, rows, row_bytes = raw.shape
    shape = (batches, rows, row_bytes // kind.nbytes * kind.block)
    low, scales, high = bound("pack_blocks", kind, shape, low, scales, high)
    if raw.size == 0:
        return []
    groups, padded = low.shape[1], low.shape[3]
    return [
        body.step(
            caps, raw, scales, high, low, TYPE=kind.name, LV=kind.vec, rows=rows, padded=padded,
            groups_k=groups, across=cdiv(padded, _TILE.ROWS), down=cdiv(groups, _TILE.GROUPS),
        )
    ]  # fmt: skip
