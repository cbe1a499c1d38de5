"""The rules of sorting, and of searching in sorted rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, ShapeError

__all__ = ["as_floats", "best", "last", "middle", "ordered", "places", "positions"]

_WHOLE = ("int32", "uint32", "int16", "uint16", "int8", "uint8", "bool")


def ordered(call: Call, x: Tensor, axis: int | None) -> Made:
    """sort."""
    return _along(call, x, axis, x.dtype)


def positions(call: Call, x: Tensor, axis: int | None) -> Made:
    """argsort."""
    return _along(call, x, axis, "int32")


def _along(call: Call, x: Tensor, axis: int | None, dtype: DTypeName) -> Made:
    """The kernel gets views with the axis moved to the end; an axis of None makes one row of all
    elements."""
    if axis is None:
        x, axis = x.reshape(-1), -1
    call.over(x, axis)
    result = call.out(x.shape, dtype)
    return Made({"dst": result}, {"x": call.moved("x", x), "dst": call.moved("dst", result)})


def best(call: Call, x: Tensor, k: int, axis: int) -> Made:
    """top_k."""
    given = last(call.op, x, axis)
    if not 0 <= k <= given.shape[-1]:
        raise ArgumentError(
            f"[{call.op}] k must be from 0 to the size of the axis, {given.shape[-1]}, but is {k}"
        )
    at = axis % x.ndim
    shape = (*x.shape[:at], k, *x.shape[at + 1 :])
    values, index = call.out(shape, x.dtype), call.out(shape, "int32")
    views = {"dst": last(call.op, values, axis), "index": last(call.op, index, axis)}
    return Made({"dst": values, "index": index}, {"x": given, **views})


def last(op: str, t: Tensor, axis: int) -> Tensor:
    """The view with an axis moved to the end; ShapeError if the axis does not exist."""
    if not -t.ndim <= axis < t.ndim:
        raise ShapeError(f"[{op}] axis {axis} does not exist in shape {t.shape}")
    return t.transpose(*(a for a in range(t.ndim) if a != axis % t.ndim), axis)


def as_floats(op: str, name: str, x: Any, *also: str) -> Any:
    """The array as float32 if it has integers of up to 32 bits, bool, or a dtype in `also`; else
    the array unchanged."""
    isarray = isinstance(x, (Tensor, np.ndarray))
    return x.astype("float32") if isarray and str(x.dtype) in (*_WHOLE, *also) else x


def middle(call: Call, x: Tensor, axis: int | None, keepdims: bool) -> Made:
    """median."""
    given = x.reshape(-1) if axis is None else last(call.op, x, axis)
    shape: tuple[int, ...] = () if axis is None else given.shape[:-1]
    if keepdims:
        reduced = range(x.ndim) if axis is None else (axis % x.ndim,)
        shape = tuple([1 if a in reduced else n for a, n in enumerate(x.shape)])
    result = call.out(shape, given.dtype)
    return Made({"dst": result}, {"x": given, "dst": result.reshape(given.shape[:-1])})


def places(call: Call, values: Tensor) -> Made:
    """searchsorted."""
    return Made({"dst": call.out(values.shape, "int32")})
