"""fill: every element set to one scalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cpy import to_bfloat16

__all__ = ["fill"]

Array = np.ndarray[Any, Any]


def fill(dst: Array, value: float) -> Array:
    """An array like `dst` with `value` everywhere, rounded to nearest even where it has to be."""
    with np.errstate(over="ignore"):
        if dst.dtype.name == "bfloat16":
            one = to_bfloat16(np.asarray(value, np.float64)).view(dst.dtype)
        else:
            one = np.asarray(value).astype(dst.dtype)
    return np.full(dst.shape, one, dst.dtype)
