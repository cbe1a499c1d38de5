"""Shared code of the rules of pools and convolutions: images with and without the axis N, signals
as images of one row, and pairs of sizes."""

from __future__ import annotations

from typing import Any

from pykernels.call.arrays import Call
from pykernels.call.promotion import result_type
from pykernels.call.scalars import integers
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.tensors.host import shape_of

from .products import spread

__all__ = ["Images", "numbers", "shape", "single"]

_AXES = {1: "NCL", 2: "NCHW"}
_COUNTS = {2: "two", 3: "three", 4: "four"}


def numbers(op: str, name: str, value: Any) -> Any:
    """A pair in one of torch's forms: an integer, or a sequence of one or two integers (four for
    padding)."""
    if type(value) is int:
        return value
    if isinstance(value, list | tuple):
        value = value[0] if len(value) == 1 else tuple(value)
    return integers(op, name, value)


def single(op: str, name: str, value: Any) -> Any:
    """An argument for a signal, given as an integer or as a sequence of one integer."""
    found = numbers(op, name, value)
    if isinstance(found, tuple):
        raise ArgumentError(f"[{op}] {name} must be one integer but is {value!r}")
    return found


def shape(op: str, name: str, value: Any) -> tuple[int, ...]:
    """The sizes of a shape, as integers."""
    try:
        return shape_of(value)
    except ShapeError:
        raise ShapeError(f"[{op}] {name} must be sizes of 0 or more but is {value!r:.80}") from None


class Images:
    """The tensors of one call as images of four axes: the axis N may be missing, and signals
    (`axes` is 1) become images of one row."""

    def __init__(self, call: Call, axes: int, layout: str = "NCHW") -> None:
        self.call, self.op, self.axes = call, call.op, axes
        self.layout = layout if axes == 2 else _AXES[axes]
        self.single: bool | None = None  # True if the images have no axis N

    def of(self, name: str, t: Tensor) -> Tensor:
        """The argument as images of four axes."""
        if t.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(
                f"[{self.op}] {name} must have the axes ({', '.join(self.layout)}), the first may "
                f"be missing, but has shape {t.shape}"
            )
        single = t.ndim == self.axes + 1
        if self.single not in (None, single):
            raise ShapeError(
                f"[{self.op}] all images must have the axis N, or none, but {name} has shape "
                f"{t.shape}"
            )
        self.single = single
        return self.full(t)

    def full(self, t: Tensor) -> Tensor:
        """A view with the axis N; a signal becomes an image of one row."""
        t = t[None] if self.single else t
        return t[:, :, None] if self.axes == 1 else t

    def weights(self, name: str, t: Tensor) -> Tensor:
        """A weight with axes for output channels, input channels and taps, in the form for
        images."""
        if t.ndim != self.axes + 2:
            told = _COUNTS[self.axes + 2]
            raise ShapeError(f"[{self.op}] {name} must have {told} axes but has shape {t.shape}")
        return t[:, :, None] if self.axes == 1 else t

    def size(self, t: Tensor) -> tuple[int, int]:
        """The numbers of rows and columns of images."""
        first = self.layout.index("H") if self.axes == 2 else 2
        return t.shape[first], t.shape[first + 1]

    def of_size(self, channels: int, size: tuple[int, int], first: Tensor) -> tuple[int, ...]:
        """The shape, in the caller's form, of images with these channels and this size; there are
        as many as in `first`."""
        rows = size if self.axes == 2 else size[1:]
        image = (*rows, channels) if self.layout == "NHWC" else (channels, *rows)
        return image if self.single else (first.shape[0], *image)

    def checked_size(self, name: str, value: tuple[int, ...], may_miss: bool) -> tuple[int, ...]:
        """Check the shape of a gradient, and return it; the axis N may be missing, as in images."""
        axes = self.axes + 2 - (may_miss and self.single is True)
        if len(value) != axes:
            raise ShapeError(
                f"[{self.op}] {name} must be {_COUNTS[axes]} sizes of 0 or more but is {value!r}"
            )
        return value

    def spread(self, name: str, t: Tensor | None, result: Tensor) -> Tensor | None:
        """An addend, broadcast to the result and returned as images."""
        full = spread(self.op, name, t, result.shape, True, True)
        return None if full is None else self.full(full)

    def result(self, size: tuple[int, ...], *inputs: Tensor) -> Tensor:
        """The tensor to write to: `out`, or a new tensor with the common dtype of the inputs, or
        with float32 if they differ."""
        dtype = result_type([t.dtype for t in inputs])
        asked = self.call.asked_dtype
        if asked not in (None, *FLOATS):
            told = "float32, float16 or bfloat16"
            raise DTypeError(f"[{self.op}] out must be {told} but is {asked}")
        return self.call.out(size, asked or dtype)
