"""conv2d_backward_bias: see conv2d."""

from __future__ import annotations

import math

import numpy as np

from .conv2d import Array, Problem, conv2d_backward_bias

__all__ = ["budget", "conv2d_backward_bias", "problem"]


def budget(dy: Array, *, layout: str = "NCHW") -> Array:
    """What f32 sums over all images and pixels may be off by: 2^-23 (sqrt(K) + 4) sum|dy|."""
    size = conv2d_backward_bias(np.abs(dy), layout=layout)
    return np.asarray(2.0**-23 * (math.sqrt(dy.size // max(len(size), 1)) + 4) * size)


def problem(
    shape: tuple[int, ...] = (16, 64, 56, 56), dtype: str = "float32", out: str = "float32"
) -> Problem:
    """Shapes and dtypes for dy (n, o, h, w)."""
    return {"dy": (shape, dtype), "dst": (shape[1:2], out)}
