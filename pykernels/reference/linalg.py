"""Triangular systems and Cholesky factors, in float64, and the largest errors of f32."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["cholesky", "cholesky_residual", "definite", "solve_tri", "solve_tri_budget"]

Array = np.ndarray[Any, Any]


def cholesky(a: Array) -> Array:
    """The lower triangle l with l @ l^T = a, from the lower triangle of a; NaN from the first
    column without a positive pivot on."""
    lower = np.tril(a.astype(np.float64))
    with np.errstate(all="ignore"):
        for k in range(lower.shape[-1]):
            rest = lower[..., k:, :k] @ lower[..., k, :k, None]
            column = lower[..., k:, k] - rest[..., 0]
            pivot = np.where(column[..., :1] > 0, column[..., :1], np.nan)
            lower[..., k:, k] = column / np.sqrt(pivot)
    return lower


def cholesky_residual(a: Array, lower: Array) -> tuple[Array, Array]:
    """For the computed factor l: |a - l @ l^T| on and below the diagonal, and the largest value
    that it may have.

    A sum of n products takes n roundings; the reciprocal root and its product take six more, and
    count twice. Each rounding counts relative to |l| |l|^T (Higham, Accuracy and Stability of
    Numerical Algorithms, theorem 10.3).
    """
    wide = lower.astype(np.float64)
    turned = wide.swapaxes(-1, -2)
    found = np.abs(np.tril(a.astype(np.float64) - wide @ turned))
    bound: Array = (a.shape[-1] + 12) * 2.0**-23 * (np.abs(wide) @ np.abs(turned))
    return found, bound


def definite(dst: Array) -> Array:
    """Positive definite matrices of this shape, made of any numbers, for cases of export."""
    square = dst @ dst.swapaxes(-1, -2)
    found: Array = square + dst.shape[-1] * np.eye(dst.shape[-1], dtype=dst.dtype)
    return found


def solve_tri(a: Array, b: Array, unit: bool = False) -> Array:
    """x with a @ x = b, where a is a lower triangle; if `unit`, its diagonal is 1."""
    triangle = _triangle(a, unit)
    x = b.astype(np.float64)
    with np.errstate(all="ignore"):
        for i in range(x.shape[-2]):
            row = triangle[..., i : i + 1, :i] @ x[..., :i, :]
            x[..., i, :] -= row[..., 0, :]
            x[..., i, :] /= triangle[..., i, i, None]
    return x


def solve_tri_budget(a: Array, b: Array, unit: bool = False) -> Array:
    """Substitution takes n + 4 roundings, which bound the error of x relative to |a^-1| |a| |x|
    (Higham, Accuracy and Stability of Numerical Algorithms, theorem 8.5); a quotient may be off by
    2.5 units."""
    triangle = np.abs(_triangle(a, unit))
    n = a.shape[-1]
    ones = np.broadcast_to(np.eye(n), a.shape)
    inverse = np.abs(solve_tri(a, ones, unit))
    found: Array = inverse @ (triangle @ np.abs(solve_tri(a, b, unit)))
    bound: Array = (n + 4) * 2.0**-23 * found
    return bound


def _triangle(a: Array, unit: bool) -> Array:
    wide = np.tril(a.astype(np.float64), -1 if unit else 0)
    return wide + np.eye(a.shape[-1]) if unit else wide
