"""Norms of sums, over the last axes: two results, and `out` may give each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pykernels import kernels
from pykernels._generated.kernels.add_layer_norm import KERNEL as ADD_LAYER
from pykernels._generated.kernels.add_rms_norm import KERNEL as ADD_RMS
from pykernels.call.arrays import Array, Call
from pykernels.call.autocast import live, recast
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.rules.norm import NormalizedAxes, last_sizes, rms_eps
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel

__all__ = ["add_layer_norm", "add_rms_norm"]

Shape: TypeAlias = int | Sequence[int]
Pair: TypeAlias = tuple[Tensor, Tensor]


@whole
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
    """(layer_norm(s), s) with s = x + residual, in one pass: the input of a transformer block, and
    of its residual connection.

    Args:
        x: Tensor or numpy array, float32 or float16.
        residual: Likewise, of x's shape and dtype.
        normalized_shape: The sizes of the last axes, over which mean and variance are taken.
        weight: Tensor or numpy array of that shape, float32 or float16.
        bias: Likewise.
        eps: Added to the variance.
        out: The two Tensors to write to, of x's shape and dtype; None makes them. The second
            may be residual.

    Returns:
        The norm, and the sum: numpy arrays if all arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.
    """
    if live and out is None:
        x, residual, weight, bias = recast("add_layer_norm", x, residual, weight, bias)
    a = _Added(ADD_LAYER, x, residual, normalized_shape, weight, bias, out)
    kernels.add_layer_norm(
        a.x, a.residual, a.summed, a.normed, weight=a.weight, bias=a.bias, eps=eps
    )
    return a.leave()


@whole
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
        out: The two Tensors to write to, of x's shape and dtype; None makes them. The second
            may be residual.

    Returns:
        The norm, and the sum: numpy arrays if all arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.
    """
    if live and out is None:
        x, residual, weight = recast("add_rms_norm", x, residual, weight)
    a = _Added(ADD_RMS, x, residual, normalized_shape, weight, None, out)
    kernels.add_rms_norm(
        a.x, a.residual, a.summed, a.normed, weight=a.weight, eps=rms_eps(eps, a.x)
    )
    return a.leave()


class _Added:
    """The tensors of a sum and its norm, in the form that a kernel takes."""

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
        self._rows = rows = NormalizedAxes(
            kernel.name, t, last_sizes(kernel.name, "normalized_shape", normalized_shape)
        )
        self.weight = rows.param("weight", self._call.tensor("weight", weight))
        self.bias = None
        if bias is not None:
            self.bias = rows.param("bias", self._call.tensor("bias", bias))
        self.x, self.residual = rows.of(t), rows.of(other)
        first = self._call.out(t.shape, t.dtype)
        self._results = (first, t.device.empty(t.shape, t.dtype)) if out is None else out
        self.normed, self.summed = (rows.room(r) for r in self._results)

    def leave(self) -> tuple[Array, Array]:
        """The norm and the sum, in the form that the caller gets."""
        normed, summed = self._results
        self._rows.leave(self.normed, normed)
        self._rows.leave(self.summed, summed)
        return self._call.leave(normed), self._call.leave(summed)
