"""What the functions of convolutions share: images with and without an axis N, sizes and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from pykernels.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.host import shape_of
from pykernels.plan import Kernel
from pykernels.plans.conv.geometry import LAYOUTS
from pykernels.scalars import integers

from ._products import spread

__all__ = ["ImageCall", "Layout", "Padding", "Pair", "numbers", "single"]

Layout: TypeAlias = Literal["NCHW", "NHWC"]
Pair: TypeAlias = int | Sequence[int]
Padding: TypeAlias = Pair | Literal["same", "valid"]
_COUNTS = {3: "three", 4: "four"}


def numbers(op: str, name: str, value: Any) -> Any:
    """torch's forms of a pair: an integer, or a sequence of one or two (of padding, four)."""
    if type(value) is int:
        return value
    if isinstance(value, list | tuple):
        value = value[0] if len(value) == 1 else tuple(value)
    return integers(op, name, value)


def single(op: str, name: str, value: Any) -> Any:
    """What is one integer for a signal, also as a sequence of one."""
    found = numbers(op, name, value)
    if isinstance(found, tuple):
        raise ArgumentError(f"[{op}] {name} must be one integer but is {value!r}")
    return found


class ImageCall(Call):
    """The tensors of one call: images with their axis N, weights, and the result that fits them."""

    __slots__ = ("_layout", "_single", "op")

    def __init__(
        self, kernel: Kernel, layout: str, *arrays: Array | None, out: Tensor | None
    ) -> None:
        self.op = kernel.name
        if layout not in LAYOUTS:
            raise ArgumentError(f"[{self.op}] layout must be 'NCHW' or 'NHWC' but is {layout!r}")
        super().__init__(kernel, *arrays, out=out)
        self._layout = layout
        self._single: bool | None = None  # is there no axis N?

    def images(self, name: str, array: Array) -> Tensor:
        """An argument with the axis N, which the caller may have left out of all of them."""
        t = self.tensor(name, array)
        if t.ndim not in (3, 4):
            axes = ", ".join(self._layout)
            raise ShapeError(
                f"[{self.op}] {name} must have the axes ({axes}), the first may be missing, but "
                f"has shape {t.shape}"
            )
        single = t.ndim == 3
        if self._single not in (None, single):
            raise ShapeError(
                f"[{self.op}] dy and x must both have the axis N, or neither, but {name} has shape "
                f"{t.shape}"
            )
        self._single = single
        return t[None] if single else t

    def weights(self, name: str, array: Array) -> Tensor:
        """An argument of four axes."""
        t = self.tensor(name, array)
        if t.ndim != 4:
            raise ShapeError(f"[{self.op}] {name} must have four axes but has shape {t.shape}")
        return t

    def image(self, t: Tensor) -> tuple[int, int]:
        """Rows and columns."""
        first = self._layout.index("H")
        return t.shape[first], t.shape[first + 1]

    def size(self, name: str, value: object, axes: int) -> tuple[int, ...]:
        """The shape of what a gradient is of, of so many axes; N may be missing as in images."""
        axes -= name == "input_size" and self._single is True
        try:
            found = shape_of(value)
        except ShapeError:
            found = ()
        if len(found) != axes:
            raise ShapeError(
                f"[{self.op}] {name} must be {_COUNTS[axes]} sizes from 0 up but is {value!r}"
            )
        return found

    def result(self, shape: tuple[int, ...], *inputs: Tensor) -> Tensor:
        """The tensor to write to: float16 if all inputs are, else float32, or that of `out`."""
        halves = all(t.dtype == "float16" for t in inputs)
        dtype: DTypeName = "float16" if halves else "float32"
        if self._out is not None:
            dtype = self._out.dtype
            if dtype not in ("float32", "float16"):
                raise DTypeError(f"[{self.op}] out must be float32 or float16 but is {dtype}")
        return self.out(shape, dtype)

    def result_images(
        self, channels: int, size: tuple[int, int], *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same for images, one for each of the first input; and with its axis N."""
        shape = (channels, *size) if self._layout == "NCHW" else (*size, channels)
        if self._single:
            result = self.result(shape, *inputs)
            return result, result[None]
        result = self.result((inputs[0].shape[0], *shape), *inputs)
        return result, result

    def spread(self, name: str, t: Tensor | None, result: Tensor) -> Tensor | None:
        """What is added, over the result with its axis N."""
        full = spread(self.op, name, t, result.shape, True, True)
        return full[None] if full is not None and self._single else full
