"""softmax_backward: the gradient of softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["softmax_backward"]

Array = np.ndarray[Any, Any]


def softmax_backward(y: Array, dy: Array) -> Array:
    """y * (dy - sum(dy * y)) over the last axis, in float64."""
    y, dy = y.astype(np.float64), dy.astype(np.float64)
    out: Array = y * (dy - (dy * y).sum(-1, keepdims=True))
    return out
