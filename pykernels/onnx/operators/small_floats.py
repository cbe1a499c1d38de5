"""Floats of 4 to 8 bits: the device stores them as float32, which holds all of their values.

A conversion searches a sorted list of the numbers at which the result changes. A zero loses its
sign.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from onnx import numpy_helper

import pykernels as pk

from ..errors import ModelError
from ..graph import SMALL_FLOATS, Array, Node
from .table import kept

__all__ = ["as_small"]


def _converted(x: Array, kind: str, saturate: bool, mode: str) -> Array:
    """float32 numbers, converted to a dtype and back to float32."""
    dtype = np.dtype(getattr(ml_dtypes, kind))
    with np.errstate(all="ignore"):
        if kind == "float8_e8m0fnu":
            y = numpy_helper.to_float8e8m0(x, saturate, mode)
        elif saturate and kind.startswith("float8"):
            y = numpy_helper.saturate_cast(x, dtype)
        else:
            y = x.astype(dtype)
        found: Array = y.astype(np.float32)
        return found


@lru_cache(maxsize=32)
def _steps(kind: str, saturate: bool, mode: str) -> tuple[Array, Array, float]:
    """All results in ascending order; for each result but the first, the smallest number that is
    converted to it; and the result for NaN."""
    codes = np.arange(1 << SMALL_FLOATS[kind], dtype=np.uint8)
    every = codes.view(getattr(ml_dtypes, kind)).astype(np.float32)
    values = np.unique(every[np.isfinite(every)] + np.float32(0))
    signed = bool(values[0] < 0)
    most = np.finfo(np.float32).max
    ends = _converted(np.array([-most, most], np.float32), kind, saturate, mode)
    below, above = not np.isfinite(ends[0]) and signed, not np.isfinite(ends[1])
    keys = np.concatenate([[-np.inf] * below, values, [np.inf] * above]).astype(np.float32)
    results = np.concatenate([ends[:1] if below else [], values, ends[1:] if above else []])
    low, high = _ordered(np.clip(keys[:-1], -most, most)), _ordered(np.clip(keys[1:], -most, most))
    low[0] = low[0] if signed else 0
    for _ in range(33):
        middle = (low + high) // 2
        x = _number(middle)
        y = _converted(x, kind, saturate, mode)
        y = np.where(np.isfinite(y), y, np.copysign(np.float32(np.inf), x))
        up = y >= keys[1:]
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    bounds = _number(high)
    infinite, nan = _converted(np.array([np.inf, np.nan], np.float32), kind, saturate, mode)
    if not above and infinite != results[-1]:
        results, bounds = np.append(results, infinite), np.append(bounds, np.inf)
    return results.astype(np.float32), bounds.astype(np.float32), float(nan)


def _ordered(x: Array) -> Array:
    """Integers in the order of float32 numbers."""
    bits = np.abs(x).view(np.int32).astype(np.int64)
    return np.where(x < 0, -bits, bits)


def _number(order: Array) -> Array:
    size = np.abs(order).astype(np.int32).view(np.float32)
    return np.where(order < 0, -size, size).astype(np.float32)


def as_small(node: Node, x: Any, kind: str) -> Any:
    """x, converted to a dtype of SMALL_FLOATS (to nearest, ties to even) and back to float32."""
    saturate = bool(node.attributes.get("saturate", 1))
    mode = node.attributes.get("round_mode", b"up").decode()
    if kind == "float8_e8m0fnu" and mode not in ("up", "down", "nearest"):
        raise ModelError(f"round_mode {mode!r:.40}: not supported")
    results, bounds, nan = _steps(kind, saturate, mode)
    x = x.astype("float32")
    x = pk.abs(x) if kind == "float8_e8m0fnu" else x
    table = kept(node, "results", x.device, results)
    place = pk.searchsorted(kept(node, "bounds", x.device, bounds), x, "right")
    y = pk.index_select(table, 0, place.reshape(-1)).reshape(x.shape)
    return pk.where(pk.isnan(x), kept(node, "nan", x.device, np.array(nan, np.float32)), y)
