"""Copies and conversions."""

from __future__ import annotations

from pykernels._generated.kernels.cpy import KERNEL
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeLike, dtype_of
from pykernels.errors import DTypeError, ShapeError
from pykernels.kernels import cpy
from pykernels.tensors.host import type_name
from pykernels.tensors.quantised import QTensor

from ._caches import copy_blocks

__all__ = ["astype", "copy", "copyto"]


@again
def astype(x: Array, dtype: DTypeLike) -> Array:
    """A contiguous copy in another dtype, by the rules of `kernels.cpy` (float to int saturates).

    Args:
        x: Tensor or numpy array, any dtype that tensors have.
        dtype: A dtype that tensors have: its name as numpy spells it, or the numpy dtype.

    Returns:
        A Tensor for a Tensor, a numpy array for a numpy array.

    Raises:
        DTypeError: for another dtype, and for int64 unless the other dtype is int32.
    """
    call = Call(KERNEL, x)
    src = call.tensor("src", x)
    dst = call.out(src.shape, dtype_of(dtype, "[astype] dtype").name)
    cpy(src, dst)
    return call.leave(dst)


@again
def copy(x: Array) -> Array:
    """A contiguous copy, bit for bit: `copy(x.T)` transposes. Returns a Tensor for a Tensor, a
    numpy array for a numpy array."""
    call = Call(KERNEL, x)
    src = call.tensor("src", x)
    dst = call.out(src.shape, src.dtype)
    cpy(src, dst)
    return call.leave(dst)


@again
def copyto(dst: Tensor | QTensor, src: Array | QTensor) -> None:
    """Write `src` to all elements of `dst`, broadcast by numpy's rules and converted to its dtype.
    If dst is a QTensor, numbers are quantised to its blocks; if src is a QTensor, its blocks become
    numbers, or blocks of another type.

    Raises:
        ArgumentError: if dst has a type that is only read from files, and src has another type.
        ShapeError: if the shape of src does not broadcast to the shape of dst.
        DTypeError, AliasError: as `kernels.cpy`.
    """
    if not isinstance(dst, (Tensor, QTensor)):
        raise DTypeError(f"[copyto] dst must be a pykernels.Tensor but is {type_name(dst)}")
    if isinstance(dst, QTensor) or isinstance(src, QTensor):
        copy_blocks(dst, src)
        return
    source = Call(KERNEL, src, out=dst).tensor("src", src)
    try:
        view = source.broadcast_to(dst.shape)
    except ValueError:
        raise ShapeError(
            f"[copyto] src must broadcast to {dst.shape} but has shape {source.shape}"
        ) from None
    cpy(view, dst)
