"""The rules of sorted rows."""

from __future__ import annotations

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName

__all__ = ["ordered", "positions"]


def ordered(call: Call, x: Tensor, axis: int | None) -> Made:
    """sort."""
    return _along(call, x, axis, x.dtype)


def positions(call: Call, x: Tensor, axis: int | None) -> Made:
    """argsort."""
    return _along(call, x, axis, "int32")


def _along(call: Call, x: Tensor, axis: int | None, dtype: DTypeName) -> Made:
    """The view with the axis last; None takes all elements as one row."""
    if axis is None:
        x, axis = x.reshape(-1), -1
    call.over(x, axis)
    result = call.out(x.shape, dtype)
    return Made({"dst": result}, {"x": call.moved("x", x), "dst": call.moved("dst", result)})
