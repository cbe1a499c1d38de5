"""Weights of GGUF files. The package `gguf` reads them: pip install gguf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from .device import Device, Tensor, device_of
from .dtypes import DTYPES
from .errors import ArgumentError
from .lazy import load as _load
from .plans.quant.types import TYPES
from .tensors.layout import contiguous_layout
from .tensors.quantised import QTensor

__all__ = ["File", "load"]

# Plain types by ggml's names.
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
        if kind.lower() in TYPES:
            return QTensor.from_gguf(entry, self._device)
        if kind not in _PLAIN:
            raise ArgumentError(
                f"[gguf] {name} is {kind}, which is none of {', '.join(TYPES)} and no plain type"
            )
        dtype = DTYPES[_PLAIN[kind]]
        shape = tuple([int(n) for n in reversed(entry.shape)])
        words = np.ascontiguousarray(entry.data).reshape(-1)
        if dtype.name != "bfloat16":
            return device_of(self._device).tensor(words.reshape(shape))
        halves = device_of(self._device).tensor(words.view(np.uint16).reshape(shape))
        return halves._with(contiguous_layout(shape, dtype))

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # Mapping's own method would copy the tensor

    def __eq__(self, other: object) -> bool:
        return self is other  # Mapping's own method would compare weights

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"gguf.File({len(self)} tensors, {len(self._fields)} fields)"

    def type(self, name: str) -> str:
        """The type of a tensor, such as "q4_k" or "f32", without reading it."""
        found: str = self._entries[name].tensor_type.name.lower()
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, as numpy writes it, without reading it."""
        return tuple([int(n) for n in reversed(self._entries[name].shape)])

    @property
    def metadata(self) -> dict[str, Any]:
        """The fields of the file: numbers, texts and lists of them."""
        return {name: field.contents() for name, field in self._fields.items()}


def load(path: str | PathLike[str], device: Device | None = None) -> File:
    """Open a GGUF file.

    Args:
        path: the file.
        device: where its tensors go; None is the default device.

    Raises:
        ImportError: the package `gguf` is not installed.
        ArgumentError: the file is no GGUF file.
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
        return package.GGUFReader(path)
    except (ValueError, IndexError, KeyError) as e:
        raise ArgumentError(f"[gguf] {path} is no GGUF file that can be read: {e}") from None
