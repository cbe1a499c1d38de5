"""sort, argsort and functions based on them: stable, NaN last in both orders, -0 equal to 0."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

__all__ = [
    "argsort",
    "bincount",
    "bincount_weights",
    "bincount_weights_budget",
    "median",
    "rows_of",
    "searchsorted",
    "sort",
    "top_k",
]

Array = np.ndarray[Any, Any]


def argsort(x: Array, *, descending: bool = False) -> Array:
    """Positions along the last axis, int32."""
    return np.argsort(_keys(x, descending), axis=-1, kind="stable").astype(np.int32)


def sort(x: Array, *, descending: bool = False) -> Array:
    """The elements themselves, bit for bit."""
    out: Array = np.take_along_axis(x, argsort(x, descending=descending).astype(np.int64), -1)
    return out


def top_k(x: Array, *, dst: Array, largest: bool = True) -> tuple[Array, Array]:
    """The first columns of a sort, as many as dst has, and their positions, int32."""
    index = argsort(x, descending=largest)[..., : dst.shape[-1]]
    return np.take_along_axis(x, index.astype(np.int64), -1), index


def searchsorted(sorted: Array, values: Array, *, side: Literal["left", "right"] = "left") -> Array:
    """For each value, the number of elements of its row below the value (left), or below or equal
    to the value (right), as int32."""
    rows = np.broadcast_to(sorted, (*values.shape[:-1], sorted.shape[-1]))
    out = np.empty(values.shape, np.int32)
    for at in np.ndindex(*values.shape[:-1]):
        out[at] = np.searchsorted(_keys(rows[at], False), _keys(values[at], False), side)
    return out


def bincount(x: Array, dst: Array) -> Array:
    """Counts for the bins of dst, int32; elements outside of the bins are not counted."""
    inside = (x >= 0) & (x < dst.size)
    return np.bincount(x[inside].astype(np.int64), minlength=dst.size).astype(np.int32)


def bincount_weights(x: Array, weights: Array, dst: Array) -> Array:
    """The sum of the weights in each bin of dst, in float64."""
    inside = (x >= 0) & (x < dst.size)
    found: Array = np.bincount(
        x[inside].astype(np.int64), weights[inside].astype(np.float64), dst.size
    )
    return found


def bincount_weights_budget(x: Array, weights: Array, dst: Array) -> Array:
    """The error of sums over trees of lanes, after each lane has added n / 1024 elements, or a few
    more, one after the other."""
    counts = bincount(x, dst)
    out: Array = 2.0**-23 * (np.sqrt(counts) + 4) * bincount_weights(x, np.abs(weights), dst)
    return out


def rows_of(values: Array) -> Array:
    """These values as sorted rows, in which other values are searched, for cases of export."""
    return sort(values)


def median(x: Array) -> Array:
    """The median of each row, in float64; the mean of two middle elements is rounded to f32."""
    rows = np.sort(x.astype(np.float32), axis=-1)
    size = x.shape[-1]
    a, b, last = (rows[..., at] for at in ((size - 1) // 2, size // 2, size - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        middle = a if size % 2 else (a + b) * np.float32(0.5)
    out: Array = np.where(np.isnan(last), np.float32(np.nan), middle).astype(np.float64)
    return out


def _keys(x: Array, descending: bool) -> Array:
    """Integers whose ascending order is the requested order of the elements."""
    if x.dtype.kind in "iub":
        wide: Array = x.astype(np.int64)
        return -wide if descending else wide
    real: Array = x.astype(np.float32)
    return -real if descending else real  # numpy puts NaN last, whatever its sign
