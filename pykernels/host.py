"""What callers hand in: shapes and arrays on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import ArgumentError, ShapeError

__all__ = ["as_array", "bytes_of", "shape_of", "type_name"]


def shape_of(shape: object) -> tuple[int, ...]:
    """A shape as a tuple of Python integers from 0 up."""
    dims: tuple[Any, ...]
    if type(shape) is tuple:
        dims = shape
    else:
        dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for n in dims:  # most often, and five times faster than what follows
        if type(n) is not int or n < 0:
            break
    else:
        return dims
    if not all(isinstance(n, (int, np.integer)) and type(n) is not bool and n >= 0 for n in dims):
        raise ShapeError(f"[shape] sizes must be integers from 0 up but are {shape!r}")
    return tuple(int(n) for n in dims)


def type_name(value: object) -> str:
    """The name of a value's type, with the module unless it is built in: torch.Tensor."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def as_array(values: Any, op: str) -> np.ndarray[Any, Any]:
    """What `numpy.asarray` makes of it; ArgumentError where it makes nothing."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as e:
        raise ArgumentError(
            f"[{op}] numpy makes no array of {type(values).__name__}: {e}"
        ) from None


def bytes_of(a: np.ndarray[Any, Any]) -> memoryview:
    """The memory of a contiguous array."""
    if a.dtype.kind == "V" or not a.size:  # memoryview knows no bfloat16, and casts no empty one
        return np.asarray(a).reshape(-1).view(np.uint8).data
    return a.data.cast("B")
