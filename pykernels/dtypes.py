"""The dtypes of tensors: numpy's names outside, WGSL-style short names inside kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from . import contract
from .errors import DTypeError

__all__ = ["DTYPES", "FLOATS", "NAMES", "DType", "DTypeLike", "DTypeName", "completes", "dtype_of"]

DTypeName: TypeAlias = Literal[
    "float32",
    "float16",
    "bfloat16",
    "int32",
    "uint32",
    "int16",
    "uint16",
    "int8",
    "uint8",
    "int64",
    "bool",
    "complex64",
]
DTypeSpelling: TypeAlias = Literal[
    "f32", "f16", "bf16", "c64", "i32", "u32", "i16", "u16",
    "f4", "f2", "i4", "u4", "i2", "u2", "i1", "u1",
]  # fmt: skip
Getter = TypeVar("Getter", bound=Callable[..., str])
DTypeLike: TypeAlias = "DTypeName | DTypeSpelling | np.dtype[Any] | type[np.generic]"


def completes(getter: Getter) -> Getter:
    """Annotates a property whose type is a Literal as str instead, because jedi, which completes
    names in IPython, reads the types of properties and fails on a Literal."""
    getter.__annotations__["return"] = "str"
    return getter


class DType(NamedTuple):
    """One dtype: its public name, the name kernels use, its size in bytes and its kind."""

    name: DTypeName
    short: str
    itemsize: int
    kind: Literal["f", "i", "u", "b", "c"]


DTYPES: dict[str, DType] = {
    name: DType(cast(DTypeName, name), short, itemsize, cast(Any, kind))
    for name, short, itemsize, kind, _ in contract.DTYPES
}


FLOATS: tuple[DTypeName, ...] = cast(Any, contract.FLOATS)


class _Name(str):
    """A dtype's name, as `Tensor.dtype` returns it. It also equals numpy's dtype of that name, and
    numpy's scalar type."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type) and issubclass(other, (np.generic, bool)):
            other = np.dtype(other)
        if isinstance(other, np.dtype):
            return other.isnative and str.__eq__(self, other.name)
        return isinstance(other, str) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


NAMES: dict[DTypeName, DTypeName] = {
    d.name: cast("DTypeName", _Name(d.name)) for d in DTYPES.values()
}

# The short names that are accepted besides the full names: WGSL's and numpy's. In both, i8 and u8
# exist, but with different meanings.
_SHORT: dict[str, DTypeName] = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "c64": "complex64",
    "i32": "int32", "u32": "uint32", "i16": "int16", "u16": "uint16",
    "f4": "float32", "f2": "float16",
    "i4": "int32", "u4": "uint32", "i2": "int16", "u2": "uint16", "i1": "int8", "u1": "uint8",
}  # fmt: skip
_TWO_READINGS = {"i8": ("int64", "int8"), "u8": ("uint64", "uint8")}


@functools.lru_cache(maxsize=256)
def _from_numpy(dtype: np.dtype[Any]) -> DType | None:
    return DTYPES.get(dtype.name) if dtype.isnative else None


def dtype_of(value: Any, what: str = "dtype") -> DType:
    """The :class:`DType` of a name or numpy dtype; DTypeError for anything else.

    Names are numpy's full names, and the short names of WGSL and numpy. The names i8 and u8 are not
    allowed, because they mean eight bits in WGSL and eight bytes in numpy.
    """
    if isinstance(value, str):
        found = DTYPES.get(_SHORT.get(value, value))
        if found is None and value in _TWO_READINGS:
            numpys, wgsls = _TWO_READINGS[value]
            raise DTypeError(
                f"{what} {value!r} is {numpys} in numpy and {wgsls} in WGSL: write the full name"
            )
        if found is None:
            raise DTypeError(f"{what} must be one of {', '.join(DTYPES)} but is {value!r}")
        return found
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError):  # numpy's dtype of an object with an attribute `dtype`
        # an integer, as in zeros(2, 3), which torch accepts
        size = isinstance(value, (int, np.integer))
        hint = ": a shape is one argument, as in zeros((2, 3))" if size else ""
        raise DTypeError(
            f"{what} must be a dtype name or a numpy dtype but is {value!r}{hint}"
        ) from None
    found = _from_numpy(dtype)
    if found is None:
        hint = ""
        if what.endswith("array dtype") and dtype.name == "float64":
            given = "give dtype='float32', or " if what.startswith("[") else ""  # accepts dtype=
            hint = f"; {given}convert it with .astype('float32') first"
        if what.endswith("array dtype") and dtype.name == "complex128":
            hint = "; convert it with .astype('complex64') first"
        if not dtype.isnative:
            hint = "; byte-swapped arrays are not taken: .astype(dtype.newbyteorder('=')) first"
        raise DTypeError(f"{what} {dtype} is not one of {', '.join(DTYPES)}{hint}")
    return found


@functools.lru_cache(maxsize=32)
def numpy_dtype(name: DTypeName) -> np.dtype[Any]:
    """The numpy dtype of a name; bfloat16 needs the package ml_dtypes."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise DTypeError(
                "a bfloat16 tensor becomes a numpy array only with the package ml_dtypes "
                "(pip install ml_dtypes); or convert it with .astype('float32') first"
            ) from None
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(name)
