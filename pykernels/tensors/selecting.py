"""Elements and rows that an index tensor names, and the places of nonzero elements.

`Tensor.__getitem__`, `__setitem__` and functions that allocate their results use this module.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeVar

from pykernels._generated.kernels import fill as _fill
from pykernels._generated.kernels import fill_where as _fill_where
from pykernels._generated.kernels import get_rows as _get_rows
from pykernels._generated.kernels import last_index as _last_index
from pykernels._generated.kernels import nonzero as _nonzero
from pykernels._generated.kernels import nonzero_offsets as _offsets
from pykernels._generated.kernels import set_rows as _set_rows
from pykernels.call.scalars import bits_of
from pykernels.dtypes import DTYPES
from pykernels.errors import ShapeError
from pykernels.plans.move.nonzero_offsets import CHUNK
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel, cdiv

from .layout import Layout, contiguous_layout, expands_to, layout
from .strides import reshaped_strides
from .views import TensorBase

__all__ = ["as_rows", "last_index", "nonzero", "nonzero_of_size", "put", "select", "selected"]

T = TypeVar("T", bound=TensorBase)


def put(x: TensorBase, mask: TensorBase, value: Any) -> None:
    """x[mask] = value, a tensor or a number."""
    if isinstance(value, TensorBase):
        _put_where(x, mask, value)
        return
    bits = bits_of("setitem", value, x.dtype)
    _check_mask("setitem", x, mask)
    whole = mask[(..., *(None,) * (x.ndim - mask.ndim))].broadcast_to(x.shape)
    run(_fill_where.KERNEL, (whole, x), bits)


def _put_rows(x: TensorBase, index: TensorBase, value: TensorBase) -> None:
    """x[index] = value along the first axis of x; index is (n,) and has no number twice."""
    shape = (index.size, *x.shape[1:])
    if not expands_to(value.shape, shape):
        raise ShapeError(f"[setitem] value must broadcast to {shape} but has shape {value.shape}")
    if value.dtype != x.dtype:
        value = value.astype(x.dtype)
    value = value.broadcast_to(shape)
    dst, src = as_rows(x._layout, value._layout, 0)
    run(_set_rows.KERNEL, (value._with(src), index, x._with(dst)), options=(False, True))


def _put_where(x: TensorBase, mask: TensorBase, value: TensorBase) -> None:
    """x[mask] = value, for a mask over the leading axes of x; reads the number of True elements."""
    _check_mask("setitem", x, mask)
    (places,) = nonzero(mask.reshape(-1), "setitem")
    shape = (mask.size, *x.shape[mask.ndim :])
    if reshaped_strides(x._layout, shape) is not None:
        _put_rows(x.reshape(shape), places, value)
        return
    whole = x.copy()  # in a copy, the leading axes can always be merged
    _put_rows(whole.reshape(shape), places, value)
    run(x._context.copy, (whole, x))


def last_index(index: T, axis: int, limit: int) -> T:
    """The index with -1 in place of each number that occurs again later along an axis, or is
    outside [0, limit)."""
    kept = index._fresh(contiguous_layout(index.shape, DTYPES["int32"]))
    run(_last_index.KERNEL, (index, kept), options=(axis, limit, False))
    return kept


def _check_mask(op: str, x: TensorBase, mask: TensorBase) -> None:
    if mask.ndim == 0 or x.shape[: mask.ndim] != mask.shape:
        raise ShapeError(
            f"[{op}] a mask must have the leading sizes of {x.shape} but has shape {mask.shape}"
        )


def select(
    kernel: Kernel, x: TensorBase, axis: int, index: TensorBase, result: TensorBase, check: bool
) -> None:
    """Write to `result` the parts of x that an index (n,) names along an axis. `kernel` is
    get_rows, or the same kernel under another name."""
    src, dst = as_rows(x._layout, result._layout, axis)
    run(kernel, (x._with(src), index, result._with(dst)), options=(check,))


@functools.lru_cache(maxsize=4096)
def as_rows(x: Layout, result: Layout, axis: int) -> tuple[Layout, Layout]:
    """Both layouts with their axes arranged as (..., n, k), where `axis` becomes the axis of n."""
    last = len(x.shape) - 1
    if axis == last:
        return _permuted(x, (*range(last + 1), None)), _permuted(result, (*range(last + 1), None))
    joined = _joined(x, axis), _joined(result, axis)
    if joined[0] is not None and joined[1] is not None:
        return joined[0], joined[1]
    order = (*(a for a in range(last) if a != axis), axis, last)
    return _permuted(x, order), _permuted(result, order)


def _joined(lay: Layout, axis: int) -> Layout | None:
    """The layout with the axes behind `axis` merged into one; None if that needs a copy."""
    shape = (*lay.shape[: axis + 1], math.prod(lay.shape[axis + 1 :]))
    strides = reshaped_strides(lay, shape)
    return None if strides is None else layout(shape, strides, lay.dtype)


def _permuted(lay: Layout, order: tuple[int | None, ...]) -> Layout:
    """The axes in another order; None is a new axis."""
    shape = tuple(1 if a is None else lay.shape[a] for a in order)
    strides = tuple(0 if a is None else lay.strides[a] for a in order)
    return layout(shape, strides, lay.dtype)


@whole
def nonzero(x: T, op: str = "nonzero") -> T:
    """The indices of nonzero elements, int32 (ndim, count); reads the count."""
    context = x._context
    context.check()
    context.refuse_in_capture(op)
    offsets = _offsets_of(x, op)
    count = int(offsets[-1].item())
    result = x._fresh(contiguous_layout((x.ndim, count), DTYPES["int32"]))
    run(_nonzero.KERNEL, (x, offsets, result))
    return result


@whole
def nonzero_of_size(x: T, size: int, fill: int, op: str = "nonzero") -> tuple[T, T]:
    """The indices of the first `size` nonzero elements, int32 (ndim, size), with `fill` in the
    remaining places; and the number of all nonzero elements, int32 (). The host reads nothing."""
    x._context.check()
    offsets = _offsets_of(x, op)
    result = x._fresh(contiguous_layout((x.ndim, size), DTYPES["int32"]))
    if size:
        run(_fill.KERNEL, (result,), bits_of(op, fill, "int32"))
        run(_nonzero.KERNEL, (x, offsets, result))
    return result, offsets[-1]


def _offsets_of(x: T, op: str) -> T:
    """For each chunk, the number of nonzero elements before it; and the number of all nonzero
    elements."""
    if x.ndim == 0:
        raise ShapeError(f"[{op}] a tensor without axes has no indices")
    offsets = x._fresh(contiguous_layout((cdiv(x.size, CHUNK) + 1,), DTYPES["int32"]))
    run(_offsets.KERNEL, (x, offsets))
    return offsets


@whole
def selected(x: T, mask: TensorBase, op: str = "getitem") -> T:
    """x[mask], for a mask over the leading axes of x; reads the number of True elements."""
    _check_mask(op, x, mask)
    rest = x.shape[mask.ndim :]
    (places,) = nonzero(mask.reshape(-1), op)
    rows = x.reshape((mask.size, *rest))
    result = x._fresh(contiguous_layout((places.size, *rest), x._layout.dtype))
    select(_get_rows.KERNEL, rows, 0, places, result, False)
    return result
