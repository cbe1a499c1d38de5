"""scatter: copies the elements of src, in order, to the places of dst that the index picks."""

from __future__ import annotations

from pykernels._generated.bodies import scatter as body
from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .last_index import lasts
from .picked import check as check_views
from .picked import shares

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, axis: int = -1,
    check: bool = True, distinct: bool = False,
) -> list[Step]:  # fmt: skip
    """The dispatches of last_index and one more; none for an empty src, several if a tensor is
    larger than one binding. In that case, later dispatches write elements that are further along
    the axis."""
    if dst.ndim == 0 and src.ndim == 0:
        src, index, dst = src.as_rank(1), index.as_rank(1), dst.as_rank(1)
    at = check_views("scatter", src, index, dst, axis, "dst")
    if src.size == 0:
        return []
    limit = dst.shape[at]
    watch = Watch("index", limit, index.shape, src.shape) if check else None
    if limit == 0:  # every index is out of range, so nothing is written to this view
        dst = scratch.empty((*dst.shape[:at], 1, *dst.shape[at + 1 :]), dst.dtype.name)
    single = distinct or index.shape[at] == 1
    found = shares(caps, scratch, src, index, dst, at, "dst", watch, table=not single)
    last = None if single else lasts(scratch, [share.index for share in found], at)
    steps: list[Step] = []
    for share in found:
        places, left = share.index, share.watch
        if last is not None:
            places, left, before = last.steps(caps, places, limit, left)
            steps += before
        if share.apart is not None and share.copy is not None:
            steps += cpy.plan(caps, scratch, share.apart, share.copy)
        steps.append(
            body.step(
                caps, share.src, places, share.dst, S=src.dtype.itemsize, limit=limit, watch=left
            )
        )
        if share.apart is not None and share.copy is not None:
            steps += cpy.plan(caps, scratch, share.copy, share.apart)
    return steps
