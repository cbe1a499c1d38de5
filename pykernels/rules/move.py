"""The rules of functions that pick elements along an axis by an index, and of triangles."""

from __future__ import annotations

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.call.scalars import bits_of
from pykernels.device import Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import DTypeError, ShapeError
from pykernels.tensors.axes import axis_of

__all__ = ["gathered", "masked", "taken", "triangle"]


def gathered(call: Call, x: Tensor, index: Tensor) -> Made:
    """gather."""
    return Made({"dst": call.out(index.shape, x.dtype)})


def taken(call: Call, x: Tensor, indices: Tensor, axis: int | None) -> Made:
    """The rule of take_along_axis; x and the index broadcast along the other axes."""
    if axis is None:
        x, axis = x.reshape(x.size), 0
    at = axis_of(call.op, axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ShapeError(
            f"[{call.op}] x and indices must have as many axes but have shapes {x.shape} and "
            f"{indices.shape}"
        )
    full = call.expanded(x=(*x.shape[:at], 1, *x.shape[at + 1 :]), indices=indices.shape)
    src = x.broadcast_to((*full[:at], x.shape[at], *full[at + 1 :]))
    places = indices.broadcast_to((*full[:at], indices.shape[at], *full[at + 1 :]))
    result = call.out(places.shape, x.dtype)
    return Made({"dst": result}, {"src": src, "index": places}, {"axis": at})


def triangle(call: Call, x: Tensor, k: int, upper: bool, value: float) -> Made:
    """tril and triu."""
    if x.ndim < 2:
        raise ShapeError(f"[{call.op}] x must have two or more axes but has shape {x.shape}")
    if value and DTYPES[x.dtype].kind != "f":
        raise DTypeError(f"[{call.op}] x must have a float dtype but is {x.dtype}")
    bits = {"value": bits_of(call.op, value, x.dtype)}
    options = {"upper": upper, "diagonal": k}
    return Made({"dst": call.out(x.shape, x.dtype)}, options=options, bits=bits)


def masked(call: Call, x: Tensor, n_past: int, upper: bool, value: float) -> Made:
    """The rule of diag_mask_inf and diag_mask_zero."""
    return triangle(call, x, n_past, upper, value)
