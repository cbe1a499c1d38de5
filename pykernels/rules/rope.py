"""The rule of the rotary position embedding."""

from __future__ import annotations

from typing import Any

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError

from .rope_angles import Angles, table_of

__all__ = ["heads", "of_tokens", "turned"]


def of_tokens(op: str, name: str, value: Any) -> int:
    """The argument axis, checked: the axis of tokens, -2 or -3."""
    axis = integer(op, name, value)
    if axis not in (-2, -3):
        raise ArgumentError(f"[{op}] {name} must be -2 or -3 but is {axis}")
    return axis


def heads(op: str, x: Tensor, axis: int) -> Tensor:
    """The view (..., heads, tokens, width)."""
    if x.ndim < -axis:
        raise ShapeError(f"[{op}] x must have {-axis} axes or more but has shape {x.shape}")
    return x[None] if x.ndim == 2 else x if axis == -2 else x.swapaxes(-3, -2)


def turned(
    call: Call, x: Tensor, table: Tensor | None, axis: int, dims: int | None, angles: Angles
) -> Made:
    """rope."""
    view = heads(call.op, x, axis)
    dst = call.out(x.shape, x.dtype)
    views: dict[str, Tensor | None] = {"x": view, "dst": heads(call.op, dst, axis)}
    if table is None:  # x was a numpy array
        views["table"] = table_of(call.op, x, dims, None, angles)
    return Made({"dst": dst}, views)
