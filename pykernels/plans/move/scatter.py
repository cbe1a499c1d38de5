"""scatter: elements of src in order, to places of dst that the index picks."""

from __future__ import annotations

from pykernels._generated.bodies import scatter as body
from pykernels.faults import Watch
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step

from .picked import check as check_views
from .picked import shares

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, axis: int = -1,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty src, more where a tensor is larger than one binding."""
    if dst.ndim == 0 and src.ndim == 0:
        src, index, dst = src.as_rank(1), index.as_rank(1), dst.as_rank(1)
    at = check_views("scatter", src, index, dst, axis, "dst")
    if src.size == 0:
        return []
    limit = dst.shape[at]
    watch = Watch("index", limit, index.shape, src.shape) if check else None
    if limit == 0:  # every index is out of range: nothing of this is written
        dst = scratch.empty((*dst.shape[:at], 1, *dst.shape[at + 1 :]), dst.dtype.name)
    return [
        body.step(
            caps, share.src, share.index, share.dst, S=src.dtype.itemsize, limit=limit,
            watch=share.watch,
        )
        for share in shares(caps, src, index, dst, at, "dst", watch)
    ]  # fmt: skip
