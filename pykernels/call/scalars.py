"""Scalar arguments and options of kernels as plain numbers, or as bits.

Functions convert these arguments before they look up the call in a cache: in a key of the cache,
1.0 would equal 1, and the conversion may run code of the caller.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from pykernels.dtypes import DType, DTypeName, dtype_of, numpy_dtype
from pykernels.errors import ArgumentError, DTypeError

__all__ = ["axes", "bits_of", "choice", "flag", "integer", "integers", "real", "seed_of"]


def integer(op: str, name: str, value: Any) -> int:
    """An integer (a value with `__index__` that is not a bool) as an int; ArgumentError for other
    values."""
    try:
        return _index(value)
    except TypeError:
        raise ArgumentError(f"[{op}] {name} must be an integer but is {value!r}") from None


def integers(op: str, name: str, value: Any) -> Any:
    """An integer as an int, or a tuple of integers and None as ints; a string is returned
    unchanged."""
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, tuple):
            return tuple([None if v is None else _index(v) for v in value])
        return _index(value)
    except TypeError:
        raise ArgumentError(f"[{op}] {name} must hold integers but is {value!r}") from None


def axes(op: str, name: str, value: Any) -> Any:
    """An axis as an int, or several axes as a tuple of ints; None stays None."""
    if value is None or isinstance(value, (tuple, list)):
        return None if value is None else integers(op, name, tuple(value))
    return integer(op, name, value)


def _index(value: Any) -> int:
    if isinstance(value, bool):  # only Python's bool, because numpy's bool has no __index__
        raise TypeError
    return operator.index(value)


def flag(op: str, name: str, value: Any) -> bool:
    """A bool of Python or numpy as a bool; ArgumentError for other values."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ArgumentError(f"[{op}] {name} must be True or False but is {value!r}")


def choice(op: str, name: str, value: Any, values: tuple[Any, ...]) -> Any:
    """The value, if it is one of the allowed values; else ArgumentError."""
    if isinstance(value, (str, bool, int)) and value in values:
        return value
    *others, last = map(repr, values)
    told = f"{', '.join(others)} or {last}" if others else last
    raise ArgumentError(f"[{op}] {name} must be {told} but is {value!r:.40}")


def real(op: str, name: str, value: Any) -> float:
    """A value with `__float__` or `__index__` as a float; ArgumentError for other values."""
    number = hasattr(value, "__float__") or hasattr(value, "__index__")
    if not number or isinstance(value, np.complexfloating):
        raise ArgumentError(f"[{op}] {name} must be a real number but is {value!r}")
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        raise ArgumentError(f"[{op}] {name} must be one number but is {value!r:.40}") from None


def seed_of(op: str, seed: Any) -> int:
    """A seed of 64 bits, with or without a sign, as the int64 that kernels take."""
    seed = integer(op, "seed", seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ArgumentError(f"[{op}] seed must fit into 64 bits but is {seed}")
    return int((seed + (1 << 63)) % (1 << 64) - (1 << 63))


def bits_of(op: str, value: Any, dtype: DType | DTypeName, name: str = "value") -> tuple[int, int]:
    """Two words filled with the scalar, converted to `dtype`. Integers must fit. `name` is its
    name in errors."""
    dt = dtype if isinstance(dtype, DType) else dtype_of(dtype)
    if not _is_number(value, "biufc" if dt.kind == "c" else "biuf"):
        wanted = "number" if dt.kind == "c" else "real number"
        raise DTypeError(f"[{op}] {name} must be a {wanted} or bool but is {value!r}")
    if dt.kind in "iu":
        info = np.iinfo(dt.name)
        if isinstance(value, (float, np.floating)) and not float(value).is_integer():
            raise ArgumentError(f"[{op}] {name} must be an integer for {dt.name} but is {value!r}")
        if not info.min <= int(value) <= info.max:
            raise ArgumentError(
                f"[{op}] {name} must be in [{info.min}, {info.max}] for {dt.name} but is {value!r}"
            )
    try:
        with np.errstate(over="ignore"):
            if dt.name == "bfloat16":
                raw = _bfloat16(float(value))
            else:
                raw = np.array(value).astype(numpy_dtype(dt.name)).tobytes()
    except OverflowError:
        raise ArgumentError(f"[{op}] {name} does not fit {dt.name}: {value!r:.40}...") from None
    words = np.frombuffer(raw * (8 // len(raw)), "<u4")
    return int(words[0]), int(words[1])


def _is_number(value: object, kinds: str) -> bool:
    """True for a Python number, or for a numpy number of one of these kinds."""
    if isinstance(value, np.generic):
        return value.dtype.kind in kinds
    return isinstance(value, (bool, int, float)) or ("c" in kinds and isinstance(value, complex))


def _bfloat16(value: float) -> bytes:
    single = np.float32(value)
    bits = int(single.view(np.uint32))
    if bits & 0x7FFFFFFF > 0x7F800000:
        return int((bits >> 16) | 0x40).to_bytes(2, "little")
    if float(single) != value:
        # This turns the rounding to float32 into a rounding to odd. Then the two roundings, to
        # float32 and to bfloat16, give the same result as one rounding to bfloat16.
        bits = (bits - (abs(float(single)) > abs(value))) | 1
    return int(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF).to_bytes(2, "little")
