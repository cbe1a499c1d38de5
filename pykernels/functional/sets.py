"""unique, which gives each value once."""

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
from pykernels.call.scalars import bits_of, flag
from pykernels.device import Tensor
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.selecting import nonzero

from .indexing import scatter

__all__ = ["unique"]

_UNIQUE = replace(_sort.KERNEL, name="unique")


@overload
def unique(
    x: Tensor, *, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def unique(
    x: NDArray, *, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
) -> NDArray: ...  # fmt: skip
@overload
def unique(
    x: Array, *, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False,
) -> Any: ...  # fmt: skip
@whole
def unique(
    x: Array, *, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:  # fmt: skip
    """The values of all elements in ascending order, each of them once (numpy).

    -0 equals 0, and all NaN count as one value, the last. The host reads the number of values, so
    it waits for the device, and captures refuse it. The gradient of a value goes to its first
    element.

    Args:
        x: Tensor or numpy array, any dtype but int64, any shape.
        return_index: Also return the position of the first element of each value, in C order.
        return_inverse: Also return the position of each element's value in the result.
        return_counts: Also return the number of elements with each value.

    Returns:
        The values (count,), of x's dtype; with a flag a tuple of the values and, in this order,
        positions (count,), inverse positions of the shape of x, and counts (count,), all int32.
        numpy arrays
        if x is one, else Tensors.

    Raises:
        BufferStateError: inside a capture.
        DTypeError: another dtype.
    """
    op = "unique"
    by_index = flag(op, "return_index", return_index)
    by_place = flag(op, "return_inverse", return_inverse)
    by_count = flag(op, "return_counts", return_counts)
    call = Call(_UNIQUE, x)
    given = call.tensor("x", x)
    given._context.refuse_in_capture(op)
    flat = given.reshape((given.size,))
    order = argsort(flat) if by_index or by_place else None
    ordered = sort(flat) if order is None else index_select(flat, 0, order, check=False)
    first = call.empty(flat.shape, "bool")  # marks the first element of each value
    run(_fill.KERNEL, (first[:1],), bits_of(op, True, "bool"))
    neighbours: dict[str, Any] = {"a": ordered[:-1], "b": ordered[1:]}
    evaluate(op, "a != b and a == a", neighbours, first[1:])
    places = nonzero(first, op)[0]
    found: list[Any] = [index_select(ordered, 0, places, check=False)]
    if order is not None and by_index:
        found.append(index_select(order, 0, places, check=False))
    if order is not None and by_place:
        ranks = call.empty(flat.shape, "int32")
        scatter(ranks, 0, order, cumsum(first) - 1, check=False, distinct=True, out=ranks)
        found.append(ranks.reshape(given.shape))
    if by_count:
        ends = call.empty(places.shape, "int32")
        run(_fill.KERNEL, (ends[-1:],), bits_of(op, flat.size, "int32"))
        ends[:-1] = places[1:]
        found.append(ends - places)
    results = [call.leave(t) for t in found]
    return tuple(results) if len(results) > 1 else results[0]
