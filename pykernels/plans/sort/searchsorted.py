"""searchsorted: one dispatch."""

from __future__ import annotations

from typing import Literal

from pykernels._generated.bodies import searchsorted as body
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    sorted: View,
    values: View,
    dst: View,
    side: Literal["left", "right"] = "left",
) -> list[Step]:
    """One dispatch; none without values."""
    if side not in ("left", "right"):
        raise ArgumentError(f"[searchsorted] side must be 'left' or 'right' but is {side!r}")
    if sorted.dtype != values.dtype:
        raise DTypeError(
            f"[searchsorted] values must be {sorted.dtype.name}, as sorted is, but are "
            f"{values.dtype.name}"
        )
    if values.ndim == 0:
        values, dst = values.as_rank(1), dst.as_rank(1)
    lead = values.shape[:-1]
    if sorted.ndim == 0 or (sorted.ndim > 1 and sorted.shape[:-1] != lead):
        raise ShapeError(
            f"[searchsorted] sorted must have one axis, or the leading axes of values, {lead}, and "
            f"one more but has shape {sorted.shape}"
        )
    if values.size == 0:
        return []
    length = sorted.shape[-1]
    if length == 0:  # this view is bound, but the body does not read it
        sorted = scratch.empty((1,), sorted.dtype.name)
    repeated = sorted.broadcast_to((*lead, sorted.shape[-1]))
    right = int(side == "right")
    return [body.step(caps, repeated, values, dst, length=length, right=right)]
