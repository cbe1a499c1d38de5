"""Linear systems and factors of matrices, in float64, and the largest errors of f32."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "cholesky", "cholesky_residual", "definite", "exchanged", "invertible", "lu_factor",
    "lu_residual", "solve", "solve_budget", "solve_tri", "solve_tri_budget",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def cholesky(a: Array) -> Array:
    """The lower triangle l with l @ l^T = a, from the lower triangle of a. If a column has no
    positive pivot, this column and all columns after it are NaN."""
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

    A sum of n products takes n roundings. The reciprocal root and the product with it take six
    more; these six are counted twice. Each rounding counts relative to |l| |l|^T (Higham, Accuracy
    and Stability of Numerical Algorithms, theorem 10.3).
    """
    wide = lower.astype(np.float64)
    turned = wide.swapaxes(-1, -2)
    found = np.abs(np.tril(a.astype(np.float64) - wide @ turned))
    bound: Array = (a.shape[-1] + 12) * 2.0**-23 * (np.abs(wide) @ np.abs(turned))
    return found, bound


def definite(dst: Array) -> Array:
    """Positive definite matrices, made from the numbers of dst, for cases of export."""
    square = dst @ dst.swapaxes(-1, -2)
    found: Array = square + dst.shape[-1] * np.eye(dst.shape[-1], dtype=dst.dtype)
    return found


def invertible(dst: Array) -> Array:
    """Matrices for systems of this shape, for cases of export: near the identity, with rows in
    another order."""
    shape = (*dst.shape[:-1], dst.shape[-2])
    waves = np.sin(np.arange(np.prod(shape, dtype=int))).reshape(shape) / shape[-1]
    found: Array = np.roll(waves + np.eye(shape[-1]), 1, -2).astype(dst.dtype)
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
    """Substitution takes n + 4 roundings, because a quotient may be off by 2.5 units in the last
    place. They bound the error of x relative to |a^-1| |a| |x| (Higham, Accuracy and Stability of
    Numerical Algorithms, theorem 8.5)."""
    triangle = np.abs(_triangle(a, unit))
    n = a.shape[-1]
    ones = np.broadcast_to(np.eye(n), a.shape)
    inverse = np.abs(solve_tri(a, ones, unit))
    found: Array = inverse @ (triangle @ np.abs(solve_tri(a, b, unit)))
    bound: Array = (n + 4) * 2.0**-23 * found
    return bound


def lu_factor(a: Array) -> tuple[Array, Array]:
    """The LU factors with partial pivoting, in one matrix, and the pivots. The search for a pivot
    takes NaN as the largest number."""
    n = a.shape[-1]
    lu = a.astype(np.float64).reshape(-1, n, n)
    pivots, each = np.zeros((len(lu), n), np.int32), np.arange(len(lu))
    with np.errstate(all="ignore"):
        for k in range(n):
            row = pivots[:, k] = k + np.abs(lu[:, k:, k]).argmax(1)
            lu[each, row], lu[:, k] = lu[:, k].copy(), lu[each, row]
            pivot = lu[:, k, k, None]
            lu[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
            lu[:, k + 1 :, k + 1 :] -= lu[:, k + 1 :, k, None] * lu[:, k, None, k + 1 :]
    return lu.reshape(a.shape), pivots.reshape(a.shape[:-1])


def exchanged(a: Array, pivots: Array) -> Array:
    """The rows of a, exchanged by pivots."""
    found = a.reshape(-1, *a.shape[-2:]).copy()
    each = np.arange(len(found))
    for k, row in enumerate(pivots.reshape(len(found), -1).T):
        found[each, row], found[:, k] = found[:, k].copy(), found[each, row]
    return found.reshape(a.shape)


def lu_residual(a: Array, lu: Array, pivots: Array) -> tuple[Array, Array]:
    """For the computed factors l and u: |p a - l @ u|, and the largest value that it may have.

    A sum of n products takes n roundings, and a quotient may be off by 2.5 units in the last place;
    these errors are relative to |l| |u| (Higham, Accuracy and Stability of Numerical Algorithms,
    theorem 9.3).
    """
    wide = lu.astype(np.float64)
    n = a.shape[-1]
    lower, upper = np.tril(wide, -1) + np.eye(n), np.triu(wide)
    found = np.abs(exchanged(a.astype(np.float64), pivots) - lower @ upper)
    bound: Array = (n + 4) * 2.0**-23 * (np.abs(lower) @ np.abs(upper))
    return found, bound


def solve(a: Array, b: Array) -> Array:
    """x with a @ x = b; NaN for a singular matrix."""
    try:
        return np.linalg.solve(a.astype(np.float64), b.astype(np.float64))
    except np.linalg.LinAlgError:
        return np.full(b.shape, np.nan)


def solve_budget(a: Array, b: Array) -> Array:
    """The largest error of x. The factors and two substitutions take 3 n + 12 roundings, each
    relative to |a^-1| |l| |u| |x| (Higham, theorem 9.4).

    |l| |u| comes from the factors of the reference, with rows in the order of a.
    """
    lu, pivots = lu_factor(a)
    n = a.shape[-1]
    order = exchanged(np.broadcast_to(np.eye(n), a.shape), pivots)
    wide = np.abs(np.tril(lu, -1) + np.eye(n)) @ np.abs(np.triu(lu))
    inverse = np.abs(np.linalg.inv(a.astype(np.float64)))
    rows = order.swapaxes(-1, -2) @ wide
    bound: Array = (3 * n + 12) * 2.0**-23 * (inverse @ (rows @ np.abs(solve(a, b))))
    return bound


def _triangle(a: Array, unit: bool) -> Array:
    wide = np.tril(a.astype(np.float64), -1 if unit else 0)
    return wide + np.eye(a.shape[-1]) if unit else wide
