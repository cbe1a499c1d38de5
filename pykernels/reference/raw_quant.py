"""Quantised weights of types that are only dequantised, computed by the package gguf."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels.lazy import load

__all__ = ["raw_rows"]

Array = np.ndarray[Any, Any]


def raw_rows(
    data: Array, index: Array, dtype: Any, shape: tuple[int, ...], table: Array | None = None,
    quant: str = "iq2_xxs", check: bool = True,
) -> Array:  # fmt: skip
    """Rows of the numbers of blocks. `table` is the table of the package gguf; rows for indices out
    of range are unspecified."""
    rows = np.ascontiguousarray(data[np.clip(index, 0, len(data) - 1)])
    with np.errstate(all="ignore"):
        if quant == "float8_e4m3":
            found = _float8(rows)
        else:
            gguf = load("gguf")
            kind = gguf.GGMLQuantizationType[quant.upper()]
            found = gguf.dequantize(rows.reshape(-1, rows.shape[-1]), kind)
        whole: Array = found.reshape(*rows.shape[:-1], -1)[..., : shape[-1]].astype(dtype)
        return whole


def _float8(rows: Array) -> Array:
    """The numbers of blocks of a float32 and 128 bytes of e4m3, which has no infinities."""
    blocks = rows.reshape(*rows.shape[:-1], -1, 132)
    scales = np.ascontiguousarray(blocks[..., :4]).view("<f4")
    q = blocks[..., 4:].astype(np.int32)
    e, m = q >> 3 & 15, (q & 7).astype(np.float32)
    size = np.where(e == 0, np.ldexp(m, -9), np.ldexp(1 + m / 8, e - 7))
    size = np.where(q & 127 == 127, np.nan, size)
    found: Array = scales * np.where(q > 127, -size, size).astype(np.float32)
    return found
