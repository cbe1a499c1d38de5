"""Norms over the last axes, with torch's names and arguments, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from pykernels import kernels
from pykernels._generated.kernels.add_layer_norm import KERNEL as ADD_LAYER
from pykernels._generated.kernels.add_rms_norm import KERNEL as ADD_RMS
from pykernels._generated.kernels.layer_norm import KERNEL as LAYER
from pykernels._generated.kernels.layer_norm_backward import KERNEL as LAYER_BACKWARD
from pykernels._generated.kernels.rms_norm import KERNEL as RMS
from pykernels._generated.kernels.rms_norm_backward import KERNEL as RMS_BACKWARD
from pykernels.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.host import shape_of
from pykernels.plan import Kernel

__all__ = [
    "add_layer_norm", "add_rms_norm", "layer_norm", "layer_norm_backward", "rms_norm",
    "rms_norm_backward",
]  # fmt: skip

Shape: TypeAlias = int | Sequence[int]
Pair: TypeAlias = tuple[Tensor, Tensor]


class _Rows:
    """The axes of a call that are normalised, as one."""

    def __init__(self, kernel: Kernel, x: Tensor, normalized_shape: Shape) -> None:
        self.op = kernel.name
        self.shape = shape_of(normalized_shape)
        lead = x.ndim - len(self.shape)
        if not self.shape or x.shape[max(lead, 0) :] != self.shape:
            raise ShapeError(
                f"[{self.op}] normalized_shape must be the last axes of x, of shape {x.shape}, but "
                f"is {self.shape}"
            )
        self.rows = (*x.shape[:lead], math.prod(self.shape))

    def of(self, t: Tensor) -> Tensor:
        """A tensor like x with these axes as one: a view, or a copy where there is none."""
        return t if len(self.shape) == 1 else t.reshape(self.rows)

    def param(self, name: str, t: Tensor | None) -> Tensor | None:
        """Weight or bias as one axis."""
        if t is not None and t.shape != self.shape:
            raise ShapeError(
                f"[{self.op}] {name} must have shape {self.shape} but has shape {t.shape}"
            )
        return t if t is None or len(self.shape) == 1 else t.reshape(-1)

    def room(self, result: Tensor) -> Tensor:
        """What a kernel writes for `result`, where `leave` finds it: a view, or a new tensor."""
        if len(self.shape) == 1:
            return result
        near = result if result.contiguous else result.device.empty(result.shape, result.dtype)
        return near.reshape((*self.rows,) if near.shape != self.shape else (-1,))

    def leave(self, room: Tensor, result: Tensor) -> None:
        """Copy what was written to where it belongs."""
        if not result.contiguous and len(self.shape) > 1:
            kernels.cpy(room.reshape(result.shape), result)


def layer_norm(
    x: Array,
    normalized_shape: Shape,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    out: Tensor | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, as torch's layer_norm.

    Mean and variance are computed in f32, of differences from the rounded mean: a mean that is
    large beside the deviation costs no bits.

    Args:
        x: Tensor or numpy array, float32 or float16.
        normalized_shape: The sizes of the last axes, over which mean and variance are taken.
        weight: Tensor or numpy array of that shape, float32 or float16.
        bias: Likewise.
        eps: Added to the variance.
        out: The Tensor to write to, of x's shape and dtype; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and what `pykernels.kernels` raises.
    """
    call = Call(LAYER, x, weight, bias, out=out)
    t = call.tensor("x", x)
    rows = _Rows(LAYER, t, normalized_shape)
    w = rows.param("weight", call.tensor("weight", weight))
    b = rows.param("bias", call.tensor("bias", bias))
    result = call.out(t.shape, t.dtype)
    room = rows.room(result)
    kernels.layer_norm(rows.of(t), room, weight=w, bias=b, eps=eps)
    rows.leave(room, result)
    return call.leave(result)


def rms_norm(
    x: Array,
    normalized_shape: Shape,
    weight: Array | None = None,
    eps: float | None = None,
    *,
    out: Tensor | None = None,
) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight over the last axes, as torch's rms_norm, computed in f32.

    Args:
        x: Tensor or numpy array, float32 or float16.
        normalized_shape: The sizes of the last axes, over which the mean is taken.
        weight: Tensor or numpy array of that shape, float32 or float16.
        eps: Added to the mean of the squares; None is 2^-23 for float32 and 2^-10 for float16.
        out: The Tensor to write to, of x's shape and dtype; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and what `pykernels.kernels` raises.
    """
    call = Call(RMS, x, weight, out=out)
    t = call.tensor("x", x)
    rows = _Rows(RMS, t, normalized_shape)
    w = rows.param("weight", call.tensor("weight", weight))
    result = call.out(t.shape, t.dtype)
    room = rows.room(result)
    kernels.rms_norm(rows.of(t), room, weight=w, eps=_eps(eps, t))
    rows.leave(room, result)
    return call.leave(result)


def _eps(eps: float | None, x: Tensor) -> float:
    """The spacing of the numbers of x's dtype behind 1, where none is given."""
    return float(np.finfo(x.dtype).eps) if eps is None else eps


def add_layer_norm(
    x: Array,
    residual: Array,
    normalized_shape: Shape,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    out: Pair | None = None,
) -> tuple[Array, Array]:
    """(layer_norm(s), s) with s = x + residual, in one pass: what a block of a transformer begins
    with, and what its residual connection goes on with.

    Args:
        x: Tensor or numpy array, float32 or float16.
        residual: Likewise, of x's shape and dtype.
        normalized_shape: The sizes of the last axes, over which mean and variance are taken.
        weight: Tensor or numpy array of that shape, float32 or float16.
        bias: Likewise.
        eps: Added to the variance.
        out: The two Tensors to write to, of x's shape and dtype; None makes them. The second one
            may be residual.

    Returns:
        The norm, and the sum: numpy arrays if all arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError and what `pykernels.kernels` raises.
    """
    a = _Added(ADD_LAYER, x, residual, normalized_shape, weight, bias, out)
    kernels.add_layer_norm(
        a.x, a.residual, a.summed, a.normed, weight=a.weight, bias=a.bias, eps=eps
    )
    return a.leave()


def add_rms_norm(
    x: Array,
    residual: Array,
    normalized_shape: Shape,
    weight: Array | None = None,
    eps: float | None = None,
    *,
    out: Pair | None = None,
) -> tuple[Array, Array]:
    """(rms_norm(s), s) with s = x + residual, in one pass.

    Args:
        x: Tensor or numpy array, float32 or float16.
        residual: Likewise, of x's shape and dtype.
        normalized_shape: The sizes of the last axes, over which the mean is taken.
        weight: Tensor or numpy array of that shape, float32 or float16.
        eps: Added to the mean of the squares; None is 2^-23 for float32 and 2^-10 for float16.
        out: The two Tensors to write to, of x's shape and dtype; None makes them. The second one
            may be residual.

    Returns:
        The norm, and the sum: numpy arrays if all arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError and what `pykernels.kernels` raises.
    """
    a = _Added(ADD_RMS, x, residual, normalized_shape, weight, None, out)
    kernels.add_rms_norm(a.x, a.residual, a.summed, a.normed, weight=a.weight, eps=_eps(eps, a.x))
    return a.leave()


class _Added:
    """The tensors of a sum and its norm as a kernel takes them."""

    def __init__(
        self, kernel: Kernel, x: Array, residual: Array, normalized_shape: Shape,
        weight: Array | None, bias: Array | None, out: Pair | None,
    ) -> None:  # fmt: skip
        if out is not None and (not isinstance(out, tuple) or len(out) != 2):
            raise ArgumentError(
                f"[{kernel.name}] out must be a tuple of two Tensors but is {type(out).__name__}"
            )
        self._call = Call(kernel, x, residual, weight, bias, out=None if out is None else out[0])
        t, other = self._call.tensor("x", x), self._call.tensor("residual", residual)
        for name, given in (("residual", other), ("out[1]", t if out is None else out[1])):
            if given.shape != t.shape:
                raise ShapeError(
                    f"[{kernel.name}] {name} must have shape {t.shape} but has {given.shape}"
                )
        self._rows = rows = _Rows(kernel, t, normalized_shape)
        self.weight = rows.param("weight", self._call.tensor("weight", weight))
        self.bias = None
        if bias is not None:
            self.bias = rows.param("bias", self._call.tensor("bias", bias))
        self.x, self.residual = rows.of(t), rows.of(other)
        first = self._call.out(t.shape, t.dtype)
        self._results = (first, t.device.empty(t.shape, t.dtype)) if out is None else out
        self.normed, self.summed = (rows.room(r) for r in self._results)

    def leave(self) -> tuple[Array, Array]:
        """The norm and the sum as the caller gets them."""
        normed, summed = self._results
        self._rows.leave(self.normed, normed)
        self._rows.leave(self.summed, summed)
        return self._call.leave(normed), self._call.leave(summed)


def layer_norm_backward(
    dy: Array,
    x: Array,
    normalized_shape: Shape,
    weight: Array | None = None,
    eps: float = 1e-5,
    *,
    ds: Array | None = None,
) -> tuple[Array, Array, Array]:
    """The gradients of sum(dy * layer_norm(x, ...)) by x, weight and bias, in one pass where
    registers hold a row.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result.
        x: Likewise, of dy's shape and dtype: what was normalised (of add_layer_norm the sum).
        normalized_shape: As in layer_norm.
        weight: As in layer_norm.
        eps: As in layer_norm.
        ds: Of dy's shape and dtype: what comes back to x on another way, added to its gradient.

    Returns:
        (dx, dweight, dbias), the last two of the dtype of weight, or else of x: numpy arrays if all
        arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError and what `pykernels.kernels` raises.
    """
    b = _Back(LAYER_BACKWARD, dy, x, normalized_shape, weight, ds)
    dweight, dbias = b.like_weight(), b.like_weight()
    kernels.layer_norm_backward(
        b.dy, b.x, b.rows.of(b.dx), weight=b.weight, ds=b.ds, dweight=dweight, dbias=dbias, eps=eps
    )
    return b.leave(b.dx), b.leave(dweight), b.leave(dbias)


def rms_norm_backward(
    dy: Array,
    x: Array,
    normalized_shape: Shape,
    weight: Array | None = None,
    eps: float | None = None,
    *,
    ds: Array | None = None,
) -> tuple[Array, Array]:
    """The gradients of sum(dy * rms_norm(x, ...)) by x and weight, in one pass where registers hold
    a row.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result.
        x: Likewise, of dy's shape and dtype: what was normalised (of add_rms_norm the sum).
        normalized_shape: As in rms_norm.
        weight: As in rms_norm.
        eps: As in rms_norm.
        ds: Of dy's shape and dtype: what comes back to x on another way, added to its gradient.

    Returns:
        (dx, dweight), the latter of the dtype of weight, or else of x: numpy arrays if all
        arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError and what `pykernels.kernels` raises.
    """
    b = _Back(RMS_BACKWARD, dy, x, normalized_shape, weight, ds)
    dweight = b.like_weight()
    kernels.rms_norm_backward(
        b.dy, b.x, b.rows.of(b.dx), weight=b.weight, ds=b.ds, dweight=dweight, eps=_eps(eps, b.x)
    )
    return b.leave(b.dx), b.leave(dweight)


class _Back:
    """The tensors of a gradient as a kernel takes them."""

    def __init__(
        self, kernel: Kernel, dy: Array, x: Array, normalized_shape: Shape, weight: Array | None,
        ds: Array | None,
    ) -> None:  # fmt: skip
        self._call = call = Call(kernel, dy, x, weight, ds)
        t, given, more = call.tensor("dy", dy), call.tensor("x", x), call.tensor("ds", ds)
        for name, other in (("x", given), ("ds", more)):
            if other is not None and other.shape != t.shape:
                raise ShapeError(
                    f"[{kernel.name}] {name} must have the shape of dy, {t.shape}, but has shape "
                    f"{other.shape}"
                )
        self.rows = _Rows(kernel, given, normalized_shape)
        self.weight = self.rows.param("weight", call.tensor("weight", weight))
        self.dy, self.x = self.rows.of(t), self.rows.of(given)
        self.ds = more if more is None else self.rows.of(more)
        self.dx = call.out(t.shape, t.dtype)

    def like_weight(self) -> Tensor:
        """Room for the gradient of weight or bias."""
        dtype = self.x.dtype if self.weight is None else self.weight.dtype
        return self.dx.device.empty((math.prod(self.rows.shape),), dtype)

    def leave(self, result: Tensor) -> Array:
        """A gradient as the caller gets it."""
        whole = result is self.dx
        return self._call.leave(result if whole else result.reshape(self.rows.shape))
