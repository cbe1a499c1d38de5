"""Functions that sort or search."""

from __future__ import annotations

import numpy as np

from pykernels._generated.kernels.bincount import KERNEL as _COUNTS
from pykernels._generated.kernels.bincount_weights import KERNEL as _SUMS
from pykernels._generated.kernels.median import KERNEL as _MEDIAN
from pykernels._generated.operations.sort import top_k
from pykernels.call.arrays import Array, Call
from pykernels.call.operation import either
from pykernels.call.scalars import flag, integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.kernels import bincount as _bincount
from pykernels.kernels import bincount_weights as _bincount_weights
from pykernels.kernels import median as _median
from pykernels.rules.sort import last
from pykernels.runtime.whole import whole

__all__ = ["bincount", "median", "topk"]


topk = top_k  # torch's name


@whole
def median(
    x: Array,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    dim: int | None = None,
    keepdim: bool | None = None,
    out: Tensor | None = None,
) -> Array:
    """The median along an axis: the middle element, or (a + b) / 2 of the middle two (numpy).

    Computed in f32; NaN if an element is NaN.

    Args:
        x: Tensor or numpy array; float32, float16, or integers of up to 32 bits and bool, which are
            converted to float32 first.
        axis: The axis; None takes all elements.
        dim: Another name for axis.
        keepdim: Another name for keepdims.
        keepdims: Keep the axis, with size 1.
        out: The Tensor to write to; None makes one, float16 for float16, else float32.

    Returns:
        A numpy array if x is a numpy array, else a Tensor.

    Raises:
        ShapeError: an axis that x does not have, or an axis without elements.
        DTypeError and the errors of `pykernels.kernels.median`.
    """
    if dim is not None:
        axis = either("median", "axis", axis, None, "dim", dim)
    if keepdim is not None:
        keepdims = either("median", "keepdims", keepdims, False, "keepdim", keepdim)
    x = as_floats(x)
    call = Call(_MEDIAN, x, out=out)
    given = call.tensor("x", x)
    shape: tuple[int, ...] = (1,) * given.ndim
    if axis is None:
        given = given.reshape(-1)
    else:
        given = last("median", given, integer("median", "axis", axis))
        shape = given.shape[:-1]
        if flag("median", "keepdims", keepdims):
            at = axis % given.ndim
            shape = (*shape[:at], 1, *shape[at:])
    if axis is None and not flag("median", "keepdims", keepdims):
        shape = ()
    result = call.out(shape, given.dtype)
    _median(given, result.reshape(given.shape[:-1]))
    return call.leave(result)


def as_floats(x: Array, also: str = "") -> Array:
    """Integers of up to 32 bits and bool as float32, and those of dtype `also`."""
    taken = ("int32", "uint32", "int16", "uint16", "int8", "uint8", "bool", also)
    isarray = isinstance(x, (Tensor, np.ndarray))
    return x.astype("float32") if isarray and str(x.dtype) in taken else x


@whole
def bincount(
    x: Array,
    weights: Array | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out: Tensor | None = None,
) -> Array:
    """The count of each number 0, 1, 2, ... in x, or the sum of the weights of its elements.

    Two runs give the same bits: counts are integers, and weights are summed in f32, in trees
    of a fixed shape over x sorted.

    Args:
        x: Tensor or numpy array of one axis: integers of up to 32 bits; int64 in numpy arrays.
        weights: Numbers of x's shape, float32 or float16, or None.
        minlength: The smallest length of the result.
        length: The length of the result; nothing is read then, and an element from there on is an
            error. None reads the largest element; for a Tensor this waits for the device, and
            captures refuse it.
        out: The Tensor to write to, of the result's length; None makes one.

    Returns:
        int32, or float32 with weights: a numpy array if all arguments are, else a Tensor; of
        `length`, else max(minlength, largest element + 1).

    Raises:
        IndexRangeError: at the next synchronisation, for an element that is negative, or `length`
            or more; at once if the result is a numpy array.
        ShapeError: x and weights do not have one axis of the same size.
        DTypeError, ArgumentError and the errors of `pykernels.kernels.bincount`.
    """
    op = "bincount"
    x, weights = _int32(x), _float32(weights)
    call = Call(_COUNTS if weights is None else _SUMS, x, weights, out=out)
    given = call.tensor("x", x)
    if given.ndim != 1:
        raise ShapeError(f"[{op}] x must have one axis but has shape {given.shape}")
    least = integer(op, "minlength", minlength)
    if least < 0:
        raise ArgumentError(f"[{op}] minlength must not be negative but is {least}")
    if out is not None:
        size = out.size
    elif length is not None:
        size = integer(op, "length", length)
    else:
        size = _bins(given, x) if given.size else 0
    if size < 0:
        raise ArgumentError(f"[{op}] length must not be negative but is {size}")
    size = max(size, least) if length is None and out is None else size
    result = call.out((size,), "int32" if weights is None else "float32")
    if weights is None:
        _bincount(given, result)
    else:
        _bincount_weights(given, call.tensor("weights", weights), result)
    return call.leave(result)


def _bins(given: Tensor, x: Array) -> int:
    """One more than the largest element, which is read from the device for a Tensor."""
    if isinstance(x, np.ndarray):
        return max(int(x.max()) + 1, 0)
    given.device._context.refuse_in_capture("bincount without a length")
    return max(int(top_k(given, 1)[0].item()) + 1, 0)


def _int32(x: Array) -> Array:
    """Integers as 32-bit integers."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        info = np.iinfo(np.int32)
        if x.size and not info.min <= x.min() <= x.max() <= info.max:
            raise ArgumentError("[bincount] x must hold numbers of 32 bits but has larger ones")
        return x.astype(np.int32)
    if isinstance(x, (Tensor, np.ndarray)) and str(x.dtype) in ("int8", "int16"):
        return x.astype("int32")
    if isinstance(x, (Tensor, np.ndarray)) and str(x.dtype) in ("uint8", "uint16", "bool"):
        return x.astype("uint32")
    return x


def _float32(weights: Array | None) -> Array | None:
    """Converts float16 and numpy's float64 to float32."""
    if isinstance(weights, (Tensor, np.ndarray)) and str(weights.dtype) in ("float16", "float64"):
        return weights.astype("float32")
    return weights
