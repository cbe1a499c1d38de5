"""Matrices from a diagonal, and one-hot rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pykernels._generated.kernels import cpy as _cpy
from pykernels._generated.kernels import fill as _fill
from pykernels._generated.kernels import scatter as _scatter
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import bits_of, integer
from pykernels.dtypes import DTypeLike, DTypeName, dtype_of
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole

__all__ = ["diag", "one_hot"]

_DIAG = replace(_cpy.KERNEL, name="diag")
_ONE_HOT = replace(_scatter.KERNEL, name="one_hot")


@again
@whole
def diag(x: Array, k: int = 0) -> Array:
    """A matrix with x on its k-th diagonal and zeros elsewhere. If x is a matrix, the result is a
    view of its k-th diagonal.

    Args:
        x: Tensor or numpy array, one axis or two, any dtype.
        k: The number of the diagonal: 0 is the main diagonal, and positive numbers are above it.

    Raises:
        ShapeError: x has another number of axes.
    """
    call = Call(_DIAG, x)
    offset = integer("diag", "k", k)
    if isinstance(x, np.ndarray) and x.ndim == 2:
        return np.diagonal(x, offset)
    src = call.tensor("src", x)
    if src.ndim == 2:
        return src.diagonal(offset)
    if src.ndim != 1:
        raise ShapeError(f"[diag] x must have one axis or two but has shape {src.shape}")
    n = src.size + abs(offset)
    result = call.out((n, n), src.dtype)
    run(_fill.KERNEL, (result,), bits_of("diag", 0, src.dtype))
    run(_DIAG, (src, result.diagonal(offset)))
    return call.leave(result)


@again
@whole
def one_hot(index: Array, num_classes: int, *, dtype: DTypeLike = "int32") -> Array:
    """A new last axis with a 1 at the position that the index gives, and zeros elsewhere (torch).

    Args:
        index: Tensor or numpy array, int32 or int64, any shape.
        num_classes: Size of the new axis. It is required, because the host does not read the index.
        dtype: The dtype of the result.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside [0, num_classes); at once
            if the result is a numpy array.
        ArgumentError: num_classes is negative, or not an integer.
    """
    call = Call(_ONE_HOT, index)
    places = call.tensor("index", index)
    count = integer("one_hot", "num_classes", num_classes)
    if count < 0:
        raise ArgumentError(f"[one_hot] num_classes must be 0 or more but is {count}")
    name: DTypeName = dtype_of(dtype, "[one_hot] dtype").name
    result = call.out((*places.shape, count), name)
    run(_fill.KERNEL, (result,), bits_of("one_hot", 0, name))
    ones = places.device.full((1,), 1, name).broadcast_to((*places.shape, 1))
    run(_ONE_HOT, (ones, places[..., None], result), options=(-1, True, True))
    return call.leave(result)
