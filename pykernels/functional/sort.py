"""Functions that sort or search."""

from __future__ import annotations

import numpy as np

from pykernels._generated.kernels.bincount import KERNEL as _COUNTS
from pykernels._generated.kernels.bincount_weights import KERNEL as _SUMS
from pykernels._generated.operations.sort import top_k
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, IndexRangeError, ShapeError
from pykernels.kernels import bincount as _bincount
from pykernels.kernels import bincount_weights as _bincount_weights
from pykernels.runtime.whole import whole

__all__ = ["bincount", "topk"]


topk = top_k  # torch's name


@again
@whole
def bincount(
    x: Array,
    weights: Array | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out: Tensor | None = None,
) -> Array:
    """The count of each number 0, 1, 2, ... in x; or with `weights`, the sum of the weights of the
    elements that are this number.

    Two runs give the same bits: counts are integers, and weights are summed in f32, in trees of a
    fixed shape over the sorted x.

    Args:
        x: Tensor or numpy array of one axis: integers of up to 32 bits; int64 in numpy arrays.
        weights: Numbers of x's shape, float32, float16 or bfloat16, or None.
        minlength: The smallest length of the result.
        length: The length of the result; then the host reads nothing, and an element of `length` or
            more is an error. None reads the largest element; for a Tensor this waits for the
            device, and captures refuse it.
        out: The Tensor to write to, of the result's length; None makes one.

    Returns:
        int32, or float32 with weights: a numpy array if all arguments are, else a Tensor. The size
        is `length`, or else max(minlength, largest element + 1).

    Raises:
        IndexRangeError: at the next synchronisation, for an element that is negative, or `length`
            or more; at once if the result is a numpy array, or if all elements are negative and
            `length` is None.
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
    """The largest element plus one; for a Tensor it is read from the device."""
    if isinstance(x, np.ndarray):
        largest = int(x.max())
    else:
        given.device._context.refuse_in_capture("bincount without a length")
        largest = int(top_k(given, 1)[0].item())
    if largest < 0:
        raise IndexRangeError(
            f"[bincount] x must be 0 or more but its largest element is {largest}"
        )
    return largest + 1


def _int32(x: Array) -> Array:
    """The integers as 32-bit integers."""
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
    """Converts 16-bit floats and numpy's float64 to float32."""
    narrow = ("float16", "bfloat16", "float64")
    if isinstance(weights, (Tensor, np.ndarray)) and str(weights.dtype) in narrow:
        return weights.astype("float32")
    return weights
