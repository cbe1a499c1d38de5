"""What the functions of pools share: images with and without the axis N, signals as images of one
row, and the sizes of results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pykernels import kernels
from pykernels.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, ShapeError
from pykernels.host import shape_of
from pykernels.plan import Kernel
from pykernels.plans.pool.windows import output_size, pair
from pykernels.runtime.observe import recording
from pykernels.scalars import flag

from ._images import numbers, single

__all__ = [
    "Pair", "PoolCall", "Windows", "adaptive", "adaptive_mean", "averaged", "gradient", "pooled",
    "windows",
]  # fmt: skip

Pair: TypeAlias = int | Sequence[int]
_AXES = {1: "(N, C, L)", 2: "(N, C, H, W)"}


class PoolCall(Call):
    """The arrays of one call, over `axes` axes of images."""

    __slots__ = ("_single", "axes", "op")

    def __init__(
        self, kernel: Kernel, op: str, axes: int, *arrays: Array | None, out: Tensor | None = None
    ) -> None:
        super().__init__(_named(kernel, op), *arrays, out=out)
        self.op, self.axes = op, axes
        self._single: bool | None = None  # is there no axis N?

    def images(self, name: str, array: Array) -> Tensor:
        """An argument as images (N, C, H, W)."""
        t = self.tensor(name, array)
        if t.ndim not in (self.axes + 1, self.axes + 2):
            raise ShapeError(
                f"[{self.op}] {name} must have the axes {_AXES[self.axes]}, the first may be "
                f"missing, but has shape {t.shape}"
            )
        single = t.ndim == self.axes + 1
        if self._single not in (None, single):
            raise ShapeError(
                f"[{self.op}] all arguments must have the axis N, or none, but {name} has shape "
                f"{t.shape}"
            )
        self._single = single
        t = t[None] if single else t
        return t[:, :, None] if self.axes == 1 else t

    def result(self, x: Tensor, size: tuple[int, int], dtype: DTypeName) -> tuple[Tensor, Tensor]:
        """The tensor to write to, of the size of images, as the caller sees it and as images. Its
        channels are neighbours in memory where those of x are."""
        n, c = x.shape[:2]
        if self._out is None and 0 < x.strides[1] < x.strides[3] and self.axes == 2:
            images = self.out((n, *size, c), dtype).transpose(0, 3, 1, 2)
            return (images[0] if self._single else images), images
        shape = (n, c, *size)[1 if self._single else 0 :]
        given = self.out(shape if self.axes == 2 else (*shape[:-2], shape[-1]), dtype)
        images = given[None] if self._single else given
        return given, images[:, :, None] if self.axes == 1 else images


class Windows:
    """kernel_size, stride, padding and dilation of a call, as pairs, and as kernels take them: all
    but the last in `options`, dilation in `gaps`."""

    def __init__(
        self, op: str, axes: int, kernel: Any, stride: Any, padding: Any, dilation: Any
    ) -> None:
        self.op = op
        self.kernel = _sides(op, "kernel_size", kernel, axes, 1, 1)
        self.stride = self.kernel
        if stride is not None:
            self.stride = _sides(op, "stride", stride, axes, 1, 1)
        self.padding = _sides(op, "padding", padding, axes, 0, 0)
        self.dilation = _sides(op, "dilation", dilation, axes, 1, 1)
        self.gaps = _short(self.dilation)
        self.options: dict[str, Any] = {
            "kernel": _short(self.kernel), "stride": _short(self.stride),
            "padding": _short(self.padding),
        }  # fmt: skip

    def size(self, image: tuple[int, int], ceil_mode: bool) -> tuple[int, int]:
        """The size of the results of images."""
        ceil = flag(self.op, "ceil_mode", ceil_mode)
        out = [
            output_size(
                self.op, image[a], self.kernel[a], self.stride[a], self.padding[a],
                self.dilation[a], ceil,
            )
            for a in range(2)
        ]  # fmt: skip
        if min(out) < 1:
            raise ShapeError(
                f"[{self.op}] the image with its padding must be as large as a window but has size "
                f"{image}, kernel_size {self.kernel} and padding {self.padding}"
            )
        return out[0], out[1]


def _short(sides: tuple[int, int]) -> int | tuple[int, int]:
    """One integer where it stands for both: a call with integers takes less time."""
    return sides[0] if sides[0] == sides[1] else sides


def windows(
    op: str, axes: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1
) -> Windows:
    """The windows of a call, in torch's forms of pairs: the same object for the same ones."""
    none = stride is None or (isinstance(stride, list | tuple) and not stride)
    given = [None if none else numbers(op, "stride", stride)]
    given += [numbers(op, *v) for v in (("padding", padding), ("dilation", dilation))]
    return _windows(op, axes, numbers(op, "kernel_size", kernel), *given)


# After `numbers`, whose results are integers or what another check refuses.
_windows = functools.lru_cache(maxsize=4096)(Windows)
_named = functools.lru_cache(maxsize=None)(lambda kernel, op: replace(kernel, name=op))


def _sides(op: str, name: str, value: Any, axes: int, least: int, first: int) -> tuple[int, int]:
    """(rows, columns); a signal has one row, for which `first` stands."""
    if axes == 1:
        return first, pair(op, name, single(op, name, value), least)[1]
    return pair(op, name, value, least)


def pooled(
    call: PoolCall, x: Array, w: Windows, ceil_mode: bool, return_indices: bool
) -> Array | tuple[Array, Array]:
    """max_pool2d or max_pool1d."""
    both = flag(call.op, "return_indices", return_indices)
    t = call.images("x", x)
    size = w.size((t.shape[2], t.shape[3]), ceil_mode)
    result, dst = call.result(t, size, t.dtype)
    found, index = _indices(call, t, size) if both or recording() else (None, None)
    kernels.max_pool2d(t, dst, index=index, dilation=w.gaps, **w.options)
    if both and found is not None:
        return call.leave(result), call.leave(found)
    return call.leave(result)


def _indices(call: PoolCall, t: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """A new tensor for positions, as the caller sees it and as images: also where a tape records,
    whose gradient needs them."""
    given, call._out = call._out, None
    found = call.result(t, size, "int32")
    call._out = given
    return found


def averaged(
    call: PoolCall, x: Array, w: Windows, ceil_mode: bool, include_pad: bool, divisor: int | None
) -> Array:
    """avg_pool2d or avg_pool1d."""
    t = call.images("x", x)
    result, dst = call.result(t, w.size((t.shape[2], t.shape[3]), ceil_mode), t.dtype)
    kernels.avg_pool2d(t, dst, count_include_pad=include_pad, divisor_override=divisor, **w.options)
    return call.leave(result)


def adaptive(
    call: PoolCall, x: Array, output_size: Any, return_indices: bool
) -> Array | tuple[Array, Array]:
    """The maxima of windows that divide images."""
    both = flag(call.op, "return_indices", return_indices)
    t = call.images("x", x)
    size = _output(call, output_size, (t.shape[2], t.shape[3]))
    result, dst = call.result(t, size, t.dtype)
    found, index = _indices(call, t, size) if both or recording() else (None, None)
    kernels.adaptive_max_pool2d(t, dst, index=index)
    if both and found is not None:
        return call.leave(result), call.leave(found)
    return call.leave(result)


def adaptive_mean(call: PoolCall, x: Array, output_size: Any) -> Array:
    """The means of windows that divide images."""
    t = call.images("x", x)
    result, dst = call.result(t, _output(call, output_size, (t.shape[2], t.shape[3])), t.dtype)
    kernels.adaptive_avg_pool2d(t, dst)
    return call.leave(result)


def _output(call: PoolCall, value: Any, image: tuple[int, int]) -> tuple[int, int]:
    """output_size: an integer or two, None for the size of the image."""
    sides = list(value) if isinstance(value, list | tuple) else [value] * call.axes
    if len(sides) != call.axes:
        told = "one integer" if call.axes == 1 else "one or two integers"
        raise ArgumentError(f"[{call.op}] output_size must be {told} but is {value!r}")
    sides = [1, *sides] if call.axes == 1 else sides
    given = tuple(n if v is None else v for v, n in zip(sides, image, strict=True))
    return pair(call.op, "output_size", numbers(call.op, "output_size", given), 1)


def gradient(
    kernel: Kernel, run: Callable[..., None], dy: Array, index: Array | None,
    input_size: Sequence[int], options: dict[str, Any], out: Tensor | None,
) -> Array:  # fmt: skip
    """A gradient by images of `input_size`: `run` is the kernel."""
    op = kernel.name
    call = PoolCall(kernel, op, 2, dy, index, out=out)
    t = call.images("dy", dy)
    size = shape_of(input_size)
    whole = (1, *size) if call._single else size
    if len(whole) != 4 or whole[:2] != t.shape[:2]:
        raise ShapeError(
            f"[{op}] input_size must be the size of what dy of shape {dy.shape} comes from but is "
            f"{input_size}"
        )
    at = () if index is None else (call.images("index", index),)
    result, dst = call.result(t, (whole[2], whole[3]), t.dtype)
    run(t, *at, dst, **options)
    return call.leave(result)
