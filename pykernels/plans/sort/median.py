"""median: a sort, then the middle of the sorted elements."""

from __future__ import annotations

from pykernels._generated.bodies import sort_middle
from pykernels.errors import DTypeError, ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .order import check, ordered

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View) -> list[Step]:
    """The dispatches of a sort and one more."""
    check("median", x)
    if x.dtype != dst.dtype:
        raise DTypeError(
            f"[median] dst must have the dtype of x, {x.dtype.name}, but is {dst.dtype.name}"
        )
    if dst.shape != x.shape[:-1]:
        raise ShapeError(
            f"[median] dst must have the leading axes of x, {x.shape[:-1]}, but has {dst.shape}"
        )
    if dst.size == 0:
        return []
    if x.size == 0:
        raise ShapeError(f"[median] x must have elements in each row but has shape {x.shape}")
    near = scratch.empty(x.shape, x.dtype.name)
    columns = dst.with_layout((*dst.shape, 1), (*dst.strides, dst.dtype.itemsize))
    return [
        *ordered(caps, scratch, x, near, None, False),
        sort_middle.step(caps, near, columns),
    ]
