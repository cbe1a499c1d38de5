"""log_softmax: the logarithm of softmax, with its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from .softmax import softmax

__all__ = ["log_softmax"]

Array = np.ndarray[Any, Any]


def log_softmax(
    x: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    *,
    scale: float = 1.0,
    max_bias: float = 0.0,
) -> Array:
    """log(softmax(x * scale + slope * mask)) in float64; a skipped key, and a row of them, -inf."""
    return softmax(x, mask, sinks, scale=scale, max_bias=max_bias, log=True)
