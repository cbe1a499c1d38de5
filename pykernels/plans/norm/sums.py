"""The sums that the gradients of norms are made of, over any layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from pykernels._generated.bodies import norm_sums_columns, norm_sums_rows
from pykernels.plans.copy import cpy
from pykernels.plans.parts import narrow, row_parts
from pykernels.plans.reduce import reduction
from pykernels.plans.reduce.passes import choose
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Ints, View, contiguous_strides, merge_axes

from .apply import power
from .statistics import Norm, Statistics

__all__ = ["column_sums", "pick", "row_sums", "sums_alike", "total", "zeros"]

ROWS = norm_sums_rows.CONFIGS["batch4"]
COLUMNS = norm_sums_columns.CONFIGS["batch4"]
ACROSS = 64  # columns of a workgroup, unless columns are short
NARROW = 8  # columns of a workgroup if more columns would leave multiprocessors idle
STATISTICS = ("pivot", "offset", "squares")


def total(caps: Caps, scratch: Scratch, x: View, axes: Ints, dst: View) -> list[Step]:
    """The steps that sum x, which is float32, over some axes, and store the sums in the dtype of
    dst; a sum of no elements is 0."""
    if dst.dtype.name == "float32":
        return reduction.plan(caps, scratch, x, dst, axes, name="sum")
    near = scratch.empty(dst.shape, "float32")
    return [
        *reduction.plan(caps, scratch, x, near, axes, name="sum"),
        *cpy.plan(caps, scratch, near, dst),
    ]


def sums_alike(scratch: Scratch, found: Statistics, axes: Ints) -> tuple[View, View]:
    """Scratch for two sums for each element of the statistics over `axes`. The second sums lie
    behind the first, and both have the strides of the statistics."""
    squares = found.squares
    rest = [a for a in range(squares.ndim) if a not in axes]
    shape = tuple([squares.shape[a] for a in rest])
    size = math.prod(shape)
    room = scratch.empty((2 * size,), "float32")
    first = room.with_layout(shape, [squares.strides[a] for a in rest])
    return first, replace(first, offset=4 * size)


def zeros(caps: Caps, scratch: Scratch, *outs: View | None) -> list[Step]:
    """The steps that write the sums of no elements, which are 0."""
    return [
        step
        for out in outs
        if out is not None and out.size > 0
        for step in total(caps, scratch, scratch.empty((0, *out.shape), "float32"), (0,), out)
    ]


def row_sums(
    caps: Caps, scratch: Scratch, norm: Norm, dy: View, x: View, found: Statistics,
    weight: View | None,
) -> tuple[list[Step], View]:  # fmt: skip
    """Four sums over the last axis, (..., 4, pieces): of g = weight * dy, of g times the norm, of
    dy, and of dy times the norm. The statistics do not change along this axis."""
    vec = 1
    if x.vectorizable(4) and dy.vectorizable(4):
        vec = 4 if not weight or weight.strides[-1] == 0 or weight.vectorizable(4) else 1
    lead = x.shape[:-1]
    vectors = x.shape[-1] // vec
    lanes = min(power(cdiv(vectors, ROWS.N)), ROWS.threads)
    each = ROWS.threads * ROWS.N
    groups = cdiv(math.prod(lead), ROWS.threads // lanes)
    pieces = choose(caps, groups, cdiv(vectors, each)).pieces
    depth = cdiv(vectors, pieces)
    if pieces > 1:
        lanes, depth = ROWS.threads, cdiv(depth, each) * each
    pieces = cdiv(vectors, depth)
    room = scratch.empty((*lead, 4, pieces), "float32")
    given = {
        "dy": dy, "x": x, "pivot": found.pivot, "offset": found.offset, "squares": found.squares,
        "weight": weight, "sums": room.with_layout((*lead, 4 * pieces), (*room.strides[:-2], 4)),
    }  # fmt: skip
    views = {n: v for n, v in given.items() if v is not None}
    steps = []
    for part in row_parts(caps, x.shape, views):
        v = part.views
        steps.append(
            norm_sums_rows.step(
                caps, v["dy"], v["x"], v.get("pivot"), v.get("offset"), v["squares"],
                v.get("weight"), v["sums"], VEC=vec,
                WV=vec if weight and weight.strides[-1] != 0 else 1,
                lane_bits=lanes.bit_length() - 1, pieces=pieces, depth=depth, count=found.elements,
                l2=int(norm.l2), eps=norm.eps,
            )
        )  # fmt: skip
    return steps, room


def column_sums(
    caps: Caps, scratch: Scratch, norm: Norm, dy: View, x: View, found: Statistics,
    dbias: View | None, dweight: View | None,
) -> list[Step]:  # fmt: skip
    """The sums over all axes but the last: the sum of dy goes to dbias, and the sum of dy times the
    norm goes to dweight."""
    given = {
        "dy": dy, "x": x, "pivot": found.pivot, "offset": found.offset, "squares": found.squares,
    }  # fmt: skip
    parts = row_parts(caps, x.shape, {n: v for n, v in given.items() if v is not None})
    together = scratch.empty((len(parts), 2, x.shape[-1]), "float32")
    steps: list[Step] = []
    for i, part in enumerate(parts):
        step, room = _columns(caps, scratch, norm, part.views, found.elements)
        steps.append(step)
        for which, out in enumerate((dbias, dweight)):
            if out is not None:
                to = out if len(parts) == 1 else pick(pick(together, 0, i), 0, which)
                steps += total(caps, scratch, pick(room, 1, which), (0, 1), to)
    if len(parts) > 1:
        for which, out in enumerate((dbias, dweight)):
            if out is not None:
                steps += total(caps, scratch, pick(together, 1, which), (0,), out)
    return steps


def _columns(
    caps: Caps, scratch: Scratch, norm: Norm, views: Mapping[str, View], count: float
) -> tuple[Step, View]:
    """The sums of a part that fits into bindings, (batches, 2, pieces, cols)."""
    lead, strides = merge_axes(views["x"].shape[:-1], [v.strides[:-1] for v in views.values()])
    cols = views["x"].shape[-1]
    v = {
        name: view.with_layout((*lead, cols), (*steps, view.strides[-1]))
        for (name, view), steps in zip(views.items(), strides, strict=True)
    }
    vec = 4 if v["x"].vectorizable(4) and v["dy"].vectorizable(4) else 1
    apart = v["squares"].strides[-1] != 0
    if apart and not all([v[name].vectorizable(4) for name in STATISTICS if name in v]):
        vec = 1
    batches, rows = math.prod(lead[:-1]), lead[-1]
    vectors = batches * (cols // vec)
    across = min(power(vectors), ACROSS)
    while across > NARROW and vectors < across * caps.tuning.device.units:
        across //= 2  # narrower workgroups, so that there are more of them
    tiles = cdiv(vectors, across)
    each = COLUMNS.threads // across * COLUMNS.N
    pieces = choose(caps, tiles, cdiv(rows, each)).pieces
    depth = cdiv(rows, pieces)
    if pieces > 1:
        depth = cdiv(depth, each) * each
    pieces = cdiv(rows, depth)
    room = scratch.empty((batches, 2, pieces, cols), "float32")
    shape = (*lead[:-1], 2 * pieces, cols)
    step = norm_sums_columns.step(
        caps, v["dy"], v["x"], v.get("pivot"), v.get("offset"), v["squares"],
        room.with_layout(shape, contiguous_strides(shape, 4)), VEC=vec, SV=vec if apart else 1,
        across_bits=across.bit_length() - 1, tiles=tiles, pieces=pieces, depth=depth, count=count,
        l2=int(norm.l2), eps=norm.eps,
    )  # fmt: skip
    return step, room


def pick(view: View, axis: int, index: int) -> View:
    """The view at one index of an axis, without that axis."""
    one = narrow(view, axis, index, 1)
    shape, strides = one.shape, one.strides
    return one.with_layout(shape[:axis] + shape[axis + 1 :], strides[:axis] + strides[axis + 1 :])
