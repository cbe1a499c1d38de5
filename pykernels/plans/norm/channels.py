"""Norms of images: x is (N, C, ...), and weight and bias have an element for each channel."""

from __future__ import annotations

import math

from pykernels._generated.bodies import norm_rows
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import fits_binding
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Ints, View, merge_axes

from .apply import apply, apply_backward
from .rows import config, nowhere
from .statistics import (
    Affine,
    Norm,
    Statistics,
    affine,
    as_float,
    dense,
    repeat,
)
from .sums import pick, row_sums, sums_alike, total

__all__ = ["check", "given", "group_rows", "in_groups", "normalised", "sums_of_images"]


def check(op: str, x: View) -> None:
    """ShapeError if x is not (N, C, ...)."""
    if x.ndim < 2:
        raise ShapeError(f"[{op}] x must have two or more axes but has shape {x.shape}")


def in_groups(view: View, groups: int) -> View:
    """(N, groups, C / groups, ...) of (N, C, ...)."""
    n, channels, *rest = view.shape
    step, *steps = view.strides[1:]
    each = channels // groups
    return view.with_layout((n, groups, each, *rest), (view.strides[0], step * each, step, *steps))


def of_channels(view: View | None, shape: Ints, groups: int) -> View | None:
    """Weight or bias repeated to `shape`: (N, groups, C / groups, ...), or (N, C, ...) if groups
    is 0."""
    if view is None:
        return None
    if groups == 0:
        return repeat(view, shape, (1,))
    each = view.shape[0] // groups
    step = view.strides[0]
    return repeat(view.with_layout((groups, each), (step * each, step)), shape, (1, 2))


def normalised(
    caps: Caps, scratch: Scratch, norm: Norm, x: View, found: Statistics, weight: View | None,
    bias: View | None, dst: View, groups: int,
) -> list[Step]:  # fmt: skip
    """Compute dst from known statistics."""
    steps: list[Step] = []
    scale = affine(caps, scratch, weight, bias, steps)
    over = [of_channels(v, x.shape, groups) for v in scale]
    return [*steps, *apply(caps, norm, x, found, Affine(*over), dst)]


def group_rows(
    caps: Caps, scratch: Scratch, norm: Norm, x: View, weight: View | None, bias: View | None,
    dst: View,
) -> list[Step] | None:  # fmt: skip
    """The steps of one pass, if the elements of a group (all axes but the first two) lie together
    and registers hold them; else None."""
    length = math.prod(x.shape[3:])
    merged, (steps, out_steps) = merge_axes(x.shape[2:], [x.strides[2:], dst.strides[2:]])
    if len(merged) > 1 or not fits_binding(caps, x) or not fits_binding(caps, dst):
        return None
    rows = x.with_layout((*x.shape[:2], *merged), (*x.strides[:2], *steps))
    to = dst.with_layout((*x.shape[:2], *merged), (*dst.strides[:2], *out_steps))
    views = {"x": rows, "dst": to}
    scaled = weight is not None or bias is not None
    vec = 4 if all([v.vectorizable(4) for v in views.values()]) else 1
    if scaled and length % 4 != 0:
        vec = 1
    found = config(caps, views, vec, norm_rows.CONFIGS)
    if found is None:
        return None
    if scaled and vec == 4 and norm_rows.CONFIGS[found].LANES < 16:
        found = "row64"  # the shortest rows for which a channel's weight is read once
    before: list[Step] = []
    weight = dense(caps, scratch, weight, "float32", before)
    bias = dense(caps, scratch, bias, "float32", before)
    step = norm_rows.step(
        caps, rows, None, weight, bias, nowhere(scratch, rows), to, NORM="layer", VEC=vec,
        WV=1 if scaled else vec, LENGTH=found, inner=length // vec if scaled else 1,
        affine_rows=x.shape[1], l2=0, eps=norm.eps,
    )  # fmt: skip
    return [*before, step]


def given(caps: Caps, scratch: Scratch, views: list[View], steps: list[Step]) -> list[View]:
    """The views with the axes of pixels merged to as few as possible, at least one. The last view
    is the output. If channels lie closer together than pixels, the other views are copied, and the
    steps of the copies are appended to `steps`."""
    first = views[0]
    if first.ndim > 2 and abs(first.strides[1]) < min([abs(s) for s in first.strides[2:]]):
        near = []
        for v in views[:-1]:
            room = scratch.empty(v.shape, v.dtype.name)
            steps += cpy.plan(caps, scratch, v, room)
            near.append(room)
        views = [*near, views[-1]]
    merged, strides = merge_axes(first.shape[2:], [v.strides[2:] for v in views])
    return [
        v.with_layout((*v.shape[:2], *merged), (*v.strides[:2], *s))
        for v, s in zip(views, strides, strict=True)
    ]


def sums_of_images(
    caps: Caps, scratch: Scratch, norm: Norm, dy: View, x: View, found: Statistics,
    weight: View | None, dweight: View | None, dbias: View | None, dst: View, kept: Ints,
    groups: int,
) -> list[Step]:  # fmt: skip
    """The steps of the gradients, if each row along the last axis belongs to one channel. `kept`
    are the axes of the statistics; `groups` is the same as in `of_channels`."""
    steps: list[Step] = []
    weight = as_float(caps, scratch, weight, steps) if weight else None
    over = of_channels(weight, x.shape, groups)
    own, room = row_sums(caps, scratch, norm, dy, x, found, over)
    steps += own
    every = tuple(range(x.ndim))  # the axes of the sums; the last axis counts pieces of a row
    rest = tuple([a for a in every if a not in kept])
    sums = sums_alike(scratch, found, rest)
    for which in (0, 1):
        steps += total(caps, scratch, pick(room, x.ndim - 1, which), rest, sums[which])
    channel = (1, 2) if groups else (1,)
    for which, out in ((2, dbias), (3, dweight)):
        if out is not None:
            shape = tuple([x.shape[a] for a in channel])
            to = in_groups(out.as_rank(2), groups) if groups else out
            to = to.with_layout(shape, to.strides[-len(shape) :])
            axes = tuple([a for a in every if a not in channel])
            steps += total(caps, scratch, pick(room, x.ndim - 1, which), axes, to)
    return steps + apply_backward(
        caps, norm, dy, x, found, repeat(sums[0], x.shape, kept), sums[0].size, over, dst
    )
