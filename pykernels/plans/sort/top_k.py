"""top_k: finds the first k of each piece, then the first k of these candidates; or sorts everything
and takes the first k."""

from __future__ import annotations

from pykernels._generated.bodies import sort_pick
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.copy import cpy
from pykernels.plans.parts import Part
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .order import BLOCK, check, front, merged, merges, radix, short_rows, words

__all__ = ["plan"]

# Half a block, so that a round leaves at most half of the elements that it gets.
MOST = BLOCK // 2


def plan(
    caps: Caps, scratch: Scratch, x: View, dst: View, index: View, largest: bool = True
) -> list[Step]:
    """The steps: one dispatch for short rows, several for long rows."""
    check("top_k", x)
    if x.dtype != dst.dtype:
        raise DTypeError(
            f"[top_k] dst must have the dtype of x, {x.dtype.name}, but is {dst.dtype.name}"
        )
    if dst.ndim != x.ndim or dst.shape[:-1] != x.shape[:-1] or dst.shape[-1] > x.shape[-1]:
        raise ShapeError(
            f"[top_k] dst must have the shape of x, {x.shape}, with up to {x.shape[-1]} columns "
            f"but has {dst.shape}"
        )
    if index.shape != dst.shape:
        raise ShapeError(
            f"[top_k] index must have the shape of dst, {dst.shape}, but has {index.shape}"
        )
    if dst.size == 0:
        return []
    found = whole(
        caps, scratch, (x, dst, index), lambda: _whole(caps, scratch, x, dst, index, largest)
    )
    if found is not None:
        return found
    views = {"x": x, "dst": dst, "index": index}
    rows = [{"x": axis, "dst": axis, "index": axis} for axis in range(x.ndim - 1)]

    def plan_part(part: Part) -> list[Step]:
        v = part.views
        return _whole(caps, scratch, v["x"], v["dst"], v["index"], largest)

    return in_parts(caps, scratch, views, rows, plan_part, ("dst", "index"))


def _whole(
    caps: Caps, scratch: Scratch, x: View, dst: View, index: View, largest: bool
) -> list[Step]:
    keep = dst.shape[-1]
    # rounds over pieces would take more dispatches than a sort
    if merges(x) and keep * cdiv(x.shape[-1], BLOCK) > BLOCK:
        return merged(caps, scratch, x, dst, index, keep, largest)
    if keep <= MOST or x.shape[-1] <= BLOCK:
        return _rounds(caps, scratch, x, None, dst, index, keep, largest)
    items = words(scratch, x)
    found = scratch.empty(index.shape, "int32")
    return [
        *radix(caps, scratch, x, words(scratch, x), items, False, largest),
        *cpy.plan(caps, scratch, front(items, index.shape, index), found),
        *cpy.plan(caps, scratch, found, index),
        sort_pick.step(caps, x, found, dst),
    ]


def _rounds(
    caps: Caps,
    scratch: Scratch,
    x: View,
    positions: View | None,
    dst: View,
    index: View,
    keep: int,
    largest: bool,
) -> list[Step]:
    """The steps of rounds over pieces of one block, until one piece holds all the elements that are
    left of a row."""
    cols = x.shape[-1]
    if cols <= BLOCK:
        return short_rows(caps, scratch, x, positions, dst, index, keep, largest)
    whole = cdiv(cols, BLOCK) - 1
    left = whole * keep + min(keep, cols - whole * BLOCK)
    best = scratch.empty((*x.shape[:-1], left), x.dtype.name)
    places = scratch.empty((*x.shape[:-1], left), "int32")
    return [
        *short_rows(caps, scratch, x, positions, best, places, keep, largest),
        *_rounds(caps, scratch, best, places, dst, index, keep, largest),
    ]
