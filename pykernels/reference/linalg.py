"""Triangular systems, in float64, and the largest error of f32."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["solve_tri", "solve_tri_budget"]

Array = np.ndarray[Any, Any]


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
