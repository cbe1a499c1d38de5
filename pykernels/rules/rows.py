"""The rules of functions that pick rows by an index, and of rows for timesteps."""

from __future__ import annotations

from typing import Any

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS, DTypeName
from pykernels.errors import DTypeError, ShapeError
from pykernels.tensors.axes import axis_of
from pykernels.tensors.host import size_of
from pykernels.tensors.selecting import as_rows

__all__ = ["embedded", "looked_up", "picked", "selected", "whole_numbers"]


def picked(call: Call, src: Tensor, index: Tensor) -> Made:
    """get_rows."""
    if src.ndim < 2 or index.ndim < 1:
        raise ShapeError(
            "[get_rows] src must have two or more axes and index one, but they have shapes "
            f"{src.shape} and {index.shape}"
        )
    a, b = src.shape[:-2], index.shape[:-1]
    size = max(len(a), len(b))
    pairs = zip((1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b, strict=True)
    lead = tuple([0 if 0 in (m, n) else max(m, n) for m, n in pairs])
    return Made({"dst": call.out((*lead, index.shape[-1], src.shape[-1]), _dtype(call, src))})


def looked_up(call: Call, weight: Tensor, index: Tensor) -> Made:
    """embedding."""
    if weight.ndim != 2:
        raise ShapeError(f"[embedding] weight must have two axes but has shape {weight.shape}")
    return Made({"dst": call.out((*index.shape, weight.shape[1]), _dtype(call, weight))})


def selected(call: Call, x: Tensor, axis: int, index: Tensor) -> Made:
    """index_select."""
    at = axis_of(call.op, axis, x.ndim)
    if index.ndim != 1:
        raise ShapeError(f"[{call.op}] index must have one axis but has shape {index.shape}")
    result = call.out((*x.shape[:at], index.size, *x.shape[at + 1 :]), x.dtype)
    src, dst = as_rows(x._layout, result._layout, at)
    return Made({"dst": result}, {"src": x._with(src), "dst": result._with(dst)})


def embedded(call: Call, x: Tensor, dim: int) -> Made:
    """timestep_embedding."""
    if x.ndim != 1:
        raise ShapeError(f"[{call.op}] x must have shape (n,) but has shape {x.shape}")
    dtype = call.asked_dtype if call.asked_dtype in FLOATS else "float32"
    return Made({"dst": call.out((x.shape[0], size_of(call.op, "dim", dim)), dtype)})


def whole_numbers(op: str, name: str, value: Any) -> None:
    """Raise a special error if the index has floats, because the caller has probably exchanged
    table and index."""
    dtype = str(getattr(value, "dtype", ""))
    if "float" in dtype:
        raise DTypeError(
            f"[{op}] {name} must be int32 or int64 but is {dtype}: the table comes first here, as "
            f"in {op}(weight, index)"
        )


def _dtype(call: Call, src: Tensor) -> DTypeName:
    """The dtype of the result: the dtype of `out`, which the kernel checks, or else the dtype of
    the rows."""
    return call.asked_dtype or src.dtype
