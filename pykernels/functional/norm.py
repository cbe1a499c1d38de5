"""Norms of sums, over the last axes: two results, and `out` may give each of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from pykernels import kernels
from pykernels._generated.kernels.add_layer_norm import KERNEL as ADD_LAYER
from pykernels._generated.kernels.add_rms_norm import KERNEL as ADD_RMS
from pykernels.call.arrays import MAX_KNOWN, Array, Call
from pykernels.call.autocast import live, recast
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.rules.norm import NormalizedAxes, last_sizes, rms_eps
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel
from pykernels.tensors.layout import Layout

__all__ = ["add_layer_norm", "add_rms_norm"]

Shape: TypeAlias = int | Sequence[int]
Pair: TypeAlias = tuple[Tensor, Tensor]
# The layout of both results of calls that were judged: by those of the tensors and the size of the
# one axis that is normalised.
_layer_known: dict[tuple[Hashable, ...], Layout] = {}
_rms_known: dict[tuple[Hashable, ...], Layout] = {}


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
    key = None if out is not None else _key(normalized_shape, x, residual, weight, bias)
    if key in _layer_known:
        normed, summed = _pair(x, _layer_known[key])
        kernels.add_layer_norm(x, residual, summed, normed, weight=weight, bias=bias, eps=eps)  # type: ignore[arg-type]
        return normed, summed
    a = _Added(ADD_LAYER, x, residual, normalized_shape, weight, bias, out)
    kernels.add_layer_norm(
        a.x, a.residual, a.summed, a.normed, weight=a.weight, bias=a.bias, eps=eps
    )
    a.remember(_layer_known, key)
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
    key = None if out is not None else _key(normalized_shape, x, residual, weight)
    if key in _rms_known:
        normed, summed = _pair(x, _rms_known[key])
        kernels.add_rms_norm(x, residual, summed, normed, weight=weight, eps=rms_eps(eps, normed))  # type: ignore[arg-type]
        return normed, summed
    a = _Added(ADD_RMS, x, residual, normalized_shape, weight, None, out)
    kernels.add_rms_norm(
        a.x, a.residual, a.summed, a.normed, weight=a.weight, eps=rms_eps(eps, a.x)
    )
    a.remember(_rms_known, key)
    return a.leave()


def _key(shape: Shape, *tensors: Array | None) -> tuple[Hashable, ...] | None:
    """What a call along one axis is known by; None where an argument is no tensor."""
    if isinstance(shape, (list, tuple)):
        if len(shape) != 1:
            return None
        shape = shape[0]
    if type(shape) is not int:
        return None
    layouts: list[Layout | None] = []
    for t in tensors:
        if t is not None and not isinstance(t, Tensor):
            return None
        layouts.append(None if t is None else t._layout)
    return (shape, *layouts)


def _pair(x: Array, lay: Layout) -> Pair:
    assert isinstance(x, Tensor)
    return x._fresh(lay), x._fresh(lay)


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

    def remember(
        self, known: dict[tuple[Hashable, ...], Layout], key: tuple[Hashable, ...] | None
    ) -> None:
        """Keep the layout of the results, where the kernel gets the arguments as they are."""
        first, second = self._results
        if key is not None and first._layout is second._layout and first.contiguous:
            if len(known) >= MAX_KNOWN:
                known.clear()
            known[key] = first._layout

    def leave(self) -> tuple[Array, Array]:
        """The norm and the sum, in the form that the caller gets."""
        normed, summed = self._results
        self._rows.leave(self.normed, normed)
        self._rows.leave(self.summed, summed)
        return self._call.leave(normed), self._call.leave(summed)
