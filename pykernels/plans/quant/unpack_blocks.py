"""unpack_blocks: a dispatch for each part that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import unpack_blocks as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.block_types import type_of
from pykernels.tensors.layout import View

from .planes import bound

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, low: View, scales: View, high: View | None, dst: View,
    type: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none without numbers."""
    kind = type_of("unpack_blocks", type)
    if dst.ndim != 3 or dst.shape[2] % kind.nbytes or dst.strides[2] != 1:
        raise ShapeError(
            f"[unpack_blocks] dst must be (batches, rows, bytes) with whole blocks of "
            f"{kind.nbytes} bytes but has shape {dst.shape}"
        )
    batches, rows, row_bytes = dst.shape
    shape = (batches, rows, row_bytes // kind.nbytes * kind.block)
    low, scales, high = bound("unpack_blocks", kind, shape, low, scales, high)
    if dst.size == 0:
        return []
    # A row begins at any byte of a word.
    row_words = (row_bytes + 3) // 4 + 1
    return [
        body.step(
            caps, low, scales, high, dst, TYPE=kind.name, LV=kind.vec, rows=rows,
            row_bytes=row_bytes, row_words=row_words, total=batches * rows * row_words,
        )
    ]  # fmt: skip
