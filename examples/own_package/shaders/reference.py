"""The kernels in numpy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def peaks(x: Array) -> tuple[Array, Array]:
    """The largest element of each row, and its column."""
    return x.max(1), x.argmax(1).astype(np.uint32)


def blend(a: Array, b: Array, mask: Array | None = None, share: float = 0.5) -> Array:
    """a + share * mask * (b - a)."""
    shares = np.float64(share) * (1.0 if mask is None else mask)
    return np.asarray(a + shares * (b.astype(float) - a))


def soft_clip(x: Array, gain: float = 1.0) -> Array:
    """v / (1 + |v|) with v = gain * x."""
    v = gain * x.astype(float)
    return np.asarray(v / (1 + np.abs(v)))


def normals(vectors: Array) -> Array:
    """The vectors, scaled to length 1; vectors of zeros stay zeros."""
    size = np.linalg.norm(vectors.astype(float), axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(size > 0, size, 1))


def norm(x: Array) -> Array:
    """The Euclidean norm."""
    return np.asarray(np.sqrt((x.astype(float) ** 2).sum())).reshape(1)
