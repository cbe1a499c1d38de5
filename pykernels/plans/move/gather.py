"""gather: copies the elements of src that the index picks to dst, in the order of the index."""

from __future__ import annotations

from pykernels._generated.bodies import gather as body
from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .picked import check as check_views
from .picked import shares

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, axis: int = -1,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty dst, more if a tensor is larger than one binding."""
    if dst.ndim == 0 and src.ndim == 0:
        src, index, dst = src.as_rank(1), index.as_rank(1), dst.as_rank(1)
    at = check_views("gather", src, index, dst, axis, "src")
    if dst.size == 0:
        return []
    limit = src.shape[at]
    watch = Watch("index", limit, index.shape, dst.shape) if check else None
    if limit == 0:  # every index is out of range, so it does not matter which values are read
        shape = (*src.shape[:at], 1, *src.shape[at + 1 :])
        src = scratch.empty((1,), src.dtype.name).with_layout(shape, (0,) * src.ndim)
    steps: list[Step] = []
    for share in shares(caps, scratch, src, index, dst, at, "src", watch):
        if share.apart is not None and share.copy is not None:
            steps += cpy.plan(caps, scratch, share.apart, share.copy)
        steps.append(
            body.step(
                caps, share.src, share.index, share.dst, S=src.dtype.itemsize, limit=limit,
                last=max(limit - 1, 0), watch=share.watch,
            )
        )  # fmt: skip
    return steps
