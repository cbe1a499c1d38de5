"""scatter_add: a stable sort of the index, then sums of runs of equal keys, list by list."""

from __future__ import annotations

from pykernels._generated.bodies import scatter_keys, segment_sum
from pykernels.plans.sort import argsort
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .picked import check as check_views

__all__ = ["plan"]

PIECE = 32  # elements of an invocation of segment_sum


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, axis: int = -1,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """The sort, and a dispatch for each list: each has a sixteenth of the elements before."""
    if dst.ndim == 0 and src.ndim == 0:
        src, index, dst = src.as_rank(1), index.as_rank(1), dst.as_rank(1)
    at = check_views("scatter_add", src, index, dst, axis, "dst")
    if src.size == 0:
        return []
    limit = dst.shape[at]
    keys = scratch.empty(_moved(index.shape, at), "int32")
    in_place = keys.with_layout(index.shape, _back(keys.strides, at))
    watch = Watch("index", limit, index.shape, index.shape) if check else None
    steps = [scatter_keys.step(caps, index, in_place, limit=limit, watch=watch)]
    if dst.size == 0:
        return steps
    order = scratch.empty(keys.shape, "int32")
    steps += argsort.plan(caps, scratch, keys, order)
    values = src.with_layout(_moved(src.shape, at), _moved(src.strides, at))
    shape = (*keys.shape[:-1], limit)  # dst may be larger along other axes
    dst = dst.with_layout(shape, _moved(dst.strides, at))
    positions: View | None = order
    while True:
        pieces = cdiv(keys.shape[-1], PIECE)
        first = positions is not None
        if pieces == 1:
            steps.append(
                segment_sum.step(
                    caps, keys, positions, values, None, None, dst, FIRST=first, LAST=True,
                    pieces=1,
                )
            )  # fmt: skip
            return steps
        next_keys = scratch.empty((*keys.shape[:-1], 2 * pieces), "int32")
        next_values = scratch.empty(next_keys.shape, dst.dtype.name)
        steps.append(
            segment_sum.step(
                caps, keys, positions, values, next_keys, next_values, dst, FIRST=first, LAST=False,
                pieces=pieces,
            )
        )  # fmt: skip
        keys, values, positions = next_keys, next_values, None


def _moved(items: tuple[int, ...], at: int) -> tuple[int, ...]:
    """What belongs to the axis `at`, last."""
    return (*items[:at], *items[at + 1 :], items[at])


def _back(items: tuple[int, ...], at: int) -> tuple[int, ...]:
    """The last one, where the axis `at` is."""
    return (*items[:at], items[-1], *items[at:-1])
