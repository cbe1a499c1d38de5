"""batch_norm_backward: sums of each channel, along rows or down columns, and dst."""

from __future__ import annotations

import math

from pykernels._generated.bodies import binary
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .apply import apply_backward
from .channels import check, given, sums_of_images
from .statistics import Norm, Statistics, as_float, check_affine, dense, repeat
from .sums import column_sums, pick, zeros

__all__ = ["plan"]

OP = "batch_norm_backward"


def plan(
    caps: Caps, scratch: Scratch, dy: View, x: View, saved: View, weight: View | None,
    dweight: View | None, dbias: View | None, dst: View, eps: float,
) -> list[Step]:  # fmt: skip
    """The dispatches of one call."""
    check(OP, x)
    channels = x.shape[1]
    check_affine(OP, channels, weight=weight, dweight=dweight, dbias=dbias)
    if saved.shape != (3, channels):
        raise ShapeError(f"[{OP}] saved must have shape {(3, channels)} but has {saved.shape}")
    if x.size == 0:
        return zeros(caps, scratch, dweight, dbias)
    norm = Norm(OP, True, eps)
    steps: list[Step] = []
    saved = dense(caps, scratch, saved, "float32", steps) or saved
    last = [abs(s) for s, n in zip(x.strides[2:], x.shape[2:], strict=True) if n > 1]
    if channels == 1 or (last and min(last) < abs(x.strides[1])):
        x, dy, dst = given(caps, scratch, [x, dy, dst], steps)
        known = _known(saved, x, 1)
        return steps + sums_of_images(
            caps, scratch, norm, dy, x, known, weight, dweight, dbias, dst, (1,), 0
        )
    x, dy, dst = [_channels_last(v) for v in (x, dy, dst)]
    known = _known(saved, x, x.ndim - 1)
    sums = scratch.empty((2, channels), "float32")
    rows = [pick(sums, 0, i) for i in (0, 1)]
    steps += column_sums(caps, scratch, norm, dy, x, known, *rows)
    for row, out in zip(rows, (dbias, dweight), strict=True):
        if out is not None:
            steps += cpy.plan(caps, scratch, row, out)
    over = None
    if weight is not None:
        weight = as_float(caps, scratch, weight, steps)
        over = repeat(weight, x.shape, (x.ndim - 1,))
        scaled = scratch.empty((2, channels), "float32")
        steps.append(binary.step(caps, sums, weight, scaled, OP="mul"))
        rows = [pick(scaled, 0, i) for i in (0, 1)]
    first = repeat(rows[0], x.shape, (x.ndim - 1,))
    return steps + apply_backward(caps, norm, dy, x, known, first, channels, over, dst)


def _known(saved: View, x: View, axis: int) -> Statistics:
    """The statistics that the forward call saved, as views over the elements of x."""
    pivot, offset, squares = [repeat(pick(saved, 0, i), x.shape, (axis,)) for i in range(3)]
    return Statistics(pivot, offset, squares, math.prod(x.shape) // x.shape[axis])


def _channels_last(view: View) -> View:
    order = (0, *range(2, view.ndim), 1)
    return view.with_layout([view.shape[a] for a in order], [view.strides[a] for a in order])
