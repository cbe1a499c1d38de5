"""norm: each workgroup computes a sum, and then the sums are added. The device's table limits the
number of workgroups."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from ..bodies import norm_finish, norm_partial
from ..tuning import tuning

__all__ = ["plan"]

EACH = 1024  # number of elements that are worth one more workgroup


def plan(caps: Caps, scratch: Scratch, x: View, dst: View) -> list[Step]:
    """Two steps. The norm of a tensor without elements is 0."""
    if dst.size != 1:
        raise ShapeError(f"[norm] dst must have one element but has shape {dst.shape}")
    groups = max(1, min(cdiv(x.size, EACH), tuning(caps).norm.groups))
    sums = scratch.empty((groups,), "float32")
    first = norm_partial.step(caps, x, sums)
    return [first, norm_finish.step(caps, sums, dst)]
