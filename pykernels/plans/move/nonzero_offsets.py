"""nonzero_offsets: counts the nonzero elements of chunks, then adds up the counts."""

from __future__ import annotations

from pykernels._generated.bodies import nonzero_count, nonzero_scan
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .keeping import keep

__all__ = ["CHUNK", "plan"]

_CHUNK = nonzero_count.CONFIGS["chunk4096"]
CHUNK = _CHUNK.UNROLL * _CHUNK.threads  # elements of a chunk, which has one offset


def plan(caps: Caps, scratch: Scratch, src: View, offsets: View) -> list[Step]:
    """The steps: two dispatches; without elements, only the dispatch that writes a zero."""
    wanted = (cdiv(src.size, CHUNK) + 1,)
    if offsets.shape != wanted:
        raise ShapeError(
            f"[nonzero_offsets] offsets must have shape {wanted} but has {offsets.shape}"
        )
    scan = nonzero_scan.step(caps, offsets)
    if src.size == 0:
        return [scan]
    lo, hi = keep(src)
    return [nonzero_count.step(caps, src, offsets, keep_lo=lo, keep_hi=hi), scan]
