"""Reductions in float64, and the largest error of f32.

`x` is any array. `axis` is one axis, several axes, or None for all axes. `shape` is the shape of
the output, which may keep the reduced axes with size 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "norm",
    "prod", "std", "sum", "var",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Axis = int | tuple[int, ...] | None
Shape = tuple[int, ...] | None
# The error of a sum in f32, added in pairs, stays below this share of the sum of magnitudes.
SUM = 1e-6


def _wide(x: Array) -> Array:
    """Floats as float64, and integers as the 32-bit integers in which they are summed."""
    if x.dtype.kind == "f":
        return x.astype(np.float64)
    return x.astype(np.uint32 if x.dtype.kind == "u" else np.int32)


def _real(x: Array) -> Array:
    return x.astype(np.float64)


def _shaped(found: Any, shape: Shape) -> Array:
    result = np.asarray(found)
    return result if shape is None else result.reshape(shape)


def sum(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The sum; of integers it wraps at 32 bits."""
    w = _wide(x)
    with np.errstate(all="ignore"):
        return _shaped(w.sum(axis, dtype=w.dtype), shape)


def prod(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The product; of integers it wraps at 32 bits."""
    w = _wide(x)
    with np.errstate(all="ignore"):
        return _shaped(w.prod(axis, dtype=w.dtype), shape)


def mean(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The sum divided by the number of elements; NaN if there are none."""
    with np.errstate(all="ignore"):
        return _shaped(_real(x).sum(axis) / np.float64(_count(x, axis)), shape)


def max(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The largest element; NaN if an element is NaN."""
    return _shaped(_exact(np.max(x, axis)), shape)


def min(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The smallest element; NaN if an element is NaN."""
    return _shaped(_exact(np.min(x, axis)), shape)


def _exact(found: Any) -> Array:
    """Floats as float64, so that 0 and -0 count as equal."""
    result = np.asarray(found)
    return _real(result) if result.dtype.kind == "f" else result


def argmax(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The position, in C order, of the first largest element, or of the first NaN."""
    return _shaped(np.argmax(_last(x, axis), -1).astype(np.int32), shape)


def argmin(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The position, in C order, of the first smallest element, or of the first NaN."""
    return _shaped(np.argmin(_last(x, axis), -1).astype(np.int32), shape)


def any(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """True if any element is not 0."""
    return _shaped((x != 0).any(axis), shape)


def all(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """True if no element is 0."""
    return _shaped((x != 0).all(axis), shape)


def count_nonzero(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The number of elements that are not 0."""
    return _shaped((x != 0).sum(axis).astype(np.int32), shape)


def var(x: Array, axis: Axis = None, ddof: int = 0, shape: Shape = None) -> Array:
    """The sum of squared differences from the mean, divided by n - ddof (not less than 0)."""
    flat = _real(_last(x, axis))
    with np.errstate(all="ignore"):
        squares = (
            ((flat - flat.mean(-1, keepdims=True)) ** 2).sum(-1) if flat.size else flat.sum(-1)
        )
        return _shaped(squares / np.float64(np.maximum(flat.shape[-1] - ddof, 0)), shape)


def std(x: Array, axis: Axis = None, ddof: int = 0, shape: Shape = None) -> Array:
    """The root of the variance."""
    return _shaped(np.sqrt(var(x, axis, ddof)), shape)


def norm(x: Array, axis: Axis = None, ord: float = 2.0, shape: Shape = None) -> Array:
    """The norm of vectors of order 1, 2 or inf."""
    magnitudes = np.abs(_real(x))
    with np.errstate(all="ignore"):
        if ord == math.inf:
            return _shaped(magnitudes.max(axis), shape)
        if ord == 1:
            return _shaped(magnitudes.sum(axis), shape)
        return _shaped(np.sqrt((magnitudes**2).sum(axis)), shape)


def logsumexp(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The logarithm of the sum of exponentials; -inf for no elements."""
    flat = _real(_last(x, axis))
    top = flat.max(-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(all="ignore"):
        return _shaped(np.log(np.exp(flat - shift).sum(-1)) + shift[..., 0], shape)


# -- budgets --------------------------------------------------------------------------------------


def sum_budget(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The error of a sum: a share of the sum of magnitudes; 0 for integers."""
    with np.errstate(all="ignore"):
        magnitudes = np.abs(_real(x)).sum(axis)
    return _finite(SUM * magnitudes * (x.dtype.kind == "f"), shape)


def mean_budget(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The budget of the sum, divided by the number of elements."""
    with np.errstate(all="ignore"):
        return _finite(SUM * np.abs(_real(x)).sum(axis) / np.float64(_count(x, axis)), shape)


def prod_budget(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The error of a product: half a unit in the last place for each factor."""
    share = 2.0**-24 * _count(x, axis) * (x.dtype.kind == "f")
    with np.errstate(all="ignore"):
        return _finite(share * np.abs(_real(x).prod(axis)), shape)


def var_budget(x: Array, axis: Axis = None, ddof: int = 0, shape: Shape = None) -> Array:
    """The error of a variance: a share of the variance, and the effect of a rounded mean."""
    with np.errstate(all="ignore"):
        found = np.asarray(var(x, axis, ddof))
        noise = 2.0**-21 * np.abs(np.asarray(mean(x, axis)))
        return _finite(4 * SUM * found + noise * np.sqrt(found) + noise**2, shape)


def std_budget(x: Array, axis: Axis = None, ddof: int = 0, shape: Shape = None) -> Array:
    """The error of a standard deviation: the effect of the variance's error on the root, and the
    rounding of the root."""
    allowed, found = var_budget(x, axis, ddof), np.asarray(std(x, axis, ddof))
    with np.errstate(all="ignore"):
        root = np.minimum(np.sqrt(allowed), allowed / np.where(found > 0, found, 1.0))
        return _finite(np.where(found > 0, root, np.sqrt(allowed)) + 2.0**-22 * found, shape)


def norm_budget(x: Array, axis: Axis = None, ord: float = 2.0, shape: Shape = None) -> Array:
    """The error of a norm: a share of the norm; 0 if the norm is the largest magnitude."""
    share = SUM if ord != math.inf else 0.0
    with np.errstate(all="ignore"):
        return _finite(share * norm(x, axis, ord), shape)


def logsumexp_budget(x: Array, axis: Axis = None, shape: Shape = None) -> Array:
    """The largest error that a driver's exp and log may have."""
    return _finite(4e-6 + 2.0**-21 * np.abs(np.asarray(logsumexp(x, axis))), shape)


def _finite(budget: Any, shape: Shape) -> Array:
    """The budget, plus the values that flushing to 0 may remove; 0 if no difference is allowed."""
    found = np.nan_to_num(np.asarray(budget, np.float64), nan=0.0, posinf=0.0)
    return _shaped(np.where(found > 0, found + 2.0**-126, 0.0), shape)


def _axes(x: Array, axis: Axis) -> tuple[int, ...]:
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(a % x.ndim for a in given)


def _count(x: Array, axis: Axis) -> int:
    return math.prod(x.shape[a] for a in _axes(x, axis))


def _last(x: Array, axis: Axis) -> Array:
    """The array with its reduced axes as one last axis, in C order."""
    axes = sorted(_axes(x, axis))
    rest = [a for a in range(x.ndim) if a not in axes]
    moved = x.transpose(*rest, *axes)
    return moved.reshape(*(x.shape[a] for a in rest), _count(x, axis))
