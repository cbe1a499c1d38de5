"""softmax_backward: one dispatch for each part that a binding holds."""

from __future__ import annotations

from pykernels._generated.bodies import softmax_backward as body
from pykernels.plans.parts import row_parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .close import close

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, y: View, dy: View, dst: View) -> list[Step]:
    """One dispatch; more if a tensor is larger than one binding."""
    if y.size == 0:
        return []
    if y.ndim == 0:  # y is a row of one element
        y, dy, dst = y.as_rank(1), dy.as_rank(1), dst.as_rank(1)
    views, before, after = close(caps, scratch, {"y": y, "dy": dy, "dst": dst})
    own = [
        body.step(caps, part.views["y"], part.views["dy"], part.views["dst"])
        for part in row_parts(caps, dst.shape, views)
    ]
    return [*before, *own, *after]
