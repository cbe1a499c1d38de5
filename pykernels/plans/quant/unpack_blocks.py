"""unpack_blocks: a dispatch for each part that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import unpack_blocks as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .planes import Piece, pieces, read
from .types import BlockType, type_of

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, low: View, scales: View, high: View | None, dst: View,
    quant: str = "q4_0",
) -> list[Step]:  # fmt: skip
    """One dispatch; none without numbers."""
    kind = type_of("unpack_blocks", quant)
    if dst.ndim != 3 or dst.shape[2] % kind.nbytes or (dst.size and dst.strides[2] != 1):
        raise ShapeError(
            f"[unpack_blocks] dst must be (batches, rows, bytes) with whole blocks of "
            f"{kind.nbytes} bytes but has shape {dst.shape}"
        )
    shape = (*dst.shape[:2], dst.shape[2] // kind.nbytes * kind.block)
    copies, low, scales, high = read("unpack_blocks", caps, scratch, kind, shape, low, scales, high)
    if dst.size == 0:
        return []
    found = pieces(caps, kind, low, scales, high, [dst], kind.nbytes)
    return copies + [_step(caps, kind, piece) for piece in found]


def _step(caps: Caps, kind: BlockType, piece: Piece) -> Step:
    low, scales, high, dst, first_row = piece
    batches, rows, row_bytes = dst.shape
    # one word more, because a row may begin at any byte of a word
    row_words = cdiv(row_bytes, 4) + 1
    return body.step(
        caps, low, scales, high, dst, TYPE=kind.name, LV=kind.vec, rows=rows, first_row=first_row,
        row_bytes=row_bytes, row_words=row_words, total=batches * rows * row_words,
    )  # fmt: skip
