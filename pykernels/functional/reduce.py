"""Reductions over axes, with the names and arguments of numpy."""

from __future__ import annotations

from typing import TypeAlias

from pykernels._generated.ops.reductions import RESULTS
from pykernels._generated.wrappers import all as _all
from pykernels._generated.wrappers import any as _any
from pykernels._generated.wrappers import argmax as _argmax
from pykernels._generated.wrappers import argmin as _argmin
from pykernels._generated.wrappers import count_nonzero as _count_nonzero
from pykernels._generated.wrappers import logsumexp as _logsumexp
from pykernels._generated.wrappers import max as _max
from pykernels._generated.wrappers import mean as _mean
from pykernels._generated.wrappers import min as _min
from pykernels._generated.wrappers import norm as _norm
from pykernels._generated.wrappers import prod as _prod
from pykernels._generated.wrappers import std as _std
from pykernels._generated.wrappers import sum as _sum
from pykernels._generated.wrappers import var as _var
from pykernels.arrays import MAX_KNOWN, Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.layout import Layout
from pykernels.plan import Kernel
from pykernels.plans.reduce.axes import reduced_shape
from pykernels.plans.reduce.values import results
from pykernels.runtime.launch import launch, run
from pykernels.scalars import axes, flag, integer, real

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "norm",
    "prod", "std", "sum", "var",
]  # fmt: skip

Axis: TypeAlias = int | tuple[int, ...] | None
Out: TypeAlias = Tensor | None
# Layouts of the result by kernel, layout of x, options and keepdims, of calls that went well.
_known: dict[tuple[Kernel, Layout, tuple[object, ...], bool], Layout] = {}


def _reduced(
    kernel: Kernel, x: Array, axis: Axis, keepdims: bool, out: Out, *numbers: float
) -> Array:
    """One call of a reduction; `numbers` are its options besides axis."""
    if axis is not None and type(axis) is not int:
        axis = axes(kernel.name, axis)
    if type(keepdims) is not bool:
        keepdims = flag(kernel.name, "keepdims", keepdims)
    options = (axis, *numbers)
    key = None
    if out is None and isinstance(x, Tensor):
        key = kernel, x._layout, options, keepdims
        lay = _known.get(key)
        if lay is not None:
            result = x._fresh(lay)
            launch((kernel, options, x._location, result._location), (x, result), ())
            return result
    call = Call(kernel, x, out=out)
    x_ = call.tensor("x", x)
    result = call.out(
        reduced_shape(kernel.name, x_.shape, axis, keepdims), _dtype(kernel.name, x_, out)
    )
    run(kernel, (x_, result), (), options)
    if key is not None:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[key] = result._layout
    return call.leave(result)


def _dtype(op: str, x: Tensor, out: Out) -> DTypeName:
    """The dtype of the result: that of out where the kernel allows it."""
    allowed = results(RESULTS[op][0], x.dtype)
    return out.dtype if out is not None and out.dtype in allowed else allowed[0]


def sum(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The sum over axes.

    Sums of floats are f32, by pairs, and float16 for float16 (float32 by `out`); integers and bool
    give int32, or uint32 where they have no sign, and wrap. Of no elements it is 0.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_sum.KERNEL, x, axis, keepdims, out)


def mean(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The mean over axes, from sums in f32; float16 for float16, else float32. Of no elements: NaN.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_mean.KERNEL, x, axis, keepdims, out)


def prod(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The product over axes.

    Floats are multiplied in f32; integers and bool give int32, or uint32 where they have no sign,
    and wrap. Of no elements it is 1.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_prod.KERNEL, x, axis, keepdims, out)


def max(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The largest element over axes, in the dtype of x; NaN if there is one.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        ShapeError: also for no elements; DTypeError and what `pykernels.kernels` raises.
    """
    return _reduced(_max.KERNEL, x, axis, keepdims, out)


def min(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The smallest element over axes, in the dtype of x; NaN if there is one.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        ShapeError: also for no elements; DTypeError and what `pykernels.kernels` raises.
    """
    return _reduced(_min.KERNEL, x, axis, keepdims, out)


def argmax(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The position of the first largest element over axes, or of the first NaN, as int32.

    Positions count the elements of the reduced axes in C order: over one axis the index there.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        ShapeError: also for no elements; DTypeError and what `pykernels.kernels` raises.
    """
    return _reduced(_argmax.KERNEL, x, axis, keepdims, out)


def argmin(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The position of the first smallest element over axes, or of the first NaN, as int32.

    Positions count the elements of the reduced axes in C order: over one axis the index there.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        ShapeError: also for no elements; DTypeError and what `pykernels.kernels` raises.
    """
    return _reduced(_argmin.KERNEL, x, axis, keepdims, out)


def any(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """Is any element over axes other than 0? NaN is. Of no elements: False.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_any.KERNEL, x, axis, keepdims, out)


def all(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """Are all elements over axes other than 0? NaN is. Of no elements: True.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_all.KERNEL, x, axis, keepdims, out)


def count_nonzero(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The number of elements over axes that are not 0, as int32; NaN counts.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_count_nonzero.KERNEL, x, axis, keepdims, out)


def var(
    x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None, *, ddof: int = 0
) -> Array:
    """The variance over axes: the sum of squared differences from the mean, divided by n - ddof.

    Computed in f32 by the means and squares of parts (Chan, Golub and LeVeque), which loses
    nothing where the mean is large; float16 for float16, else float32.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.
        ddof: Taken off the number of elements that is divided by: 0 as in numpy (torch: 1).

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_var.KERNEL, x, axis, keepdims, out, integer("var", "ddof", ddof))


def std(
    x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None, *, ddof: int = 0
) -> Array:
    """The standard deviation over axes: the root of `var`.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.
        ddof: Taken off the number of elements that is divided by: 0 as in numpy (torch: 1).

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_std.KERNEL, x, axis, keepdims, out, integer("std", "ddof", ddof))


def norm(
    x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None, *, ord: float = 2
) -> Array:
    """The norm of vectors over axes, in f32: sqrt(sum(x * x)), whose squares may overflow.

    The axes together hold one vector; norms of matrices are another thing. Float16 for float16,
    else float32.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.
        ord: 2, or 1 for the sum of magnitudes, or inf for the largest.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        ArgumentError: for another ord; ShapeError: also for inf where there are no elements;
        DTypeError and what `pykernels.kernels` raises.
    """
    return _reduced(_norm.KERNEL, x, axis, keepdims, out, real("norm", "ord", ord))


def logsumexp(x: Array, axis: Axis = None, keepdims: bool = False, out: Out = None) -> Array:
    """The logarithm of the sum of exponentials over axes, in f32, shifted by the maximum.

    +inf gives +inf, -inf alone -inf, NaN NaN; so do no elements -inf. Float16 for float16, else
    float32.

    Args:
        x: Tensor or numpy array, any dtype but bfloat16 and int64.
        axis: An axis or several of them; None for all.
        keepdims: Do reduced axes stay, with size 1?
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array for a numpy array, else a Tensor.

    Raises:
        DTypeError, ShapeError and what `pykernels.kernels` raises.
    """
    return _reduced(_logsumexp.KERNEL, x, axis, keepdims, out)
