"""sort, argsort and what is made of them: stable, NaN last in both orders, -0 equal to 0."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["argsort", "sort"]

Array = np.ndarray[Any, Any]


def argsort(x: Array, *, descending: bool = False) -> Array:
    """Positions along the last axis, int32."""
    return np.argsort(_keys(x, descending), axis=-1, kind="stable").astype(np.int32)


def sort(x: Array, *, descending: bool = False) -> Array:
    """The elements themselves, bit for bit."""
    out: Array = np.take_along_axis(x, argsort(x, descending=descending).astype(np.int64), -1)
    return out


def _keys(x: Array, descending: bool) -> Array:
    """Numbers whose ascending order is the one asked for."""
    if x.dtype.kind in "iub":
        wide: Array = x.astype(np.int64)
        return -wide if descending else wide
    real: Array = x.astype(np.float32)
    return -real if descending else real  # numpy puts NaN last, of either sign
