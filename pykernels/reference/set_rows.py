"""set_rows: rows written to the places that an index gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cpy import cpy

__all__ = ["problem", "repeated", "set_rows"]

Array = np.ndarray[Any, Any]


def set_rows(src: Array, index: Array, dst: Array) -> Array:
    """`dst` after dst[..., index[..., i], :] = src[..., i, :], in the order of the rows.

    src (..., n, k), index (..., n) with leading axes that repeat, dst (..., m, k). Conversions as
    in `reference.cpy`. Indices outside [0, m) write nothing. Of several rows with one index the
    last one stays here; the kernel promises for each element that it is one of theirs.
    """
    out = np.array(dst, order="C")
    places = repeated(index, src.shape[:-1])
    rows = cpy(src, dst.dtype)
    for at in np.ndindex(*src.shape[:-1]):
        if 0 <= places[at] < dst.shape[-2]:
            out[(*at[:-1], int(places[at]))] = rows[at]
    return out


def problem(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "float32"
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and dtypes of rows (..., n, k) that go to as many places."""
    return {"src": (shape, dtype), "index": (shape[-2:-1], "int32"), "dst": (shape, out)}


def repeated(a: Array, shape: tuple[int, ...]) -> Array:
    """ggml's broadcast: `a` as often as it fits along each axis, one after the other."""
    own = a.reshape((1,) * (len(shape) - a.ndim) + a.shape)
    return np.tile(own, [m // max(n, 1) for n, m in zip(own.shape, shape, strict=True)])
