"""memset: bytes of a view set to one value."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["memset"]

Array = np.ndarray[Any, Any]


def memset(dst: Array, value: int, *, offset: int = 0, size: int | None = None) -> Array:
    """`dst` after bytes [offset, offset + size) of its elements in C order became `value`."""
    out = np.array(dst, order="C")
    end = out.nbytes if size is None else offset + size
    out.reshape(-1).view(np.uint8)[offset:end] = value
    return out
