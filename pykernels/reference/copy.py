"""cpy: copies and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels.dtypes import DTypeLike, dtype_of, numpy_dtype

__all__ = ["cpy", "to_bfloat16"]

Array = np.ndarray[Any, Any]


def cpy(src: Array, dtype: DTypeLike, shape: Sequence[int] | None = None) -> Array:
    """`src` in another dtype, and in another shape if one is given.

    The same dtype keeps all bits. To float16 and bfloat16: values are rounded once, to nearest
    even; overflow gives inf (NaN stays NaN; its payload is not promised). Float to integer: values
    are truncated and saturated, NaN gives 0. Integer to a narrower integer: values wrap.
    To bool: x != 0, so NaN is True. bfloat16 needs the package ml_dtypes.
    """
    target = numpy_dtype(dtype_of(dtype).name)
    with np.errstate(all="ignore"):
        if src.dtype == target:
            out: Array = np.array(src, order="C")
        elif target.kind == "b":
            out = src.astype(np.float32) != 0 if src.dtype.name == "bfloat16" else src != 0
        elif src.dtype.kind in "iub" and target.kind in "iu":
            out = src.astype(target)
        else:
            out = _through_float64(src.astype(np.float64), target)
    return out.reshape(src.shape if shape is None else tuple(shape))


def narrow(src: Array) -> Array:
    """The lowest 32 bits of int64 as int32."""
    return src.astype(np.int32)


def _through_float64(x: Array, target: np.dtype[Any]) -> Array:
    """Convert values of up to 32 bits, which are exact in float64."""
    if target.kind in "iu":
        info = np.iinfo(target)
        out: Array = np.clip(np.trunc(np.nan_to_num(x, nan=0.0)), info.min, info.max)
        return out.astype(target)
    out = to_bfloat16(x).view(target) if target.name == "bfloat16" else x.astype(target)
    return out


def to_bfloat16(x: Array) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """The bits of float64 values rounded once to bfloat16 (by way of float32, rounded to odd)."""
    with np.errstate(all="ignore"):
        f = x.astype(np.float32)
    bits = np.asarray(f).view(np.uint32)
    inexact = (f.astype(np.float64) != x) & ~np.isnan(x)
    bits = np.where(inexact, (bits - (np.abs(f) > np.abs(x))) | 1, bits)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, nearest).astype(np.uint16)
