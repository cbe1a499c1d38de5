"""The rules of norms."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from pykernels import kernels
from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.tensors.host import shape_of

__all__ = [
    "NormalizedAxes", "added_rms_rows", "added_rows", "groups", "last_sizes", "pair", "rms_rows",
    "rms_rows_gradient", "rows", "rows_gradient",
]  # fmt: skip


def last_sizes(op: str, name: str, value: Any) -> tuple[int, ...]:
    """The sizes of the last axes, as integers."""
    if isinstance(value, (Tensor, np.ndarray)):
        raise ShapeError(
            f"[{op}] {name} must be sizes of x's last axes, as in {op}(x, weight.shape, weight), "
            f"but is an array of shape {value.shape}"
        )
    return shape_of(value)


class NormalizedAxes:
    """The normalised axes of a call, merged into one axis."""

    def __init__(self, op: str, x: Tensor, shape: tuple[int, ...]) -> None:
        self.op, self.shape = op, shape
        lead = x.ndim - len(shape)
        if not shape or x.shape[max(lead, 0) :] != shape:
            raise ShapeError(
                f"[{op}] normalized_shape must be the last axes of x, of shape {x.shape}, but "
                f"is {shape}"
            )
        self.rows = (*x.shape[:lead], math.prod(shape))

    def of(self, t: Tensor) -> Tensor:
        """A tensor of x's shape with these axes merged: a view if possible, else a copy."""
        return t if len(self.shape) == 1 else t.reshape(self.rows)

    def param(self, name: str, t: Tensor | None) -> Tensor | None:
        """Weight or bias with one axis."""
        if t is not None and t.shape != self.shape:
            raise ShapeError(
                f"[{self.op}] {name} must have shape {self.shape} but has shape {t.shape}"
            )
        return t if t is None or len(self.shape) == 1 else t.reshape(-1)

    def room(self, result: Tensor) -> Tensor:
        """The tensor that a kernel writes for `result`: a view of it, or a new tensor that `leave`
        copies to it."""
        if len(self.shape) == 1:
            return result
        near = result if result.contiguous else result.device.empty(result.shape, result.dtype)
        return near.reshape((*self.rows,) if near.shape != self.shape else (-1,))

    def leave(self, room: Tensor, result: Tensor) -> None:
        """Copy `room` to the result if it is a new tensor."""
        if not self.is_left(result):
            kernels.cpy(room.reshape(result.shape), result)

    def is_left(self, result: Tensor) -> bool:
        """True if the kernel writes the result itself."""
        return result.contiguous or len(self.shape) == 1


def rows(
    call: Call, x: Tensor, weight: Tensor | None, bias: Tensor | None,
    normalized_shape: tuple[int, ...],
) -> Made:  # fmt: skip
    """layer_norm."""
    axes = NormalizedAxes(call.op, x, normalized_shape)
    w, b = axes.param("weight", weight), axes.param("bias", bias)
    result = call.out(x.shape, x.dtype)
    room = axes.room(result)
    made = Made({"dst": result}, {"x": axes.of(x), "weight": w, "bias": b, "dst": room})
    if not axes.is_left(result):
        made.after = lambda: axes.leave(room, result)
    return made


def rms_rows(
    call: Call, x: Tensor, weight: Tensor | None, normalized_shape: tuple[int, ...],
    eps: float | None,
) -> Made:  # fmt: skip
    """rms_norm."""
    made = rows(call, x, weight, None, normalized_shape)
    made.options = {"eps": rms_eps(eps, x)}
    return made


Pair: TypeAlias = tuple[Tensor, Tensor]


def pair(op: str, name: str, value: Any) -> None:
    """Check that `out` of a function with two results is None or a tuple of two."""
    if value is not None and (not isinstance(value, tuple) or len(value) != 2):
        raise ArgumentError(
            f"[{op}] {name} must be a tuple of two Tensors but is {type(value).__name__}"
        )


def added_rows(
    call: Call, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None,
    normalized_shape: tuple[int, ...], out: Pair | None,
) -> Made:  # fmt: skip
    """add_layer_norm."""
    for name, given in (("residual", residual), ("out[1]", x if out is None else out[1])):
        if given.shape != x.shape:
            raise ShapeError(f"[{call.op}] {name} must have shape {x.shape} but has {given.shape}")
    made = rows(call, x, weight, bias, normalized_shape)
    axes = NormalizedAxes(call.op, x, normalized_shape)
    summed = call.empty(x.shape, x.dtype) if out is None else out[1]
    room, after = axes.room(summed), made.after
    made.results["summed"] = summed
    made.views |= {"residual": axes.of(residual), "summed": room}

    def leave() -> None:
        if after is not None:
            after()
        axes.leave(room, summed)

    if after is not None or not axes.is_left(summed):
        made.after = leave
    return made


def added_rms_rows(
    call: Call, x: Tensor, residual: Tensor, weight: Tensor | None,
    normalized_shape: tuple[int, ...], eps: float | None, out: Pair | None,
) -> Made:  # fmt: skip
    """add_rms_norm."""
    made = added_rows(call, x, residual, weight, None, normalized_shape, out)
    made.options = {"eps": rms_eps(eps, x)}
    return made


def rms_eps(eps: float | None, x: Tensor) -> float:
    """The argument eps; its default is the distance from 1 to the next number of x's dtype."""
    return _spacing(x.dtype) if eps is None else eps


@cache
def _spacing(dtype: str) -> float:
    return 2.0**-7 if dtype == "bfloat16" else float(np.finfo(dtype).eps)


def rows_gradient(
    call: Call, dy: Tensor, x: Tensor, weight: Tensor | None, ds: Tensor | None,
    normalized_shape: tuple[int, ...],
) -> Made:  # fmt: skip
    """layer_norm_backward."""
    made = rms_rows_gradient(call, dy, x, weight, ds, normalized_shape, 0.0)
    like = made.results["dweight"]
    assert like is not None
    made.results["dbias"] = dbias = call.empty(like.shape, like.dtype)
    made.views["dbias"] = dbias.reshape(-1)
    made.options = {}
    return made


def rms_rows_gradient(
    call: Call, dy: Tensor, x: Tensor, weight: Tensor | None, ds: Tensor | None,
    normalized_shape: tuple[int, ...], eps: float | None,
) -> Made:  # fmt: skip
    """rms_norm_backward."""
    for name, other in (("x", x), ("ds", ds)):
        if other is not None and other.shape != dy.shape:
            raise ShapeError(
                f"[{call.op}] {name} must have the shape of dy, {dy.shape}, but has shape "
                f"{other.shape}"
            )
    axes = NormalizedAxes(call.op, x, normalized_shape)
    w = axes.param("weight", weight)
    dx = call.out(dy.shape, dy.dtype)
    dweight = call.empty(axes.shape, x.dtype if w is None else w.dtype)
    views = {
        "dy": axes.of(dy), "x": axes.of(x), "weight": w, "ds": None if ds is None else axes.of(ds),
        "dweight": dweight.reshape(-1), "dst": axes.of(dx),
    }  # fmt: skip
    return Made({"dst": dx, "dweight": dweight}, views, {"eps": rms_eps(eps, x)})


def groups(call: Call, x: Tensor, num_groups: int) -> Made:
    """group_norm."""
    return Made({"dst": call.out(x.shape, x.dtype)}, options={"groups": num_groups})
