"""fill, memset and arange: elements, or bytes, set to one value or at equal steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .copy import to_bfloat16

__all__ = ["arange", "fill", "fill_where", "memset"]

Array = np.ndarray[Any, Any]


def fill(dst: Array, value: float) -> Array:
    """An array like `dst` with `value` everywhere, rounded to nearest even if necessary."""
    with np.errstate(over="ignore"):
        if dst.dtype.name == "bfloat16":
            one = to_bfloat16(np.asarray(value, np.float64)).view(dst.dtype)
        else:
            one = np.asarray(value).astype(dst.dtype)
    return np.full(dst.shape, one, dst.dtype)


def fill_where(mask: Array, dst: Array, value: float) -> Array:
    """`dst` with `value` where the mask is True."""
    return np.where(mask, fill(dst, value), dst)


def memset(dst: Array, value: int, *, offset: int = 0, size: int | None = None) -> Array:
    """`dst` after bytes [offset, offset + size) of its elements in C order became `value`."""
    out = np.array(dst, order="C")
    end = out.nbytes if size is None else offset + size
    out.reshape(-1).view(np.uint8)[offset:end] = value
    return out


def arange(shape: tuple[int, ...], dtype: np.dtype[Any], start: float, step: float) -> Array:
    """start + i * step for element number i; each operation is rounded to the dtype."""
    i = np.arange(math.prod(shape), dtype=np.int64)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            out: Array = i.astype(dtype) * dtype.type(step) + dtype.type(start)
    else:
        out = (int(start) + i * int(step)).astype(dtype)
    return out.reshape(shape)
