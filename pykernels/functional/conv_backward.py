"""The gradients of conv2d, with the sizes that torch.nn.grad takes."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels import kernels
from pykernels._generated.kernels.conv2d_backward_bias import KERNEL as BIAS
from pykernels._generated.kernels.conv2d_backward_input import KERNEL as INPUT
from pykernels._generated.kernels.conv2d_backward_weight import KERNEL as WEIGHT
from pykernels.arrays import Array
from pykernels.device import Tensor

from ._images import ImageCall, Layout, Padding, Pair, numbers

__all__ = ["conv2d_backward_bias", "conv2d_backward_input", "conv2d_backward_weight"]


def conv2d_backward_input(
    dy: Array,
    w: Array,
    input_size: Sequence[int],
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    layout: Layout = "NCHW",
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * conv2d(x, w)) by x, as torch.nn.grad.conv2d_input.

    Sums are f32 and no operand is rounded.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of conv2d,
            (N, O, OH, OW) or without N; with layout "NHWC" (N, OH, OW, O) or without N.
        w: Tensor or numpy array, float32 or float16, (O, C / groups, KH, KW) in every layout.
        input_size: The shape of x, in the axes of the layout; without N where dy has none.
        stride: Steps between windows, as in the forward call; so are the other options.
        padding: Zeros around x: an integer, (rows, columns), (top, bottom, left, right), "valid" or
            "same".
        dilation: Steps between taps, an integer or (rows, columns).
        groups: Number of groups of channels.
        layout: Axes of dy, x and the result, "NCHW" or "NHWC".
        out: The Tensor to write to, float32 or float16; None makes one, float16 if dy and w are,
            else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv2d_backward_input` raises.
    """
    op = INPUT.name
    steps, edges = numbers(op, "stride", stride), numbers(op, "padding", padding)
    apart = numbers(op, "dilation", dilation)
    call = ImageCall(INPUT, layout, dy, w, out=out)
    ty, tw = call.images("dy", dy), call.weights("w", w)
    result = call.result(call.size("input_size", input_size, 4), ty, tw)
    dst = result if result.ndim == 4 else result[None]
    kernels.conv2d_backward_input(
        ty, tw, dst, stride=steps, padding=edges, dilation=apart, groups=groups, layout=layout
    )
    return call.leave(result)


def conv2d_backward_weight(
    dy: Array,
    x: Array,
    weight_size: Sequence[int],
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    layout: Layout = "NCHW",
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * conv2d(x, w)) by w, as torch.nn.grad.conv2d_weight.

    Sums are f32, in an order that depends on shapes, strides and device only.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of conv2d,
            (N, O, OH, OW) or without N; with layout "NHWC" (N, OH, OW, O) or without N.
        x: Tensor or numpy array, float32 or float16: the input of conv2d, (N, C, H, W), or
            (N, H, W, C); without N where dy has none.
        weight_size: The shape of w, (O, C / groups, KH, KW) in every layout.
        stride: Steps between windows, as in the forward call; so are the other options.
        padding: Zeros around x: an integer, (rows, columns), (top, bottom, left, right), "valid" or
            "same".
        dilation: Steps between taps, an integer or (rows, columns).
        groups: Number of groups of channels.
        layout: Axes of dy and x, "NCHW" or "NHWC".
        out: The Tensor to write to, float32 or float16; None makes one, float16 if dy and x are,
            else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv2d_backward_weight` raises.
    """
    op = WEIGHT.name
    steps, edges = numbers(op, "stride", stride), numbers(op, "padding", padding)
    apart = numbers(op, "dilation", dilation)
    call = ImageCall(WEIGHT, layout, dy, x, out=out)
    ty, tx = call.images("dy", dy), call.images("x", x)
    result = call.result(call.size("weight_size", weight_size, 4), ty, tx)
    kernels.conv2d_backward_weight(
        ty, tx, result, stride=steps, padding=edges, dilation=apart, groups=groups, layout=layout
    )
    return call.leave(result)


def conv2d_backward_bias(dy: Array, *, layout: Layout = "NCHW", out: Tensor | None = None) -> Array:
    """The gradient of sum(dy * conv2d(x, w, bias)) by bias: sums over images and pixels.

    Sums are f32, by trees, in an order that depends on shapes, strides and device only.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of conv2d,
            (N, O, OH, OW) or without N; with layout "NHWC" (N, OH, OW, O) or without N.
        layout: Axes of dy, "NCHW" or "NHWC".
        out: The Tensor (O,) to write to, float32 or float16; None makes one with dy's dtype.

    Returns:
        A numpy array if dy is one and out is None, else a Tensor.

    Raises:
        ShapeError, ArgumentError, DTypeError and what `pykernels.kernels.conv2d_backward_bias`
            raises.
    """
    call = ImageCall(BIAS, layout, dy, out=out)
    ty = call.images("dy", dy)
    result = call.result((ty.shape[layout.index("C")],), ty)
    kernels.conv2d_backward_bias(ty, result, layout=layout)
    return call.leave(result)
