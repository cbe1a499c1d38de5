"""conv2d_backward_weight: see conv2d."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .conv2d import LAYER, Array, Problem, conv2d_backward_weight
from .conv2d import problem as conv2d_problem

__all__ = ["budget", "conv2d_backward_weight", "problem"]


def budget(dy: Array, x: Array, shape: Sequence[int], **options: Any) -> Array:
    """What f32 sums over all images and pixels may be off by: 2^-23 (sqrt(K) + 4) sum|dy||x|."""
    size = conv2d_backward_weight(np.abs(dy), np.abs(x), shape, **options)
    pixels = dy.size // max(shape[0], 1)
    return np.asarray(2.0**-23 * (math.sqrt(pixels) + 4) * size)


def problem(
    shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32"
) -> Problem:
    """Shapes and dtypes for a layer (n, c, h, w, o, kh, kw), stride 1, no padding."""
    forward = conv2d_problem(shape, dtype, out)
    return {
        "dy": (forward["dst"][0], dtype), "x": forward["x"], "dst": (forward["w"][0], out),
    }  # fmt: skip
