"""Checks shapes and host arrays that callers pass."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pykernels.dtypes import DTYPES, DType, dtype_of
from pykernels.errors import ArgumentError, DTypeError, PyKernelsError, ShapeError

__all__ = [
    "array_of",
    "as_array",
    "bytes_of",
    "is_torch",
    "packed_of",
    "shape_of",
    "stacklevel",
    "type_name",
]

NDArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def shape_of(shape: object) -> tuple[int, ...]:
    """A shape as a tuple of Python integers of 0 or more."""
    dims: tuple[Any, ...]
    if type(shape) is tuple:
        dims = shape
    else:
        dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for n in dims:  # the usual case first: five times faster than the code below
        if type(n) is not int or n < 0:
            break
    else:
        return dims
    if not all(isinstance(n, (int, np.integer)) and type(n) is not bool and n >= 0 for n in dims):
        raise ShapeError(f"[shape] sizes must be integers of 0 or more but are {shape!r}")
    return tuple(int(n) for n in dims)


def size_of(op: str, name: str, value: object) -> int:
    """One size, 0 or more."""
    sizes = shape_of(value)
    if len(sizes) != 1:
        raise ShapeError(f"[{op}] {name} must be one size but is {value!r}")
    return sizes[0]


def type_name(value: object) -> str:
    """The name of a value's type, with the module unless it is built in: torch.Tensor."""
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def as_array(values: Any, op: str) -> NDArray:
    """The result of `numpy.asarray`; ArgumentError if numpy cannot make an array."""
    try:
        return np.asarray(values)
    except PyKernelsError:  # raised by a tensor in the list
        raise
    except (TypeError, ValueError, RuntimeError) as e:
        raise ArgumentError(f"[{op}] numpy makes no array of {type_name(values)}: {e}") from None


def array_of(values: Any, op: str, wanted: DType | None) -> tuple[NDArray, DType]:
    """An array on the host and the dtype that its words have on the device.

    Unless another dtype is given, Python's integers become int32, floats and float64 become
    float32, complex numbers and complex128 become complex64, and bools stay bool. numpy does the
    conversion. For a conversion to bfloat16 the array stays float32 here, and the device rounds it.
    """
    if is_torch(values):
        values, words = _of_torch(values, op)
        if words:
            return values, DTYPES["bfloat16"]
    a = as_array(values, op)
    kind = _first_type(values)
    if wanted is None and issubclass(kind, np.integer) and a.dtype.itemsize == 8:
        wanted = _of_integers(a, op)
    elif wanted is None and issubclass(kind, (int, float)) and a.dtype.kind in "iuO":
        wanted = _of_integers(a, op)
        warnings.warn(
            "integers become an int32 tensor, where they became float32 before: give a dtype to "
            "say which is meant", FutureWarning, stacklevel=stacklevel(),
        )  # fmt: skip
    if wanted is None and a.dtype == np.float64:
        wanted = DTYPES["float32"]
    if wanted is None and a.dtype == np.complex128:
        wanted = DTYPES["complex64"]
    if wanted is None or a.dtype.name == "bfloat16":
        return a, dtype_of(a.dtype, f"[{op}] array dtype")
    if a.dtype.kind not in ("biufc" if wanted.kind == "c" else "biuf"):
        raise DTypeError(f"[{op}] an array of {a.dtype} cannot be converted to {wanted.name}")
    near = DTYPES["float32"] if wanted.name == "bfloat16" else wanted
    return a.astype(near.name, copy=False), near


def _of_integers(a: NDArray, op: str) -> DType:
    """The dtype of a list of integers; ArgumentError if it does not hold them."""
    if a.dtype.kind == "O" or (a.size and not (a.min() >= -(1 << 31) and a.max() < 1 << 31)):
        raise ArgumentError(
            f"[{op}] integers become int32, which does not hold all of these: give dtype='int64' "
            "or 'float32'"
        )
    return DTYPES["int32"]


def stacklevel() -> int:
    """The stack level of the first frame outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("pykernels."):
        frame, level = frame.f_back, level + 1
    return level


def _first_type(values: Any) -> type:
    """The type of a Python number, or of the first number in nested lists; `numpy.integer` for a
    range; else `object`. `numpy.integer` avoids a warning that integers became float32 before,
    because ranges never did."""
    listed = isinstance(values, (list, tuple))
    while isinstance(values, (list, tuple)) and values:
        values = values[0]
    if isinstance(values, range):
        return np.integer
    kind = type(values)
    return kind if listed or not issubclass(kind, np.generic) else object


def is_torch(values: Any) -> bool:
    """True for a tensor of torch. Imports nothing: a caller who has such a tensor has imported
    torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, getattr(torch, "Tensor", ()))


def _of_torch(t: Any, op: str) -> tuple[NDArray, bool]:
    """The array of a torch tensor, and True if it has the words of bfloat16."""
    if t.device.type != "cpu":
        raise ArgumentError(f"[{op}] the torch.Tensor is on {t.device}: move it with .cpu() first")
    torch, t = sys.modules["torch"], t.detach()
    if t.dtype != torch.bfloat16:
        return t, False
    return t.contiguous().view(torch.int16).numpy(), True


def bytes_of(a: NDArray) -> memoryview:
    """The memory of a contiguous array."""
    if a.dtype.kind == "V" or not a.size:  # memoryview cannot cast bfloat16 or an empty array
        return np.asarray(a).reshape(-1).view(np.uint8).data
    return a.data.cast("B")


def packed_of(data: Any, count: int, what: str) -> NDArray:
    """The `count` bytes of an object with a buffer, or of an array of uint8; errors call the object
    `what`."""
    try:
        raw: NDArray = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
    except (TypeError, ValueError, BufferError):
        raise DTypeError(f"[from_bytes] data must be bytes but is {type_name(data)}") from None
    if raw.dtype != np.uint8:
        raise DTypeError(f"[from_bytes] data must be bytes or uint8 but is {raw.dtype}")
    if raw.size != count:
        raise ShapeError(f"[from_bytes] {what} has {count} bytes but data has {raw.size}")
    return raw
