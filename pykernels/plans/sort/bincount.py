"""bincount: zeros, then atomic additions, in workgroup memory if all counts fit into it."""

from __future__ import annotations

from pykernels._generated.bodies import bincount as body
from pykernels._generated.bodies import bincount_clear
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View) -> list[Step]:
    """Two dispatches; one if there are no elements; none if there are no counts either."""
    if dst.ndim != 1:
        raise ShapeError(f"[bincount] dst must have one axis but has shape {dst.shape}")
    bins = dst.shape[0]
    steps: list[Step] = []
    if bins > 0:
        steps.append(bincount_clear.step(caps, dst))
    else:  # every element is out of range, so this view is not written
        dst = scratch.empty((1,), "int32")
    if x.size > 0:
        local = bins <= body.CONFIGS["each16"].SIZE
        watch = Watch("x", bins, x.shape, x.shape)
        steps.append(body.step(caps, x, dst, LOCAL=local, bins=bins, watch=watch))
    return steps
