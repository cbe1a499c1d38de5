"""set_rows and get_rows: rows written to, or read from, the places that an index gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .copy import cpy

__all__ = [
    "add_rows", "add_rows_budget", "get_rows", "repeated", "set_rows", "timestep_embedding",
    "timestep_embedding_budget",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def set_rows(src: Array, index: Array, dst: Array) -> Array:
    """`dst` after dst[..., index[..., i], :] = src[..., i, :], in the order of the rows.

    Shapes: src (..., n, k), index (..., n) with leading axes that repeat to the axes of src, dst
    (..., m, k). Conversions as in `reference.copy`. Indices outside [0, m) write nothing. If
    several rows have the same index, the last of them stays.
    """
    out = np.array(dst, order="C")
    places = repeated(index, src.shape[:-1])
    rows = cpy(src, dst.dtype)
    for at in np.ndindex(*src.shape[:-1]):
        if 0 <= places[at] < dst.shape[-2]:
            out[(*at[:-1], int(places[at]))] = rows[at]
    return out


def get_rows(src: Array, index: Array, dst: Array) -> Array:
    """`dst` after dst[..., i, :] = src[..., index[..., i], :].

    Shapes: src (..., m, k), index (..., n) with leading axes that repeat to the axes of dst, dst
    (..., n, k). Conversions as in `reference.copy`. Indices outside [0, m) leave their row of dst
    as it was.
    """
    out = np.array(dst, order="C")
    places = repeated(index, dst.shape[:-1])
    m = src.shape[-2]
    rows = cpy(repeated(src, (*dst.shape[:-2], *src.shape[-2:])), dst.dtype)
    for at in np.ndindex(*dst.shape[:-1]):
        if 0 <= places[at] < m:
            out[at] = rows[(*at[:-1], int(places[at]))]
    return out


def repeated(a: Array, shape: tuple[int, ...]) -> Array:
    """ggml's broadcast: `a` is repeated along each axis as often as it fits."""
    own = a.reshape((1,) * (len(shape) - a.ndim) + a.shape)
    return np.tile(own, [m // max(n, 1) for n, m in zip(own.shape, shape, strict=True)])


def timestep_embedding(x: Array, shape: tuple[int, ...], max_period: float = 10000.0) -> Array:
    """Cosines, then sines, of each timestep times falling frequencies; an odd width ends with 0."""
    half = shape[1] // 2
    angles = x.astype(np.float64)[:, None] * max_period ** (-np.arange(half) / max(half, 1))
    out = np.zeros(shape)
    out[:, :half], out[:, half : 2 * half] = np.cos(angles), np.sin(angles)
    return out


def timestep_embedding_budget(
    x: Array, shape: tuple[int, ...], max_period: float = 10000.0
) -> Array:
    """The error: the frequencies have rounded exponents, and the angle is rounded."""
    half = shape[1] // 2
    exponent = np.arange(half) / max(half, 1) * math.log(max_period)
    angles = np.abs(x.astype(np.float64))[:, None] * np.exp(-exponent)
    out = np.zeros(shape)
    found = angles * (6 + 2 * np.abs(exponent)) * 2.0**-24 + 2.0**-22
    out[:, :half], out[:, half : 2 * half] = found, found
    return out


def add_rows(src: Array, index: Array, dst: Array, skip: int | None = None) -> Array:
    """`dst` after dst[index[i], :] += src[i, :], in float64; indices outside [0, m) and `skip` add
    nothing."""
    out = np.array(dst, np.float64)
    inside = (index >= 0) & (index < dst.shape[0])
    if skip is not None:
        inside &= index != skip
    np.add.at(out, index[inside].astype(np.int64), src[inside].astype(np.float64))
    return out


def add_rows_budget(src: Array, index: Array, dst: Array, skip: int | None = None) -> Array:
    """Pieces of 32 rows are summed first, then 16 sums at a time, level by level; dst is one more
    summand. At each level an element has at most 32 roundings, each relative to at most the sum of
    all magnitudes."""
    levels, rows = 1, len(index)
    while rows > 32:
        levels, rows = levels + 1, 2 * -(-rows // 32)
    sizes = add_rows(np.abs(src), index, np.abs(dst), skip)
    found: Array = sizes * (32 * levels + 1) * 2.0**-24 * 1.001
    return found
