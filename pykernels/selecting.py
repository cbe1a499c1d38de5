"""Elements and rows that an index tensor names, and where a tensor is not zero.

What `Tensor.__getitem__`, `__setitem__` and functions share: they allocate results themselves.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeVar

from ._generated.kernels import fill as _fill
from ._generated.kernels import get_rows as _get_rows
from ._generated.kernels import nonzero as _nonzero
from ._generated.kernels import nonzero_offsets as _offsets
from ._generated.kernels import set_rows as _set_rows
from .dtypes import DTYPES
from .errors import DTypeError, ShapeError
from .layout import Layout, contiguous_layout, expands_to, layout
from .operators import function
from .plan import Kernel, cdiv
from .relayout import reshaped_strides
from .runtime.launch import run
from .scalars import bits_of
from .views import TensorBase

__all__ = ["nonzero", "put", "rows_at", "select", "selected"]

T = TypeVar("T", bound=TensorBase)
CHUNK = 4096  # elements that one offset stands for: plans/move/nonzero_offsets.py


def rows_at(x: T, index: TensorBase) -> T:
    """x[index]: the parts of x along its first axis that integers name."""
    _check_index("getitem", x, index)
    result = x._fresh(contiguous_layout((index.size, *x.shape[1:]), x._layout.dtype))
    flat = index if index.ndim == 1 else index.reshape(-1)
    select(_get_rows.KERNEL, x, 0, flat, result, True)
    return result if index.ndim == 1 else result.reshape((*index.shape, *x.shape[1:]))


def _check_index(op: str, x: TensorBase, index: TensorBase) -> None:
    if x.ndim == 0:
        raise ShapeError(f"[{op}] a tensor without axes has no elements to pick")
    if index.dtype not in ("int32", "int64"):
        raise DTypeError(
            f"[{op}] an index must be int32, int64 or bool but is {index.dtype}: "
            "pk.tensor(values, 'int32') makes one"
        )


def put(x: TensorBase, index: TensorBase, value: Any) -> None:
    """x[index] = value, a tensor or a number, for integers or a mask."""
    if not isinstance(value, TensorBase):
        bits = bits_of("setitem", value, x.dtype)
        if index.dtype == "bool" and x.dtype != "int64":  # which is not computed with
            _check_mask("setitem", x, index)
            mask = index[(..., *(None,) * (x.ndim - index.ndim))]
            number = {"b": bool, "f": float}.get(x._layout.dtype.kind, int)(value)
            function("masked_fill")(x, mask, number, out=x)
            return
        value = x._fresh(contiguous_layout((), x._layout.dtype))
        run(_fill.KERNEL, (value,), bits)
    (_put_where if index.dtype == "bool" else _put_rows)(x, index, value)


def _put_rows(x: TensorBase, index: TensorBase, value: TensorBase, check: bool = True) -> None:
    """x[index] = value: the parts of x along its first axis that integers name are set to what
    broadcasts to them."""
    _check_index("setitem", x, index)
    shape = (*index.shape, *x.shape[1:])
    if not expands_to(value.shape, shape):
        raise ShapeError(f"[setitem] value must broadcast to {shape} but has shape {value.shape}")
    value = value.broadcast_to(shape)
    if index.ndim != 1:
        index, value = index.reshape(-1), value.reshape((index.size, *x.shape[1:]))
    dst, src = _as_rows(x._layout, value._layout, 0)
    run(_set_rows.KERNEL, (value._with(src), index, x._with(dst)), options=(check,))


def _put_where(x: TensorBase, mask: TensorBase, value: TensorBase) -> None:
    """x[mask] = value: the parts of x where a mask over its leading axes is True; reads their
    number."""
    _check_mask("setitem", x, mask)
    (places,) = nonzero(mask.reshape(-1), "setitem")
    shape = (mask.size, *x.shape[mask.ndim :])
    if reshaped_strides(x._layout, shape) is not None:
        _put_rows(x.reshape(shape), places, value, False)
        return
    whole = x.copy()  # whose leading axes can be one
    _put_rows(whole.reshape(shape), places, value, False)
    run(x._context.copy, (whole, x))


def _check_mask(op: str, x: TensorBase, mask: TensorBase) -> None:
    if mask.ndim == 0 or x.shape[: mask.ndim] != mask.shape:
        raise ShapeError(
            f"[{op}] a mask must have the leading sizes of {x.shape} but has shape {mask.shape}"
        )


def select(
    kernel: Kernel, x: TensorBase, axis: int, index: TensorBase, result: TensorBase, check: bool
) -> None:
    """The parts of x along an axis that an index (n,) names; `kernel` is get_rows by some name."""
    src, dst = _as_rows(x._layout, result._layout, axis)
    run(kernel, (x._with(src), index, result._with(dst)), options=(check,))


@functools.lru_cache(maxsize=4096)
def _as_rows(x: Layout, result: Layout, axis: int) -> tuple[Layout, Layout]:
    """Both over the same axes (..., n, k), with `axis` next to the last one."""
    last = len(x.shape) - 1
    if axis == last:
        return _permuted(x, (*range(last + 1), None)), _permuted(result, (*range(last + 1), None))
    joined = _joined(x, axis), _joined(result, axis)
    if joined[0] is not None and joined[1] is not None:
        return joined[0], joined[1]
    order = (*(a for a in range(last) if a != axis), axis, last)
    return _permuted(x, order), _permuted(result, order)


def _joined(lay: Layout, axis: int) -> Layout | None:
    """The axes behind `axis` as one, where that needs no copy."""
    shape = (*lay.shape[: axis + 1], math.prod(lay.shape[axis + 1 :]))
    strides = reshaped_strides(lay, shape)
    return None if strides is None else layout(shape, strides, lay.dtype)


def _permuted(lay: Layout, order: tuple[int | None, ...]) -> Layout:
    """The axes in another order; None is a new one."""
    shape = tuple(1 if a is None else lay.shape[a] for a in order)
    strides = tuple(0 if a is None else lay.strides[a] for a in order)
    return layout(shape, strides, lay.dtype)


def nonzero(x: T, op: str = "nonzero") -> T:
    """The indices of what is not zero, int32 (ndim, count): reads the count."""
    context = x._context
    context.check()
    context.refuse_in_capture(op)
    if x.ndim == 0:
        raise ShapeError(f"[{op}] a tensor without axes has no indices")
    int32 = DTYPES["int32"]
    offsets = x._fresh(contiguous_layout((cdiv(x.size, CHUNK) + 1,), int32))
    run(_offsets.KERNEL, (x, offsets))
    count = int(offsets[-1].item())
    result = x._fresh(contiguous_layout((x.ndim, count), int32))
    run(_nonzero.KERNEL, (x, offsets, result))
    return result


def selected(x: T, mask: TensorBase, op: str = "getitem") -> T:
    """x[mask]: the parts of x where a mask over its leading axes is True; reads their number."""
    _check_mask(op, x, mask)
    rest = x.shape[mask.ndim :]
    (places,) = nonzero(mask.reshape(-1), op)
    rows = x.reshape((mask.size, *rest))
    result = x._fresh(contiguous_layout((places.size, *rest), x._layout.dtype))
    select(_get_rows.KERNEL, rows, 0, places, result, False)
    return result
