"""nonzero: writes the indices of nonzero elements; the offset of a chunk says where its first index
goes."""

from __future__ import annotations

from pykernels._generated.bodies import nonzero as body
from pykernels.errors import LimitError, ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .keeping import keep
from .nonzero_offsets import CHUNK

__all__ = ["plan"]

MOST_AXES = 6


def plan(caps: Caps, scratch: Scratch, src: View, offsets: View, dst: View) -> list[Step]:
    """One dispatch; none if nothing is written."""
    wanted = (cdiv(src.size, CHUNK) + 1,)
    if offsets.shape != wanted:
        raise ShapeError(f"[nonzero] offsets must have shape {wanted} but has {offsets.shape}")
    if src.ndim == 0 or dst.ndim != 2 or dst.shape[0] != src.ndim:
        raise ShapeError(
            f"[nonzero] src must have an axis or more and dst be ({src.ndim}, count) but they have "
            f"shapes {src.shape} and {dst.shape}"
        )
    if src.ndim > MOST_AXES:
        raise LimitError(f"src may have {MOST_AXES} axes but has {src.ndim}")
    if dst.size == 0 or src.size == 0:
        return []
    lo, hi = keep(src)
    sizes = (*src.shape, *(1 for _ in range(MOST_AXES - src.ndim)))
    step = body.step(
        caps, src, offsets, dst, S=src.dtype.itemsize, keep_lo=lo, keep_hi=hi, size1=sizes[1],
        size2=sizes[2], size3=sizes[3], size4=sizes[4], size5=sizes[5],
    )  # fmt: skip
    return [step]
