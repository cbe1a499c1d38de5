"""cumsum and cumprod: running sums and products along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["cumprod", "cumprod_budget", "cumsum", "cumsum_budget"]

Array = np.ndarray[Any, Any]


def cumsum(x: Array) -> Array:
    """The running sum; floats are computed in float64, and integers wrap in their own dtype."""
    out: Array = np.cumsum(x, axis=-1, dtype=_sums(x))
    return out


def cumprod(x: Array) -> Array:
    """The running product; floats are computed in float64, and integers wrap in their own dtype."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out: Array = np.cumprod(x, axis=-1, dtype=_sums(x))
    return out


def cumsum_budget(x: Array) -> Array:
    """The error of sums over trees of blocks: 2^-20 of the sum of |x| up to each element."""
    out: Array = 2.0**-20 * np.cumsum(np.abs(x.astype(np.float64)), axis=-1)
    return out


def cumprod_budget(x: Array) -> Array:
    """The error: one rounding for each factor, and products below the smallest normal number may
    become 0."""
    factors = np.arange(2, x.shape[-1] + 2)
    out: Array = 2.0**-24 * factors * np.abs(cumprod(x)) + 2.0**-126
    return out


def _sums(x: Array) -> np.dtype[Any]:
    return np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype
