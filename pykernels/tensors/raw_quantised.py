"""Quantised weights of types that are only dequantised."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pykernels._generated.kernels.raw_rows import KERNEL
from pykernels.device import Device, Tensor, device_of
from pykernels.errors import DTypeError, ShapeError
from pykernels.lazy import load
from pykernels.plans.quant.raw_types import RawName, RawType, row_bytes
from pykernels.runtime.launch import run

from .host import packed_of, type_name
from .quantised import QTensor

__all__ = ["RawQTensor", "entries", "float8_blocks", "made"]

NDArray = np.ndarray[Any, np.dtype[Any]]
EDGE = 128  # a float8 scale belongs to a square of numbers: this many rows and columns

_tables: WeakKeyDictionary[Device, dict[str, Tensor]] = WeakKeyDictionary()


class RawQTensor(QTensor):
    """A QTensor that holds the bytes of a file; it has no planes, so products refuse it."""

    __slots__ = ("_data", "_places", "_raw", "_table")

    _raw: RawType
    _data: Tensor  # uint8 (rows of all matrices, bytes of a row)
    _places: Tensor  # int32 (rows of all matrices,): 0, 1, 2, ...
    _table: Tensor | None

    def __getattr__(self, name: str) -> Any:
        """Called for missing attributes, such as planes, which functions for other types read."""
        if name in ("low", "scales", "high", "_kind"):
            raise DTypeError(
                f"[QTensor] {self.type} weights are only dequantised: pk.dequantize(q) gives their "
                f"numbers"
            )
        raise AttributeError(f"'QTensor' object has no attribute {name!r}")

    @property
    def type(self) -> RawName:
        """The name of the type."""
        return self._raw.name

    @property
    def dtype(self) -> RawName:
        """The same as `type`."""
        return self._raw.name

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, as in a file."""
        return self._data.nbytes

    @property
    def device(self) -> Device:
        """The device that the tensor lives on."""
        return self._data.device

    def dequantize_to(self, out: Tensor) -> None:
        """Write the numbers to a Tensor of the same shape."""
        self._rows_to(self._places.reshape(self._shape[:-1]), out, False)

    def tobytes(self) -> bytes:
        """The bytes of the blocks, as in a file."""
        found: bytes = self._data.numpy().tobytes()
        return found

    def _rows_to(self, places: Tensor, out: Tensor, check: bool) -> None:
        run(KERNEL, (self._data, self._table, places, out), (), (self.type, check))

    def _part(self, shape: tuple[int, ...], first: int, count: int) -> QTensor:
        rows = self._shape[-2]
        part = slice(first * rows, (first + count) * rows)
        return _of(self._raw, shape, self._data[part], self._places[: count * rows], self._table)


def made(kind: RawType, shape: tuple[int, ...], data: Any, device: Device | None) -> RawQTensor:
    """A QTensor of the blocks of a file; see `QTensor.from_bytes`."""
    rows, count = row_bytes("from_bytes", kind, shape), math.prod(shape[:-1])
    raw = packed_of(data, rows * count, f"{kind.name} {shape}")
    device = device_of(device)
    table = _table_of(kind, device)
    blocks = device.tensor(np.ascontiguousarray(raw).reshape(count, rows))
    return _of(kind, shape, blocks, device.tensor(np.arange(count, dtype=np.int32)), table)


def _of(
    kind: RawType, shape: tuple[int, ...], data: Tensor, places: Tensor, table: Tensor | None
) -> RawQTensor:
    q = object.__new__(RawQTensor)
    q._raw, q._shape, q._data, q._places, q._table = kind, shape, data, places, table
    return q


def _table_of(kind: RawType, device: Device) -> Tensor | None:
    """The table of a type, stored once on each device."""
    if not kind.words:
        return None
    own = _tables.setdefault(device, {})
    if kind.name not in own:
        own[kind.name] = device.tensor(entries(kind))
    return own[kind.name]


def entries(kind: RawType) -> NDArray:
    """The table of a type as words, from the package gguf.

    Raises:
        ImportError: the package `gguf` is not installed.
    """
    try:
        found = getattr(load("gguf.quants"), kind.name.upper())
    except ModuleNotFoundError as e:
        if e.name is None or e.name.partition(".")[0] != "gguf":
            raise
        raise ImportError(
            f"[QTensor] the package gguf has the table of {kind.name}: pip install gguf"
        ) from None
    found.init_grid()
    numbers = np.ascontiguousarray(found.grid, np.float32).astype(np.int8).reshape(-1)
    return numbers.view(np.uint32)


def float8_blocks(data: Any, scales: Any) -> tuple[tuple[int, int], NDArray]:
    """The shape of float8 weights, and their blocks: each is a scale and 128 numbers of a row."""
    numbers, factors = _array("data", data), _array("scales", scales)
    if numbers.dtype.name == "float8_e4m3fn":
        numbers = numbers.view(np.uint8)
    if numbers.dtype != np.uint8:
        raise DTypeError(
            f"[from_float8] data must be uint8 or float8_e4m3fn but is {numbers.dtype}"
        )
    if factors.dtype != np.float32:
        raise DTypeError(f"[from_float8] scales must be float32 but is {factors.dtype}")
    if numbers.ndim != 2:
        raise ShapeError(f"[from_float8] data must be (n, k) but has shape {numbers.shape}")
    n, k = numbers.shape
    down, across = -(-n // EDGE), -(-k // EDGE)
    if factors.shape != (down, across):
        raise ShapeError(
            f"[from_float8] scales of data {(n, k)} must have shape {(down, across)} but has "
            f"shape {factors.shape}"
        )
    blocks = np.zeros((n, across, 4 + EDGE), np.uint8)
    own = np.repeat(np.ascontiguousarray(factors, "<f4"), EDGE, 0)[:n]
    blocks[..., :4] = own.view(np.uint8).reshape(n, across, 4)
    padded = np.zeros((n, across * EDGE), np.uint8)
    padded[:, :k] = numbers
    blocks[..., 4:] = padded.reshape(n, across, EDGE)
    return (n, k), blocks


def _array(name: str, value: Any) -> NDArray:
    if not isinstance(value, np.ndarray):
        raise DTypeError(f"[from_float8] {name} must be a numpy array but is {type_name(value)}")
    return value
