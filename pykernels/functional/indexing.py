"""Elements that an index or a mask picks: gather, scatter, nonzero."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from pykernels._generated.kernels import nonzero as _nonzero
from pykernels._generated.kernels import scatter as _scatter
from pykernels._generated.kernels import scatter_add as _scatter_add
from pykernels._generated.wrappers import scatter as _scatter_wrapper
from pykernels._generated.wrappers import scatter_add as _scatter_add_wrapper
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import bits_of, flag, integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors import selecting

__all__ = ["masked_select", "nonzero", "scatter", "scatter_add"]

_MASKED = replace(_nonzero.KERNEL, name="masked_select")
# The dtypes that the function takes; float16 and bfloat16 are converted for the kernel.
_SCATTER_ADD = replace(
    _scatter_add.KERNEL,
    args=tuple(
        arg if arg.name == "index" else replace(arg, dtypes=(*arg.dtypes, "float16"))
        for arg in _scatter_add.KERNEL.args
    ),
)


@again
@whole
def scatter(
    x: Array, axis: int, index: Array, src: Array | float, *, check: bool = True,
    distinct: bool = False, out: Tensor | None = None,
) -> Array:  # fmt: skip
    """x, with each element of src written to the place that its index gives along an axis (torch):
    result[i, index[i, j, k], k] = src[i, j, k] for axis 1.

    Args:
        x: Tensor or numpy array, any dtype.
        axis: The axis along which the index counts.
        index: Tensor or numpy array, int32 or int64, with as many axes as x; along the other axes
            its sizes may be smaller than those of x. Negative indices are out of range.
        src: Tensor or numpy array of the dtype of x, along each axis at least as large as index; or
            a number.
        check: False skips indices out of range, without an error.
        distinct: True promises that no two elements go to the same place. This saves the passes
            that find the last element for each place. If the promise is wrong, a place gets one of
            its elements.
        out: The Tensor of the shape of x to write to, which may be x itself; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor. If several elements go to
        one place, it gets the element that is furthest along the axis.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside the axis; at once if the
            result is a numpy array.
        DTypeError, ShapeError and the errors of `pykernels.kernels.scatter`.
    """
    arrays = (x, index, src) if isinstance(src, (Tensor, np.ndarray)) else (x, index)
    call = Call(_scatter.KERNEL, *arrays, out=out)
    whole, places = call.tensor("dst", x), call.tensor("index", index)
    if isinstance(src, (Tensor, np.ndarray)):
        values = _as_index("scatter", call.tensor("src", src), places, whole)
    else:
        bits_of("scatter", src, whole.dtype)
        values = whole.device.full((), src, whole.dtype).broadcast_to(places.shape)
    result = call.out(whole.shape, whole.dtype)
    if result._location != whole._location:
        places, values = _before(places, result), _before(values, result)
        run(result._context.copy, (whole, result))
    _scatter_wrapper.scatter(values, places, result, axis=axis, check=check, distinct=distinct)
    return call.leave(result)


@again
@whole
def scatter_add(
    x: Array, axis: int, index: Array, src: Array, *, check: bool = True,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """x, with each element of src added to the place that its index gives along an axis (torch):
    result[i, index[i, j, k], k] += src[i, j, k] for axis 1.

    Deterministic. Integers need one dispatch of atomic additions. The order in which floats are
    added depends only on the index, because the index is sorted first. This takes five dispatches
    for up to 32,768 elements along the axis, and 13 for 10^6 elements into 10^6 places.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16 (summed in f32, rounded once), int32
            or uint32 (sums wrap).
        axis: The axis along which the index counts.
        index: Tensor or numpy array, int32 or int64, with as many axes as x; along the other axes
            its sizes may be smaller than those of x. Negative indices are out of range.
        src: Tensor or numpy array of the dtype of x, along each axis at least as large as index.
        check: False skips indices out of range, without an error.
        out: The Tensor of the shape of x to write to, which may be x itself; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside the axis; at once if the
            result is a numpy array.
        DTypeError, ShapeError and the errors of `pykernels.kernels.scatter_add`.
    """
    call = Call(_SCATTER_ADD, x, index, src, out=out)
    whole, places, values = (
        call.tensor("dst", x), call.tensor("index", index), call.tensor("src", src)
    )  # fmt: skip
    values = _as_index("scatter_add", values, places, whole)
    result = call.out(whole.shape, whole.dtype)
    half = whole.dtype in ("float16", "bfloat16")
    sums = whole.astype("float32") if half else result
    if not half and result._location != whole._location:
        places, values = _before(places, result), _before(values, result)
        run(result._context.copy, (whole, result))
    values = values.astype("float32") if half else values
    _scatter_add_wrapper.scatter_add(values, places, sums, axis=axis, check=check)
    if half:
        run(result._context.copy, (sums, result))
    return call.leave(result)


def _before(t: Tensor, result: Tensor) -> Tensor:
    """The tensor with its values from before the result is written: a copy if tensor and result may
    share memory."""
    shared = t._storage is result._storage
    return t.copy() if shared and t._window.overlaps(result._window) else t


def _as_index(op: str, values: Tensor, places: Tensor, whole: Tensor) -> Tensor:
    """A view of the first values along each axis, with the shape of the index."""
    fits = values.ndim == places.ndim and all(
        n <= m for n, m in zip(places.shape, values.shape, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"[{op}] src must be at least as large as index, {places.shape}, along each axis but "
            f"has shape {values.shape}"
        )
    if values.dtype != whole.dtype:
        raise DTypeError(
            f"[{op}] src must have the dtype of x, {whole.dtype}, but is {values.dtype}"
        )
    if values.shape == places.shape:
        return values
    return values[(*(slice(n) for n in places.shape), ...)]


@whole
def nonzero(
    x: Array, *, size: int | None = None, fill_value: int = 0, return_count: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """The indices of the elements that are not zero, in C order: one array for each axis (numpy).

    Without `size` the host reads the number of these elements, so the call waits for the device,
    and captures refuse it. With `size` (as in JAX) the host reads nothing. NaN is not zero.

    Args:
        x: Tensor or numpy array, any dtype, one axis to six.
        size: The length of the results. If there are more elements, the result has the first
            `size`; compare the count to find out. None returns all.
        fill_value: The value after the indices, if there are fewer than `size`.
        return_count: Also return the number of all elements that are not zero, on the device, as
            the last array.

    Returns:
        For each axis int32 (count,) or (size,), and with `return_count` a last array, int32 ().

    Raises:
        ShapeError: x has no axes.
        ArgumentError: `size` is negative, or there is a `fill_value` without `size`.
        BufferStateError: inside a capture, without `size`.
    """
    op = "nonzero"
    counts, fill = flag(op, "return_count", return_count), integer(op, "fill_value", fill_value)
    call = Call(_nonzero.KERNEL, x)
    given = call.tensor("src", x)
    if size is None:
        if fill:
            raise ArgumentError("[nonzero] fill_value is for results of a size, but size is None")
        found = call.leave(selecting.nonzero(given))
        parts = [cast("Array", found[i]) for i in range(found.shape[0])]
        number = given.device.full((), found.shape[1], "int32") if counts else None
    else:
        most = integer(op, "size", size)
        if most < 0:
            raise ArgumentError(f"[nonzero] size must not be negative but is {most}")
        places, number = selecting.nonzero_of_size(given, most, fill)
        found = call.leave(places)
        parts = [cast("Array", found[i]) for i in range(found.shape[0])]
    return (*parts, call.leave(number)) if counts and number is not None else tuple(parts)


@whole
def masked_select(x: Array, mask: Array) -> Array:
    """The elements of x where a mask is True, in C order (torch); both broadcast.

    The host reads their number, so the call waits for the device, and captures refuse it.

    Args:
        x: Tensor or numpy array, any dtype.
        mask: Tensor or numpy array, bool.

    Returns:
        (count,) of the dtype of x: a numpy array if x and mask are numpy arrays, else a Tensor.

    Raises:
        DTypeError: the mask is not bool.
        ShapeError: the shapes do not broadcast.
        BufferStateError: inside a capture.
    """
    call = Call(_MASKED, x, mask)
    src, chosen = call.tensor("src", x), call.tensor("src", mask)
    if chosen.dtype != "bool":
        raise DTypeError(f"[masked_select] mask must be bool but is {chosen.dtype}")
    shape = call.expanded(x=src.shape, mask=chosen.shape)
    src, chosen = src.broadcast_to(shape), chosen.broadcast_to(shape)
    if not shape:
        src, chosen = src[None], chosen[None]
    return call.leave(selecting.selected(src, chosen, "masked_select"))
