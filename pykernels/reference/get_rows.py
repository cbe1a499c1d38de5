"""get_rows: rows read from the places that an index gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cpy import cpy
from .set_rows import problem, repeated

__all__ = ["get_rows", "problem"]

Array = np.ndarray[Any, Any]


def get_rows(src: Array, index: Array, dst: Array) -> Array:
    """`dst` after dst[..., i, :] = src[..., index[..., i], :].

    src (..., m, k), index (..., n) with leading axes that repeat to those of dst (..., n, k).
    Conversions as in `reference.cpy`. Indices outside [0, m) leave their row of dst as it was.
    """
    out = np.array(dst, order="C")
    places = repeated(index, dst.shape[:-1])
    m = src.shape[-2]
    rows = cpy(repeated(src, (*dst.shape[:-2], *src.shape[-2:])), dst.dtype)
    for at in np.ndindex(*dst.shape[:-1]):
        if 0 <= places[at] < m:
            out[at] = rows[(*at[:-1], int(places[at]))]
    return out
