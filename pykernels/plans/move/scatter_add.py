"""scatter_add: atomic additions of integers; for floats a sort of the index, then sums of runs of
equal indices."""

from __future__ import annotations

from pykernels._generated.bodies import scatter_integers, segment_sum
from pykernels.plans.copy import cpy
from pykernels.plans.sort.sorted_index import moved, sorted_index
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .picked import check as check_views
from .picked import shares

__all__ = ["plan"]

TILE = segment_sum.CONFIGS["tile2048"]


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, axis: int = -1,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """One dispatch for integers. For floats the dispatches of the sort, and one for each round of
    sums; a round leaves two elements of each piece."""
    if dst.ndim == 0 and src.ndim == 0:
        src, index, dst = src.as_rank(1), index.as_rank(1), dst.as_rank(1)
    at = check_views("scatter_add", src, index, dst, axis, "dst")
    if src.size == 0:
        return []
    limit = dst.shape[at]
    watch = Watch("index", limit, index.shape, index.shape) if check else None
    if src.dtype.kind != "f" and dst.size > 0:
        return _integers(caps, scratch, src, index, dst, at, watch)
    steps, keys, order = sorted_index(caps, scratch, index, at, limit, watch)
    if dst.size == 0:
        return steps
    values = src.with_layout(moved(src.shape, at), moved(src.strides, at))
    shape = (*keys.shape[:-1], limit)  # dst may be larger along other axes
    dst = dst.with_layout(shape, moved(dst.strides, at))
    return [*steps, *_sums(caps, scratch, keys, order, values, dst)]


def _integers(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, at: int, watch: Watch | None
) -> list[Step]:
    steps: list[Step] = []
    for share in shares(caps, scratch, src, index, dst, at, "dst", watch):
        if share.apart is not None and share.copy is not None:
            steps += cpy.plan(caps, scratch, share.apart, share.copy)
        steps.append(
            scatter_integers.step(
                caps, share.src, share.index, share.dst, limit=dst.shape[at], watch=share.watch
            )
        )
        if share.apart is not None and share.copy is not None:
            steps += cpy.plan(caps, scratch, share.copy, share.apart)
    return steps


def _sums(
    caps: Caps, scratch: Scratch, keys: View, order: View, values: View, dst: View
) -> list[Step]:
    """The rounds of sums; in the last round each row is one piece."""
    steps: list[Step] = []
    positions: View | None = order
    while True:
        length = keys.shape[-1]
        pieces = cdiv(length, TILE.PER * TILE.threads)
        last = pieces == 1
        lanes = min(cdiv(length, TILE.PER), TILE.threads)
        next_keys, next_values = None, None
        if not last:
            next_keys = scratch.empty((*keys.shape[:-1], 2 * pieces), "uint32")
            next_values = scratch.empty(next_keys.shape, "float32")
        steps.append(
            segment_sum.step(
                caps, keys, positions, values, next_keys, next_values, dst,
                FIRST=positions is not None, LAST=last, pieces=pieces,
                lane_bits=(lanes - 1).bit_length(),
            )
        )  # fmt: skip
        if next_keys is None or next_values is None:
            return steps
        keys, values, positions = next_keys, next_values, None
