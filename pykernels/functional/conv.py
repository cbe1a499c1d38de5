"""conv2d and conv_transpose2d, by torch's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

from pykernels import kernels
from pykernels._generated.kernels.conv2d import KERNEL
from pykernels._generated.kernels.conv_transpose2d import KERNEL as TRANSPOSE
from pykernels._generated.ops import Activation
from pykernels.arrays import Array, Call, NDArray
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plan import Kernel
from pykernels.plans.conv.geometry import LAYOUTS, check_group, geometry, pair, transposed_size

__all__ = ["conv2d", "conv_transpose2d"]

Layout: TypeAlias = Literal["NCHW", "NHWC"]
Pair: TypeAlias = int | Sequence[int]
Padding: TypeAlias = Pair | Literal["same", "valid"]


@overload
def conv2d(
    x: Tensor, w: Array, bias: Array | None = None, stride: Pair = 1, padding: Padding = 0,
    dilation: Pair = 1, groups: int = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def conv2d(
    x: Array, w: Tensor, bias: Array | None = None, stride: Pair = 1, padding: Padding = 0,
    dilation: Pair = 1, groups: int = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def conv2d(
    x: NDArray, w: NDArray, bias: NDArray | None = None, stride: Pair = 1, padding: Padding = 0,
    dilation: Pair = 1, groups: int = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: None = None,
) -> NDArray: ...  # fmt: skip
@overload
def conv2d(
    x: Array, w: Array, bias: Array | None = None, stride: Pair = 1, padding: Padding = 0,
    dilation: Pair = 1, groups: int = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: Tensor | None = None,
) -> Array: ...  # fmt: skip
def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    layout: Layout = "NCHW",
    activation: Activation | None = None,
    out: Tensor | None = None,
) -> Array:
    """Convolution as torch.nn.functional.conv2d: the windows of x times w, plus bias.

    Sums are f32 and no operand is rounded. Transposed or sliced arguments are read where they lie.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or without N; with layout "NHWC"
            (N, H, W, C) or without N.
        w: Tensor or numpy array, float32 or float16, (O, C / groups, KH, KW) in every layout.
        bias: float32 or float16, (O,).
        stride: Steps between windows, an integer or (rows, columns).
        padding: Zeros around x: an integer, (rows, columns), (top, bottom, left, right), "valid"
            (none), or "same" (as many as keep the image's size; stride must be 1).
        dilation: Steps between taps, an integer or (rows, columns).
        groups: Number of groups of channels; output channels see the channels of their own only.
        layout: Axes of x and the result, "NCHW" or "NHWC".
        activation: Applied last; 'gelu' is by erf.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if x and w are,
            else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit, or the output would have no row or column.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv2d` raises.
    """
    call = _Call(KERNEL, x, w, bias, layout, out)
    steps, apart = _numbers("stride", stride), _numbers("dilation", dilation)
    edges = padding if isinstance(padding, str) else _numbers("padding", padding)
    g = geometry(call.op, call.kernel, steps, edges, apart)
    result = call.out(call.w.shape[0], g.output(call.op, call.image))
    kernels.conv2d(
        call.x, call.w, result, bias=call.bias, stride=steps, padding=g.padding, dilation=apart,
        groups=groups, layout=layout, activation=activation,
    )  # fmt: skip
    return call.leave()


@overload
def conv_transpose2d(
    x: Tensor, w: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0,
    output_padding: Pair = 0, groups: int = 1, dilation: Pair = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def conv_transpose2d(
    x: Array, w: Tensor, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0,
    output_padding: Pair = 0, groups: int = 1, dilation: Pair = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def conv_transpose2d(
    x: NDArray, w: NDArray, bias: NDArray | None = None, stride: Pair = 1, padding: Pair = 0,
    output_padding: Pair = 0, groups: int = 1, dilation: Pair = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: None = None,
) -> NDArray: ...  # fmt: skip
@overload
def conv_transpose2d(
    x: Array, w: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0,
    output_padding: Pair = 0, groups: int = 1, dilation: Pair = 1, *, layout: Layout = "NCHW",
    activation: Activation | None = None, out: Tensor | None = None,
) -> Array: ...  # fmt: skip
def conv_transpose2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    output_padding: Pair = 0,
    groups: int = 1,
    dilation: Pair = 1,
    *,
    layout: Layout = "NCHW",
    activation: Activation | None = None,
    out: Tensor | None = None,
) -> Array:
    """Transposed convolution as torch.nn.functional.conv_transpose2d.

    Sums are f32 and no operand is rounded. The output has (H - 1) stride - paddings + dilation
    (KH - 1) + 1 + output_padding rows, columns alike.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or without N; with layout "NHWC"
            (N, H, W, C) or without N.
        w: Tensor or numpy array, float32 or float16, (C, O / groups, KH, KW) in every layout.
        bias: float32 or float16, (O,).
        stride: Steps of the output between neighbouring pixels of x, an integer or (rows, columns).
        padding: Rows and columns left out at the edges: an integer, two (rows, columns), or four
            (top, bottom, left, right).
        output_padding: Rows and columns added at the end, fewer than stride or dilation.
        groups: Number of groups of channels; output channels see the channels of their own only.
        dilation: Steps between taps, an integer or (rows, columns).
        layout: Axes of x and the result, "NCHW" or "NHWC".
        activation: Applied last; 'gelu' is by erf.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if x and w are,
            else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit, or the output would have no row or column.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv_transpose2d` raises.
    """
    call = _Call(TRANSPOSE, x, w, bias, layout, out)
    steps, apart = _numbers("stride", stride), _numbers("dilation", dilation)
    edges, more = _numbers("padding", padding), _numbers("output_padding", output_padding)
    if isinstance(edges, str):
        raise ArgumentError(f"[{call.op}] padding must be integers but is {padding!r}")
    g = geometry(call.op, call.kernel, steps, edges, apart)
    size = transposed_size(call.op, call.image, g, pair(call.op, "output_padding", more, 0))
    result = call.out(call.w.shape[1] * check_group(call.op, groups, {}), size)
    kernels.conv_transpose2d(
        call.x, call.w, result, bias=call.bias, stride=steps, padding=edges, output_padding=more,
        dilation=apart, groups=groups, layout=layout, activation=activation,
    )  # fmt: skip
    return call.leave()


def _numbers(name: str, value: Any) -> Any:
    """torch's forms of a pair: an integer, or a sequence of one or two (of padding, four)."""
    if isinstance(value, list | tuple):
        return value[0] if len(value) == 1 else tuple(value)
    return value


class _Call:
    """The tensors of one call: x with its axis of images, and the result that fits it."""

    def __init__(
        self, kernel: Kernel, x: Array, w: Array, bias: Array | None, layout: str,
        out: Tensor | None,
    ) -> None:  # fmt: skip
        self.op = kernel.name
        if layout not in LAYOUTS:
            raise ArgumentError(f"[{self.op}] layout must be 'NCHW' or 'NHWC' but is {layout!r}")
        self._layout, self._given = layout, out
        self._call = Call(kernel, x, w, bias, out=out)
        self.x, self.w = self._call.tensor("x", x), self._call.tensor("w", w)
        self.bias = self._call.tensor("bias", bias)
        if self.x.ndim not in (3, 4):
            axes = ", ".join(layout)
            raise ShapeError(
                f"[{self.op}] x must have the axes ({axes}), the first may be missing, but has "
                f"shape {self.x.shape}"
            )
        if self.w.ndim != 4:
            raise ShapeError(f"[{self.op}] w must have four axes but has shape {self.w.shape}")
        self._single = self.x.ndim == 3
        if self._single:
            self.x = self.x[None]

    @property
    def image(self) -> tuple[int, int]:
        first = 2 if self._layout == "NCHW" else 1
        return self.x.shape[first], self.x.shape[first + 1]

    @property
    def kernel(self) -> tuple[int, int]:
        return self.w.shape[2], self.w.shape[3]

    def out(self, channels: int, size: tuple[int, int]) -> Tensor:
        """The tensor to write to, with its axis of images."""
        shape = (channels, *size) if self._layout == "NCHW" else (*size, channels)
        halves = self.x.dtype == self.w.dtype == "float16"
        dtype: DTypeName = "float16" if halves else "float32"
        if self._given is not None:
            if self._given.dtype not in ("float32", "float16"):
                raise DTypeError(
                    f"[{self.op}] out must be float32 or float16 but is {self._given.dtype}"
                )
            dtype = self._given.dtype
        whole = shape if self._single else (self.x.shape[0], *shape)
        self._result = self._call.out(whole, dtype)
        return self._result[None] if self._single else self._result

    def leave(self) -> Array:
        return self._call.leave(self._result)
