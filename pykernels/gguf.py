"""Weights of GGUF files. The package `gguf` reads the files: pip install gguf."""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from .device import Device, Tensor, device_of
from .dtypes import DTYPES
from .errors import ArgumentError
from .lazy import load as _load
from .plans.quant.raw_types import RAW
from .plans.quant.types import TYPES
from .tensors.layout import contiguous_layout
from .tensors.quantised import QTensor

__all__ = ["File", "load"]

# The plain types, by ggml's names.
_PLAIN = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64",
}  # fmt: skip


class File(Mapping[str, "QTensor | Tensor"]):
    """The weights of a GGUF file by name, and its metadata.

    The file is mapped, not read: `file[name]` copies one tensor to the device, again at each call.
    `dict(file)` copies all of them.
    """

    def __init__(self, path: str | PathLike[str], device: Device | None = None) -> None:
        reader = _reader(path)
        self._device = device
        self._entries = {t.name: t for t in reader.tensors}
        self._fields = reader.fields

    def __getitem__(self, name: str) -> QTensor | Tensor:
        entry = self._entries[name]
        kind = entry.tensor_type.name
        if kind.lower() in TYPES or kind.lower() in RAW:
            return QTensor.from_gguf(entry, self._device)
        if kind not in _PLAIN:
            known = ", ".join([*TYPES, *RAW])
            raise ArgumentError(
                f"[gguf] {name} is {kind}, which is none of {known} and no plain type"
            )
        dtype = DTYPES[_PLAIN[kind]]
        shape = tuple([int(n) for n in reversed(entry.shape)])
        words = np.ascontiguousarray(entry.data).reshape(-1)
        if dtype.name != "bfloat16":
            return device_of(self._device).tensor(words.reshape(shape))
        halves = device_of(self._device).tensor(words.view(np.uint16).reshape(shape))
        return halves._with(contiguous_layout(shape, dtype))

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # overrides Mapping's method, which would copy the tensor

    def __eq__(self, other: object) -> bool:
        return self is other  # overrides Mapping's method, which would compare weights

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"gguf.File({len(self)} tensors, {len(self._fields)} fields)"

    def type(self, name: str) -> str:
        """The type of a tensor, such as "q4_k" or "f32"; the tensor is not read."""
        found: str = self._entries[name].tensor_type.name.lower()
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, as numpy writes shapes; the tensor is not read."""
        return tuple([int(n) for n in reversed(self._entries[name].shape)])

    @property
    def metadata(self) -> dict[str, Any]:
        """The fields of the file: numbers, texts and lists of them.

        Raises ArgumentError for a field that cannot be read.
        """
        found = {}
        for name, field in self._fields.items():
            try:
                found[name] = field.contents()
            except (ValueError, IndexError, TypeError) as e:
                raise ArgumentError(f"[gguf] the field {name} cannot be read: {e}") from None
        return found


def load(path: str | PathLike[str], device: Device | None = None) -> File:
    """Open a GGUF file.

    Args:
        path: the file.
        device: the device for the tensors; None is the default device.

    Raises:
        ImportError: the package `gguf` is not installed.
        ArgumentError: the file is not a GGUF file.
        OSError: the file cannot be read.
    """
    return File(path, device)


def _reader(path: str | PathLike[str]) -> Any:
    try:
        package = _load("gguf")
    except ModuleNotFoundError as e:
        if e.name != "gguf":
            raise
        raise ImportError(
            "[gguf] GGUF files are read with the package gguf: pip install gguf"
        ) from None
    try:
        _check_header(path)
        return package.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OverflowError, struct.error) as e:
        raise ArgumentError(f"[gguf] {path} is no GGUF file that can be read: {e}") from None


def _check_header(path: str | PathLike[str]) -> None:
    """Raise ValueError if a count or a length in the header leads out of the file.

    The package `gguf` trusts these numbers: if one bit is wrong, it may loop over entries that do
    not exist.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        # The version is a small number: if the first two of its four bytes are 0, the file is
        # big-endian.
        header = _Header(data, "<" if data[4] or data[5] else ">")
        header.take("I")
        tensors, fields = header.count(4 + 8 + 8 + 4), header.count(8 + 4)
        for _ in range(fields):
            header.text()
            header.value(header.take("I"))
        for _ in range(tensors):
            header.text()
            elements = math.prod([header.take("Q") for _ in range(header.axes())])
            header.skip(4)
            # In every type, an element has at least one bit.
            if max(header.take("Q"), elements // 8) > len(data):
                raise ValueError(f"a tensor of {elements} elements exceeds its {len(data)} bytes")


class _Header:
    """Reads the header of a file, never past the end of the file."""

    # Bytes of each type of values, by its number; texts (8) and lists (9) have no fixed size.
    SIZES: ClassVar = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, data: mmap.mmap, order: str) -> None:
        self._data, self._order, self._at = data, order, 4

    def skip(self, nbytes: int) -> None:
        self._at += nbytes
        if self._at > len(self._data):
            raise ValueError(f"its header has {self._at} bytes or more of {len(self._data)}")

    def take(self, kind: str) -> int:
        at = self._at
        self.skip(struct.calcsize(kind))
        found: int = struct.unpack_from(self._order + kind, self._data, at)[0]
        return found

    def count(self, least: int) -> int:
        """Read a count of items, and check it: each item has at least `least` bytes, and all items
        must be in the file."""
        found = self.take("Q")
        if found * least > len(self._data) - self._at:
            raise ValueError(f"its {len(self._data)} bytes are too few for {found} entries")
        return found

    def axes(self) -> int:
        """The number of axes of a tensor."""
        found = self.take("I")
        if found > 8:
            raise ValueError(f"a tensor has {found} axes")
        return found

    def text(self) -> None:
        self.skip(self.count(1))

    def value(self, kind: int, depth: int = 0) -> None:
        if kind in self.SIZES:
            self.skip(self.SIZES[kind])
        elif kind == 8:
            self.text()
        elif kind == 9 and depth < 4:
            inner = self.take("I")
            n = self.count(self.SIZES.get(inner, 8))
            if inner in self.SIZES:
                self.skip(n * self.SIZES[inner])
            else:
                for _ in range(n):
                    self.value(inner, depth + 1)
        else:
            raise ValueError(f"a field has the unknown type {kind}")
