"""nll_loss: one element of each row, then the sum or mean of these elements."""

from __future__ import annotations

import math

from pykernels._generated.bodies import nll_rows
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .classes import check_classes, column, numbers_of, parts_of_rows
from .total import check_outputs, delivered, total

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    target: View,
    weight: View | None,
    total_: View | None,
    dst: View,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> list[Step]:
    """One dispatch for the losses of rows, and one for their sum or mean."""
    op = "nll_loss"
    check_classes(op, x, target, weight)
    lead, classes = x.shape[:-1], x.shape[-1]
    check_outputs(op, lead, None, total_, dst, reduction)
    numbers = numbers_of(op, ignore_index, 0.0, classes)
    words = {"ignore_lo": numbers.ignore_lo, "ignore_hi": numbers.ignore_hi}
    result, after = delivered(caps, scratch, dst)
    losses = column(result)
    if reduction != "none":
        losses = scratch.empty((*lead, 2), "float32")
    steps: list[Step] = []
    if x.size:
        views = {"x": x, "target": column(target), "dst": losses}
        if x.ndim == 1:  # one row
            views = {name: v.as_rank(2) for name, v in views.items()}
        watch = Watch("target", classes, lead, lead or (1,))
        before, parts, behind = parts_of_rows(caps, scratch, views, watch)
        steps = [
            *before,
            *(
                nll_rows.step(
                    caps, part.views["x"], part.views["target"], weight, part.views["dst"],
                    watch=part.watch, **words,
                )
                for part in parts
            ),
            *behind,
        ]  # fmt: skip
    if reduction != "none":
        flat = losses.with_layout((math.prod(lead), 2), (8, 4))
        steps += total(caps, scratch, flat, total_, result, mean=reduction == "mean")
    return [*steps, *after]
