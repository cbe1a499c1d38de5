"""QTensor: quantised weights on a device."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import FLOATS, DTypeLike, dtype_of
from pykernels.errors import DTypeError, ShapeError
from pykernels.lazy import load
from pykernels.plans.quant.raw_types import RAW, RawName
from pykernels.plans.quant.types import BlockType, QuantName, planes, type_of
from pykernels.runtime.launch import run

from .host import packed_of, shape_of, type_name
from .nbits import blocks_of
from .operators import function

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykernels.steps import Kernel

__all__ = ["QTensor", "Transposed"]

NDArray = np.ndarray[Any, np.dtype[Any]]


class QTensor:
    """Quantised weights on a device, in blocks along the last axis.

    `pk.quantize` makes a QTensor from numbers, `QTensor.from_bytes` from the bytes of a file,
    `QTensor.from_nbits` from arrays in ONNX's form, `QTensor.from_float8` from float8 numbers and
    their scales, and `pk.gguf.load` from a GGUF file. Types of the families IQ1, IQ2, IQ3 and TQ,
    nvfp4 and float8_e4m3 are only dequantised and looked up; all other functions refuse them. For
    all other types, the device stores the numbers in its own order (planes), which products read
    fast; `tobytes` returns the bytes of the file again. Only caches are modified: `rope_append`,
    `set_rows` and `copyto` write rows of q8_0 and q4_0.
    """

    __slots__ = ("_kind", "_shape", "high", "low", "scales")

    _kind: BlockType
    _shape: tuple[int, ...]
    low: Tensor
    scales: Tensor
    high: Tensor | None

    def __init__(self, *args: Any, **named: Any) -> None:
        raise TypeError(
            "quantised tensors are made by pk.quantize(x, type), QTensor.from_bytes and "
            "pk.gguf.load(path)"
        )

    @classmethod
    def empty(cls, kind: BlockType, shape: tuple[int, ...], device: Device) -> QTensor:
        """A QTensor whose planes are not written yet, for functions that write them."""
        made = object.__new__(cls)
        low, scales, high = planes("QTensor", kind, shape)
        made._kind, made._shape = kind, shape
        made.low = device.empty(low, "uint32")
        made.scales = device.empty(scales, "uint32")
        made.high = None if high is None else device.empty(high, "uint32")
        return made

    @classmethod
    def _of_planes(
        cls, kind: BlockType, shape: tuple[int, ...], planes: Sequence[Tensor]
    ) -> QTensor:
        """A QTensor of existing planes: low, scales, and high if the type has this plane."""
        made = object.__new__(cls)
        made._kind, made._shape = kind, shape
        made.low, made.scales, *high = planes
        made.high = high[0] if high else None
        return made

    @classmethod
    def zeros(cls, shape: int | Sequence[int], type: str, device: Device | None = None) -> QTensor:
        """A tensor of zeros, such as a cache of keys and values.

        Args:
            shape: sizes of the axes, (..., rows, numbers of a row).
            type: the name of the type, such as "q8_0".
            device: None is the default device.

        Raises:
            ArgumentError: no such type.
            ShapeError: a row is not a whole number of blocks.
        """
        made = cls.empty(type_of("zeros", type), shape_of(shape), device_of(device))
        for plane in (made.low, made.scales, made.high):
            if plane is not None:
                plane[...] = 0
        return made

    @classmethod
    def from_bytes(
        cls,
        data: Any,
        shape: int | Sequence[int],
        type: str,
        device: Device | None = None,
    ) -> QTensor:
        """The tensor from the blocks of a file.

        Args:
            data: bytes, or an object with a buffer of bytes, such as a numpy array of uint8; rows
                one after the other, each in whole blocks.
            shape: sizes of the axes, counted in numbers: (..., rows, numbers of a row).
            type: the name of the type, such as "q4_k".
            device: None is the default device.

        Raises:
            ArgumentError: no such type.
            ShapeError: a row is not a whole number of blocks, or the number of bytes does not fit
                the shape.
            DTypeError: data does not consist of bytes.
            ImportError: a type of the families IQ1, IQ2 or IQ3 needs the package `gguf`, which is
                not installed.
        """
        dims = shape_of(shape)
        if isinstance(type, str) and type.lower() in RAW:
            held: QTensor = _raw("made", RAW[type.lower()], dims, data, device)
            return held
        kind = type_of("from_bytes", type)
        planes("from_bytes", kind, dims)
        raw = packed_of(data, _nbytes(kind, dims), f"{kind.name} {dims}")
        self = cls.empty(kind, dims, device_of(device))
        rows = self.low.shape[0], dims[-2], dims[-1] // kind.block * kind.nbytes
        words = self.device.tensor(raw.reshape(rows))
        run(_kernel("pack_blocks"), (words, self.scales, self.high, self.low), (), (kind.name,))
        return self

    @classmethod
    def from_float8(cls, data: NDArray, scales: NDArray, device: Device | None = None) -> QTensor:
        """A QTensor of the type float8_e4m3 with the numbers data * scale, from the arrays of
        DeepSeek's checkpoints.

        A block is a float32 scale followed by the 128 numbers of one row that it scales, one byte
        each. The last block of a row is filled up with zeros.

        Args:
            data: uint8 or `ml_dtypes.float8_e4m3fn`, (n, k).
            scales: float32 (ceil(n / 128), ceil(k / 128)), one for each 128 x 128 numbers. A scale
                below 2^-126 may count as 0.
            device: None is the default device.

        Raises:
            ShapeError: other shapes.
            DTypeError: an array has another dtype, or is not a numpy array.
        """
        shape, blocks = _raw("float8_blocks", data, scales)
        return cls.from_bytes(blocks, shape, "float8_e4m3", device)

    @classmethod
    def from_gguf(cls, tensor: Any, device: Device | None = None) -> QTensor:
        """The tensor of an entry of `gguf.GGUFReader(path).tensors`.

        Raises:
            ArgumentError: the entry has a type that no QTensor has; `pk.gguf.load` also reads plain
                types.
            DTypeError: the argument is not an entry of a GGUFReader.
        """
        try:
            shape, kind = tuple([int(n) for n in reversed(tensor.shape)]), tensor.tensor_type.name
            data = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
        except (AttributeError, TypeError):
            raise DTypeError(
                f"[from_gguf] tensor must be an entry of a GGUFReader but is {type_name(tensor)}"
            ) from None
        return cls.from_bytes(data, shape, kind, device)

    @classmethod
    def from_nbits(
        cls,
        data: Any,
        scales: NDArray,
        zero_points: NDArray | None = None,
        *,
        shape: Sequence[int],
        bits: int = 4,
        block: int = 32,
        device: Device | None = None,
    ) -> QTensor:
        """The tensor with the numbers (q - zero point) * scale of ONNX's MatMulNBits.

        The type is the type with the fewest bytes that holds these numbers exactly. It is q4_0 or
        q8_0 if there are no zero points and float16 holds all scales. It is nbits4 or nbits8 if the
        zero points are bytes. Otherwise it is nbits4_16 or nbits8_16, with a float32 scale and a
        float32 zero point for each 16 numbers.

        Args:
            data: uint8 (n, blocks, block * bits / 8), or bytes or a uint8 array of another shape
                with the same number of bytes. Of two numbers of 4 bits, the first is in the lower
                half of the byte.
            scales: float32 or float16 (n, blocks), or any shape with the same number of elements.
            zero_points: uint8 (n, bytes), packed as the numbers are, each row in whole bytes; or
                float32 or float16 (n, blocks); None is 2^(bits - 1).
            shape: (n, k), k a multiple of 32. The last block of a row may have more numbers, which
                are left out.
            bits: 4 or 8.
            block: numbers with one scale, a power of two from 16 on.
            device: None is the default device.

        Raises:
            ArgumentError: bits or block has another value.
            ShapeError: k is not a multiple of 32, or an array has the wrong number of elements.
            DTypeError: an array has another dtype.
        """
        dims = shape_of(shape)
        found = blocks_of(data, scales, zero_points, dims, bits, block)
        return cls.from_bytes(found.rows, dims, found.type, device)

    @property
    def type(self) -> QuantName | RawName:
        """The name of the type."""
        return self._kind.name

    @property
    def dtype(self) -> QuantName | RawName:
        """The same as `type`."""
        return self._kind.name

    @property
    def kind(self) -> BlockType:
        """The facts of the type."""
        return self._kind

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for n in self._shape:
            count *= n
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, as in a file."""
        return _nbytes(self._kind, self._shape)

    @property
    def device(self) -> Device:
        """The device that the tensor lives on."""
        return self.low.device

    @property
    def T(self) -> Transposed:
        """The transpose of a matrix, for `matmul(x, q.T)`."""
        return Transposed(self)

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, index: Any) -> QTensor:
        """A view of some matrices: an index of the axes before the last two, such as heads of a
        cache. New axes (None) may come before them.

        Raises:
            IndexError: an index of the last two axes, or matrices that do not lie one after the
                other.
        """
        lead = self._shape[:-2]
        places = np.arange(math.prod(lead)).reshape(lead)
        given = index if isinstance(index, tuple) else (index,)
        if sum(i is not None for i in given) - (Ellipsis in given) > len(lead):
            raise IndexError(
                f"a QTensor of shape {self._shape} has views along its first {len(lead)} axes only"
            )
        found = places[index]
        first = int(found.flat[0]) if found.size else 0
        if (found.reshape(-1) != np.arange(first, first + found.size)).any():
            raise IndexError("matrices of a QTensor's view must lie one after the other")
        return self._part((*found.shape, *self._shape[-2:]), first, found.size)

    def _part(self, shape: tuple[int, ...], first: int, count: int) -> QTensor:
        """The tensor of some matrices, one after the other."""
        part = slice(first, first + count)
        made = object.__new__(QTensor)
        made._kind, made._shape = self._kind, shape
        made.low, made.scales = self.low[part], self.scales[part]
        made.high = None if self.high is None else self.high[part]
        return made

    def __repr__(self) -> str:
        return f"QTensor({self.type}, shape={self._shape}, {self.nbytes} bytes)"

    def dequantize(self, dtype: DTypeLike = "float32") -> Tensor:
        """The numbers as a Tensor, float32, float16 or bfloat16."""
        found = dtype_of(dtype, "[dequantize] dtype")
        if found.name not in FLOATS:
            told = "float32, float16 or bfloat16"
            raise DTypeError(f"[dequantize] dtype must be {told} but is {found.name}")
        result: Tensor = self.device.empty(self._shape, found.name)
        self.dequantize_to(result)
        return result

    def dequantize_to(self, out: Tensor) -> None:
        """Write the numbers to a Tensor of the same shape."""
        run(_kernel("dequantize"), (self.low, self.scales, self.high, out), (), (self.type,))

    def rows(
        self, index: Tensor | NDArray, *, check: bool = True, out: Tensor | None = None
    ) -> Tensor:
        """The rows of a matrix that an index names, dequantised: result[..., :] is row index[...].

        Args:
            index: Tensor or numpy array of any shape, int32 or int64; negative indices do not count
                from the end.
            check: False leaves rows whose index is out of range unchanged, without an error.
            out: the Tensor (*index.shape, K) to write to, float32, float16 or bfloat16; None makes
            a float32
                Tensor.

        Raises:
            IndexRangeError: at the next synchronisation, for an index out of range.
            ShapeError: more than two axes; another shape of out.
            DTypeError: another dtype.
        """
        if self.ndim != 2:
            raise ShapeError(f"[rows] weights must have two axes but have shape {self._shape}")
        if not isinstance(index, (Tensor, np.ndarray)):
            raise DTypeError(
                f"[rows] index must be a pykernels.Tensor or a numpy array but is "
                f"{type_name(index)}"
            )
        places = index if isinstance(index, Tensor) else self.device.tensor(index)
        shape = (*places.shape, self._shape[1])
        if out is None:
            out = self.device.empty(shape, "float32")
        elif not isinstance(out, Tensor):
            raise DTypeError(f"[rows] out must be a pykernels.Tensor but is {type_name(out)}")
        elif out.shape != shape:
            raise ShapeError(f"[rows] out must have shape {shape} but has {out.shape}")
        self._rows_to(places, out, check)
        return out

    def _rows_to(self, places: Tensor, out: Tensor, check: bool) -> None:
        options = (self.type, self._shape[0], check)
        run(_kernel("quantised_rows"), (self.low, self.scales, self.high, places, out), (), options)

    def take_part(
        self, op: str, arrays: Sequence[Any], options: Mapping[str, Any], out: Tensor | None
    ) -> Tensor:
        """The result of a declared function that has this tensor as an argument.

        Raises:
            DTypeError: the function takes no quantised weights there.
        """
        if op in ("get_rows", "embedding") and arrays[0] is self:
            found: Tensor = self.rows(arrays[1], check=options["check"], out=out)
            return found
        raise DTypeError(
            f"[{op}] it takes no quantised weights there: pk.dequantize(x) gives their numbers"
        )

    def numpy(self) -> NDArray:
        """The numbers, dequantised, as float32."""
        found: NDArray = self.dequantize().numpy()
        return found

    def tobytes(self) -> bytes:
        """The bytes of the blocks, as in a file."""
        kind = self._kind
        rows = self.low.shape[0], self._shape[-2], self._shape[-1] // kind.block * kind.nbytes
        blocks = self.device.empty(rows, "uint8")
        run(_kernel("unpack_blocks"), (self.low, self.scales, self.high, blocks), (), (kind.name,))
        found: bytes = blocks.numpy().tobytes()
        return found


@dataclass(frozen=True)
class Transposed:
    """The transpose of quantised weights, as an operand of a product and nothing else."""

    of: QTensor
    __array_ufunc__ = None  # numpy leaves `array @ q.T` to this class

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.of.shape[::-1]

    def __rmatmul__(self, x: Any) -> Any:
        """x @ q.T, as `matmul`."""
        return function("matmul")(x, self)


def _kernel(name: str) -> Kernel:
    """Import a kernel when it is needed, because a build of other kernels imports this module,
    too."""
    found: Kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    return found


def _raw(name: str, *args: Any) -> Any:
    """Call a function of the module of types that are only dequantised, which imports this one."""
    return getattr(load("pykernels.tensors.raw_quantised"), name)(*args)


def _nbytes(kind: BlockType, shape: tuple[int, ...]) -> int:
    count = kind.nbytes
    for n in shape:
        count *= n
    return count // kind.block
