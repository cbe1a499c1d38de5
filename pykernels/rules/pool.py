"""The rules of pools and of their gradients: signals are images of one row."""

from __future__ import annotations

from typing import Any, TypeAlias

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.call.scalars import integer, integers
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.pool.windows import check_padding, output_size, pair
from pykernels.runtime.observe import recording

from .images import Images, numbers, single

__all__ = [
    "Windows",
    "adaptive_maxima",
    "adaptive_maxima_gradient",
    "adaptive_means",
    "adaptive_means_gradient",
    "counts",
    "maxima",
    "maxima_gradient",
    "means",
    "means_gradient",
    "result_of",
    "steps",
]


Sides: TypeAlias = int | tuple[int, ...]
Counts: TypeAlias = int | tuple[int | None, ...] | None


def result_of(
    images: Images, x: Tensor, size: tuple[int, int], dtype: DTypeName, first: bool = True
) -> tuple[Tensor, Tensor]:
    """A result of this size, in the caller's form and as images. Its channels are neighbours in
    memory if the channels of x are. If `first` is set and the caller gave `out`, the result is
    `out`."""
    call = images.call
    make = call.out if first else call.empty
    n, c = x.shape[:2]
    is_new = call.asked_dtype is None or not first
    if is_new and 0 < x.strides[1] < x.strides[3] and images.axes == 2:
        made = make((n, *size, c), dtype).transpose(0, 3, 1, 2)
        return (made[0] if images.single else made), made
    given = make(images.of_size(c, size, x), dtype)
    return given, images.full(given)


class Windows:
    """The arguments kernel_size, stride, padding and dilation of a call, as pairs, and in the form
    for kernels: `gaps` has the dilation, and `options` has the other arguments."""

    def __init__(
        self, op: str, axes: int, kernel: Sides, stride: Sides | None, padding: Sides,
        dilation: Sides = 1,
    ) -> None:  # fmt: skip
        self.op = op
        self.kernel = _pair(op, "kernel_size", kernel, axes, 1, 1)
        self.stride = self.kernel
        if stride is not None:
            self.stride = _pair(op, "stride", stride, axes, 1, 1)
        self.padding = _pair(op, "padding", padding, axes, 0, 0)
        self.dilation = _pair(op, "dilation", dilation, axes, 1, 1)
        self.gaps = _short(self.dilation)
        self.options: dict[str, Any] = {
            "kernel": _short(self.kernel), "stride": _short(self.stride),
            "padding": _short(self.padding),
        }  # fmt: skip

    def size(self, x: Tensor, ceil_mode: bool) -> tuple[int, int]:
        """The size of the results of images."""
        image = x.shape[2:]
        out = [
            output_size(
                image[a], self.kernel[a], self.stride[a], self.padding[a], self.dilation[a],
                ceil_mode,
            )
            for a in range(2)
        ]  # fmt: skip
        if min(out) < 1:
            raise ShapeError(
                f"[{self.op}] the image with its padding must be as large as a window but has size "
                f"{image}, kernel_size {self.kernel} and padding {self.padding}"
            )
        return out[0], out[1]


def _short(both: tuple[int, int]) -> Sides:
    """Two equal integers as one integer, because a call with integers takes less time."""
    return both[0] if both[0] == both[1] else both


def _pair(op: str, name: str, value: Any, axes: int, least: int, first: int) -> tuple[int, int]:
    """The argument as (rows, columns); for a signal, `first` is the number for rows."""
    if axes == 1:
        return first, pair(op, name, single(op, name, value), least)[1]
    return pair(op, name, value, least)


def steps(op: str, name: str, value: Any) -> Any:
    """The same as `numbers`, but None stays None."""
    empty = value is None or (isinstance(value, list | tuple) and not value)
    return None if empty else numbers(op, name, value)


def counts(op: str, name: str, value: Any) -> Any:
    """An argument that is an integer, None, or a sequence of these."""
    if isinstance(value, list | tuple):
        return integers(op, name, tuple(value))
    return None if value is None else integer(op, name, value)


# -- pools ----------------------------------------------------------------------------------------


def maxima(
    call: Call, x: Tensor, kernel_size: Sides, stride: Sides | None, padding: Sides,
    dilation: Sides, ceil_mode: bool, return_indices: bool, axes: int,
) -> Made:  # fmt: skip
    """The rule of max_pool2d and max_pool1d."""
    w = Windows(call.op, axes, kernel_size, stride, padding, dilation)
    check_padding(call.op, w.kernel, w.padding, w.dilation)
    images = Images(call, axes)
    t = images.of("x", x)
    made = _maxima(images, t, w.size(t, ceil_mode), return_indices)
    made.options = {**w.options, "dilation": w.gaps}
    return made


def adaptive_maxima(
    call: Call, x: Tensor, output_size: Counts, return_indices: bool, axes: int
) -> Made:
    """The rule of adaptive_max_pool2d and adaptive_max_pool1d: the windows follow from the size of
    the result."""
    images = Images(call, axes)
    t = images.of("x", x)
    return _maxima(images, t, _output(images, output_size, t), return_indices)


def _maxima(images: Images, t: Tensor, size: tuple[int, int], return_indices: bool) -> Made:
    """Maxima, and their positions if the caller or a tape needs them."""
    result, dst = result_of(images, t, size, t.dtype)
    found = index = None
    if return_indices or recording():
        found, index = result_of(images, t, size, "int32", first=False)
    return Made({"dst": result, "index": found}, {"x": t, "dst": dst, "index": index})


def means(
    call: Call, x: Tensor, kernel_size: Sides, stride: Sides | None, padding: Sides,
    ceil_mode: bool, axes: int,
) -> Made:  # fmt: skip
    """The rule of avg_pool2d and avg_pool1d."""
    w = Windows(call.op, axes, kernel_size, stride, padding)
    images = Images(call, axes)
    t = images.of("x", x)
    result, dst = result_of(images, t, w.size(t, ceil_mode), t.dtype)
    return Made({"dst": result}, {"x": t, "dst": dst}, w.options)


def adaptive_means(call: Call, x: Tensor, output_size: Counts, axes: int) -> Made:
    """The rule of adaptive_avg_pool2d and adaptive_avg_pool1d: the windows follow from the size of
    the result."""
    images = Images(call, axes)
    t = images.of("x", x)
    result, dst = result_of(images, t, _output(images, output_size, t), t.dtype)
    return Made({"dst": result}, {"x": t, "dst": dst})


def _output(images: Images, value: Counts, x: Tensor) -> tuple[int, int]:
    """The argument output_size: one or two integers; None means the size of the image."""
    given = list(value) if isinstance(value, tuple) else [value] * images.axes
    if len(given) != images.axes:
        told = "one integer" if images.axes == 1 else "one or two integers"
        raise ArgumentError(f"[{images.op}] output_size must be {told} but is {value!r}")
    both = [1, *given] if images.axes == 1 else given
    size = tuple([n if v is None else v for v, n in zip(both, x.shape[2:], strict=True)])
    return pair(images.op, "output_size", size, 1)  # type: ignore[arg-type]


# -- gradients ------------------------------------------------------------------------------------


def maxima_gradient(
    call: Call, dy: Tensor, index: Tensor, input_size: tuple[int, ...], kernel_size: Sides,
    stride: Sides | None, padding: Sides, dilation: Sides,
) -> Made:  # fmt: skip
    """The rule of the gradient of max_pool2d's image."""
    w = Windows(call.op, 2, kernel_size, stride, padding, dilation)
    made = _gradient(call, dy, index, input_size)
    made.options = {**w.options, "dilation": w.gaps}
    return made


def means_gradient(
    call: Call, dy: Tensor, input_size: tuple[int, ...], kernel_size: Sides, stride: Sides | None,
    padding: Sides,
) -> Made:  # fmt: skip
    """The rule of the gradient of avg_pool2d's image."""
    made = _gradient(call, dy, None, input_size)
    made.options = Windows(call.op, 2, kernel_size, stride, padding).options
    return made


def adaptive_maxima_gradient(
    call: Call, dy: Tensor, index: Tensor, input_size: tuple[int, ...]
) -> Made:
    """The rule of the gradient of adaptive_max_pool2d's image."""
    return _gradient(call, dy, index, input_size)


def adaptive_means_gradient(call: Call, dy: Tensor, input_size: tuple[int, ...]) -> Made:
    """The rule of the gradient of adaptive_avg_pool2d's image."""
    return _gradient(call, dy, None, input_size)


def _gradient(call: Call, dy: Tensor, index: Tensor | None, input_size: tuple[int, ...]) -> Made:
    """The gradient, of the size `input_size`, from dy and the positions of the maxima."""
    images = Images(call, 2)
    t = images.of("dy", dy)
    whole = (1, *input_size) if images.single else input_size
    if len(whole) != 4 or whole[:2] != t.shape[:2]:
        raise ShapeError(
            f"[{call.op}] input_size must be an input size whose results have the shape of dy, "
            f"{dy.shape}, but is {input_size}"
        )
    views: dict[str, Tensor | None] = {"dy": t}
    if index is not None:
        views["index"] = images.of("index", index)
    result, views["dst"] = result_of(images, t, (whole[2], whole[3]), t.dtype)
    return Made({"dst": result}, views)
