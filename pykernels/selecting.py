"""Elements and rows that an index tensor names, and where a tensor is not zero.

What `Tensor.__getitem__` and functions share: they allocate the result themselves.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ._generated.kernels import get_rows as _get_rows
from ._generated.kernels import nonzero as _nonzero
from ._generated.kernels import nonzero_offsets as _offsets
from .dtypes import DTYPES
from .errors import DTypeError, ShapeError
from .layout import Layout, contiguous_layout
from .plan import Kernel, cdiv
from .runtime.launch import run
from .views import TensorBase, reshaped_strides

__all__ = ["nonzero", "rows_at", "select", "selected"]

T = TypeVar("T", bound=TensorBase)
CHUNK = 4096  # elements that one offset stands for: plans/move/nonzero_offsets.py


def rows_at(x: T, index: TensorBase) -> T:
    """x[index]: the parts of x along its first axis that integers name."""
    if x.ndim == 0:
        raise ShapeError("[getitem] a tensor without axes has no elements to pick")
    if index.dtype not in ("int32", "int64"):
        raise DTypeError(
            f"[getitem] an index must be int32, int64 or bool but is {index.dtype}: "
            "pk.tensor(values, 'int32') makes one"
        )
    shape = (*index.shape, *x.shape[1:])
    result = x._fresh(contiguous_layout((index.size, *x.shape[1:]), x._layout.dtype))
    select(_get_rows.KERNEL, x, 0, index.reshape(-1), result, True)
    return result.reshape(shape)


def select(
    kernel: Kernel, x: TensorBase, axis: int, index: TensorBase, result: TensorBase, check: bool
) -> None:
    """The parts of x along an axis that an index (n,) names; `kernel` is get_rows by some name."""
    tensors = (_as_rows(x, axis, result), index, _as_rows(result, axis, x))
    run(kernel, tensors, options=(check,))


def _as_rows(t: TensorBase, axis: int, other: TensorBase) -> TensorBase:
    """A view (..., n, k) with `axis` next to the last one; both tensors get the same axes."""
    if axis == t.ndim - 1:
        return t[..., None]
    layouts = t._layout, other._layout
    if all(_joins(lay, axis) for lay in layouts):
        return t.reshape((*t.shape[: axis + 1], -1))
    order = [a for a in range(t.ndim) if a not in (axis, t.ndim - 1)]
    return t.transpose((*order, axis, t.ndim - 1))


def _joins(lay: Layout, axis: int) -> bool:
    """Can the axes behind `axis` be seen as one?"""
    inner = lay.size // max(1, math.prod(lay.shape[: axis + 1]))
    return lay.size > 0 and reshaped_strides(lay, (*lay.shape[: axis + 1], inner)) is not None


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
    if mask.ndim == 0 or x.shape[: mask.ndim] != mask.shape:
        raise ShapeError(
            f"[{op}] a mask must have the leading sizes of {x.shape} but has shape {mask.shape}"
        )
    rest = x.shape[mask.ndim :]
    (places,) = nonzero(mask.reshape(-1), op)
    rows = x.reshape((mask.size, *rest))
    result = x._fresh(contiguous_layout((places.size, *rest), x._layout.dtype))
    select(_get_rows.KERNEL, rows, 0, places, result, False)
    return result
