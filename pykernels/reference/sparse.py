"""Sparse products in float64, and the largest error of f32."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["csr_matmul", "csr_matmul_budget", "some_ends"]

Array = np.ndarray[Any, Any]


def csr_matmul(data: Array, indices: Array, indptr: Array, x: Array, check: bool = True) -> Array:
    """The product of the sparse matrix with x, (M, N); elements with indices out of range add
    nothing."""
    return _sums(data.astype(np.float64), indices, indptr, x.astype(np.float64))


def csr_matmul_budget(
    data: Array, indices: Array, indptr: Array, x: Array, check: bool = True
) -> Array:
    """Each product and each sum is rounded once, relative to at most the sum of magnitudes. So the
    result has one rounding more than its row has elements."""
    ends = np.clip(indptr, 0, data.size)
    lengths = np.maximum(np.diff(ends), 0)[:, None]
    wide = np.abs(data.astype(np.float64)), np.abs(x.astype(np.float64))
    bound: Array = (lengths + 1) * 2.0**-24 * _sums(wide[0], indices, indptr, wide[1])
    return bound + 2.0**-126 * lengths  # products may flush


def some_ends(data: Array, dst: Array) -> Array:
    """The first element of each row, and the end of the last row, for rows of about equal
    length."""
    rows = dst.shape[0]
    found: Array = np.arange(rows + 1) * data.size // max(rows, 1)
    return found


def _sums(data: Array, indices: Array, indptr: Array, x: Array) -> Array:
    found = np.zeros((indptr.size - 1, x.shape[1]))
    ends = np.clip(indptr, 0, data.size)
    for row in range(found.shape[0]):
        part = slice(ends[row], ends[row + 1])
        inside = (indices[part] >= 0) & (indices[part] < x.shape[0])
        found[row] = data[part][inside] @ x[indices[part][inside]]
    return found
