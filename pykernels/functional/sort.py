"""Sorted rows, and what is found by sorting."""

from __future__ import annotations

from typing import overload

from pykernels._generated.kernels.argsort import KERNEL as _ARGSORT
from pykernels._generated.kernels.sort import KERNEL as _SORT
from pykernels.arrays import Array, Call, NDArray
from pykernels.device import Tensor
from pykernels.kernels import argsort as _argsort
from pykernels.kernels import sort as _sort
from pykernels.scalars import flag

__all__ = ["argsort", "sort"]


@overload
def sort(
    x: Tensor,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def sort(
    x: NDArray,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: None = None,
) -> NDArray: ...
@overload
def sort(
    x: Array,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: Tensor | None = None,
) -> Array: ...
def sort(
    x: Array,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: Tensor | None = None,
) -> Array:
    """The elements along an axis in order, bit for bit.

    -0 equals 0. NaN is last in both orders, so that the first elements are numbers as long as there
    are any (numpy has no descending order; torch puts NaN first there).

    Args:
        x: Tensor or numpy array, any dtype but int64.
        axis: The axis; None sorts all elements, and gives one axis (numpy).
        descending: Largest first.
        stable: Equal elements keep their order; they do so in any case.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: an axis that x does not have, or an `out` of another shape.
        DTypeError and what `pykernels.kernels.sort` raises.
    """
    flag("sort", "stable", stable)
    call = Call(_SORT, x, out=out)
    given = call.tensor("x", x)
    if axis is None:
        given, axis = given.reshape(-1), -1
    call.over(given, axis, None)
    result = call.out(given.shape, given.dtype)
    _sort(call.moved("x", given), call.moved("dst", result), descending=descending)
    return call.leave(result)


@overload
def argsort(
    x: Tensor,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def argsort(
    x: NDArray,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: None = None,
) -> NDArray: ...
@overload
def argsort(
    x: Array,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: Tensor | None = None,
) -> Array: ...
def argsort(
    x: Array,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    out: Tensor | None = None,
) -> Array:
    """The positions, int32, of the elements along an axis in order; all else as in `sort`."""
    flag("argsort", "stable", stable)
    call = Call(_ARGSORT, x, out=out)
    given = call.tensor("x", x)
    if axis is None:
        given, axis = given.reshape(-1), -1
    call.over(given, axis, None)
    result = call.out(given.shape, "int32")
    _argsort(call.moved("x", given), call.moved("dst", result), descending=descending)
    return call.leave(result)
