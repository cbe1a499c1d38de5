"""conv2d and conv_transpose2d, by torch's rules."""

from __future__ import annotations

from pykernels import kernels
from pykernels._generated.kernels.conv2d import KERNEL
from pykernels._generated.kernels.conv_transpose2d import KERNEL as TRANSPOSE
from pykernels._generated.ops import Activation
from pykernels.arrays import Array, Known
from pykernels.device import Tensor
from pykernels.errors import ArgumentError
from pykernels.plans.conv.geometry import check_group, geometry, pair, transposed_size
from pykernels.scalars import integer

from ._images import ImageCall, Layout, Padding, Pair, numbers

__all__ = ["conv2d", "conv_transpose2d"]

_known: Known = {}


def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    *,
    residual: Array | None = None,
    layout: Layout = "NCHW",
    activation: Activation | None = None,
    out: Tensor | None = None,
) -> Array:
    """Convolution as torch.nn.functional.conv2d: the windows of x times w, plus bias and residual.

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
        residual: float32 or float16, added as well: an image that the result is an update of;
            broadcasts to the result's shape. May be out.
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
    op = KERNEL.name
    steps, edges = numbers(op, "stride", stride), numbers(op, "padding", padding)
    apart, count = numbers(op, "dilation", dilation), integer(op, "groups", groups)
    if (
        out is None
        and isinstance(layout, str)
        and isinstance(x, Tensor)
        and isinstance(w, Tensor)
        and (bias is None or isinstance(bias, Tensor))
        and (residual is None or isinstance(residual, Tensor))
    ):
        known = _known.get((
            x._layout, w._layout, None if bias is None else bias._layout,
            None if residual is None else residual._layout, steps, edges, apart, count, layout,
        ))  # fmt: skip
        if known is not None:
            lay, dst, src, more = known
            result = x._fresh(lay)
            kernels.conv2d(
                x._with(src), w, result._with(dst), bias=bias,
                residual=None if residual is None else residual._with(more), stride=steps,
                padding=edges, dilation=apart, groups=count, layout=layout, activation=activation,
            )  # fmt: skip
            return result
    call = ImageCall(KERNEL, layout, x, w, bias, residual, out=out)
    tx, tw, tb = call.images("x", x), call.weights("w", w), call.tensor("bias", bias)
    added = call.tensor("residual", residual)
    g = geometry(op, (tw.shape[2], tw.shape[3]), steps, edges, apart)
    result, dst = call.result_images(tw.shape[0], g.output(op, call.image(tx)), tx, tw)
    more = call.spread("residual", added, result)
    kernels.conv2d(
        tx, tw, dst, bias=tb, residual=more, stride=steps, padding=edges, dilation=apart,
        groups=count, layout=layout, activation=activation,
    )  # fmt: skip
    call.remember(_known, result, dst, tx, more, flags=(steps, edges, apart, count, layout))
    return call.leave(result)


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
    op = TRANSPOSE.name
    steps, edges = numbers(op, "stride", stride), numbers(op, "padding", padding)
    apart, more = numbers(op, "dilation", dilation), numbers(op, "output_padding", output_padding)
    if isinstance(edges, str):
        raise ArgumentError(f"[{op}] padding must be integers but is {padding!r}")
    call = ImageCall(TRANSPOSE, layout, x, w, bias, out=out)
    tx, tw, tb = call.images("x", x), call.weights("w", w), call.tensor("bias", bias)
    g = geometry(op, (tw.shape[2], tw.shape[3]), steps, edges, apart)
    size = transposed_size(op, call.image(tx), g, pair(op, "output_padding", more, 0))
    result, dst = call.result_images(tw.shape[1] * check_group(op, groups, {}), size, tx, tw)
    kernels.conv_transpose2d(
        tx, tw, dst, bias=tb, stride=steps, padding=edges, output_padding=more, dilation=apart,
        groups=groups, layout=layout, activation=activation,
    )  # fmt: skip
    return call.leave(result)
