"""The function unique, which gives each value once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, overload

from pykernels._generated.kernels import fill as _fill
from pykernels._generated.kernels import sort as _sort
from pykernels._generated.operations.rows import index_select
from pykernels._generated.operations.scan import cumsum
from pykernels._generated.operations.sort import argsort, sort
from pykernels.call.apply import evaluate
from pykernels.call.arrays import Array, Call, NDArray
from pykernels.call.scalars import bits_of, flag, integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.selecting import nonzero, nonzero_of_size

from .indexing import scatter

__all__ = ["unique"]

_UNIQUE = replace(_sort.KERNEL, name="unique")


@overload
def unique(
    x: Tensor, *, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, size: int | None = None, fill_value: float | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def unique(
    x: NDArray, *, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, size: int | None = None, fill_value: float | None = None,
) -> NDArray: ...  # fmt: skip
@overload
def unique(
    x: Array, *, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, size: int | None = None, fill_value: float | None = None,
) -> Any: ...  # fmt: skip
@whole
def unique(
    x: Array, *, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, size: int | None = None, fill_value: float | None = None,
) -> Any:  # fmt: skip
    """The values of all elements in ascending order, each of them once (numpy).

    -0 equals 0, and all NaN count as one value, the last. Without `size` the host reads the number
    of values, so the call waits for the device, and captures refuse it. With `size` (as in JAX) the
    host reads nothing. The gradient of a value goes to its first element.

    Args:
        x: Tensor or numpy array, any dtype but int64, any shape.
        return_index: Also return the position of the first element of each value, in C order.
        return_inverse: Also return the position of each element's value in the result.
        return_counts: Also return the number of elements with each value.
        size: The length of the result, and of positions and counts. If there are more values, the
            result has the first `size`; if there are fewer, counts of 0 follow. None returns all.
        fill_value: The value that fills the end, if there are fewer than `size` values; None means
            the first value. It must fit x's dtype.

    Returns:
        The values (count,), of x's dtype. If flags are set, a tuple of the values and, for each
        flag that is set, in this order: positions (count,), inverse positions of the shape of x,
        and counts (count,), all int32. They are numpy arrays if x is one, else Tensors.

    Raises:
        BufferStateError: inside a capture, without `size`.
        ArgumentError: `size` is negative, or above 0 for an x without elements, or there is a
            `fill_value` without `size`.
        DTypeError: another dtype.
    """
    op = "unique"
    by_index = flag(op, "return_index", return_index)
    by_place = flag(op, "return_inverse", return_inverse)
    by_count = flag(op, "return_counts", return_counts)
    call = Call(_UNIQUE, x)
    given = call.tensor("x", x)
    most = _size(op, size, fill_value, given)
    if most is None:
        given._context.refuse_in_capture(op)
    flat = given.reshape((given.size,))
    order = argsort(flat) if by_index or by_place else None
    ordered = sort(flat) if order is None else index_select(flat, 0, order, check=False)
    first = call.empty(flat.shape, "bool")  # True for the first element of each value
    run(_fill.KERNEL, (first[:1],), bits_of(op, True, "bool"))
    neighbours: dict[str, Any] = {"a": ordered[:-1], "b": ordered[1:]}
    evaluate(op, "a != b and a == a", neighbours, first[1:])
    ends: Tensor | None = None
    if most is None:
        places = picks = nonzero(first, op)[0]
        if by_count:
            ends = _ends(op, call, places, flat.size)
    else:  # one more position, for the end of the last value; unused positions are x.size
        bounds = nonzero_of_size(first, most + 1, flat.size, op)[0][0]
        places, ends = bounds[:-1], bounds[1:]
        picks = evaluate(op, "where(at < n, at, 0)", {"at": places, "n": flat.size}, None)
    values = index_select(ordered, 0, picks, check=False)
    if fill_value is not None:
        fill = call.empty((), given.dtype)
        run(_fill.KERNEL, (fill,), bits_of(op, fill_value, given.dtype, "fill_value"))
        named: dict[str, Any] = {"at": places, "n": flat.size, "x": values, "fill": fill}
        values = evaluate(op, "where(at < n, x, fill)", named, None)
    found: list[Any] = [values]
    if order is not None and by_index:
        found.append(index_select(order, 0, picks, check=False))
    if order is not None and by_place:
        ranks = call.empty(flat.shape, "int32")
        scatter(ranks, 0, order, cumsum(first) - 1, check=False, distinct=True, out=ranks)
        found.append(ranks.reshape(given.shape))
    if by_count and ends is not None:
        found.append(ends - places)
    results = [call.leave(t) for t in found]
    return tuple(results) if len(results) > 1 else results[0]


def _size(op: str, size: int | None, fill_value: float | None, x: Tensor) -> int | None:
    """The length that the caller asks for."""
    if size is None:
        if fill_value is not None:
            raise ArgumentError(f"[{op}] fill_value is for results of a size, but size is None")
        return None
    most = integer(op, "size", size)
    if most < 0 or (most > 0 and x.size == 0):
        raise ArgumentError(
            f"[{op}] size must be 0 or more, and 0 for an x without elements, but is {most}"
        )
    return most


def _ends(op: str, call: Call, places: Tensor, count: int) -> Tensor:
    """The position behind the last element of each of `count` values."""
    ends = call.empty(places.shape, "int32")
    run(_fill.KERNEL, (ends[-1:],), bits_of(op, count, "int32"))
    ends[:-1] = places[1:]
    return ends
