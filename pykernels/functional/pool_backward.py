"""The gradients of pools by their images."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels import kernels
from pykernels._generated.kernels.adaptive_avg_pool2d_backward import KERNEL as ADAPTIVE_AVG
from pykernels._generated.kernels.adaptive_max_pool2d_backward import KERNEL as ADAPTIVE_MAX
from pykernels._generated.kernels.avg_pool2d_backward import KERNEL as AVG
from pykernels._generated.kernels.max_pool2d_backward import KERNEL as MAX
from pykernels.arrays import Array
from pykernels.device import Tensor

from ._pools import Pair, gradient, windows

__all__ = [
    "adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward", "avg_pool2d_backward",
    "max_pool2d_backward",
]  # fmt: skip


def max_pool2d_backward(
    dy: Array,
    index: Array,
    input_size: Sequence[int],
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * max_pool2d(x)) by x.

    Each element of x adds what comes from the windows around it, in f32 and in the order of rows:
    two runs give the same bits.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of max_pool2d,
            (N, C, OH, OW) or without N.
        index: Tensor or numpy array, int32: the positions that max_pool2d returned with it.
        input_size: The shape of x, (N, C, H, W) or without N.
        kernel_size: The size of a window, as in the forward call; so are the other options.
        stride: Steps between windows; None is kernel_size.
        padding: Rows and columns around the image.
        dilation: Steps between the elements of a window.
        out: The Tensor to write to, of the dtype of dy; None makes one.

    Returns:
        A numpy array if the arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.max_pool2d_backward` raises.
    """
    w = windows(MAX.name, 2, kernel_size, stride, padding, dilation)
    options = {**w.options, "dilation": w.gaps}
    return gradient(MAX, kernels.max_pool2d_backward, dy, index, input_size, options, out)


def avg_pool2d_backward(
    dy: Array,
    input_size: Sequence[int],
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * avg_pool2d(x)) by x.

    Each element of x adds what comes from the windows around it, in f32 and in the order of rows:
    two runs give the same bits.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of avg_pool2d,
            (N, C, OH, OW) or without N.
        input_size: The shape of x, (N, C, H, W) or without N.
        kernel_size: The size of a window, as in the forward call; so are the other options.
        stride: Steps between windows; None is kernel_size.
        padding: Rows and columns around the image.
        count_include_pad: Does the padding count as elements, which are 0?
        divisor_override: What sums are divided by, in place of the number of elements.
        out: The Tensor to write to, of the dtype of dy; None makes one.

    Returns:
        A numpy array if the arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.avg_pool2d_backward` raises.
    """
    w = windows(AVG.name, 2, kernel_size, stride, padding)
    counts = {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
    options = {**w.options, **counts}
    return gradient(AVG, kernels.avg_pool2d_backward, dy, None, input_size, options, out)


def adaptive_max_pool2d_backward(
    dy: Array,
    index: Array,
    input_size: Sequence[int],
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * adaptive_max_pool2d(x)) by x.

    Each element of x adds what comes from the windows around it, in f32 and in the order of rows:
    two runs give the same bits.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of
            adaptive_max_pool2d, (N, C, OH, OW) or without N.
        index: Tensor or numpy array, int32: the positions that adaptive_max_pool2d returned with
            it.
        input_size: The shape of x, (N, C, H, W) or without N.
        out: The Tensor to write to, of the dtype of dy; None makes one.

    Returns:
        A numpy array if the arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.adaptive_max_pool2d_backward` raises.
    """
    run = kernels.adaptive_max_pool2d_backward
    return gradient(ADAPTIVE_MAX, run, dy, index, input_size, {}, out)


def adaptive_avg_pool2d_backward(
    dy: Array,
    input_size: Sequence[int],
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * adaptive_avg_pool2d(x)) by x.

    Each element of x adds what comes from the windows around it, in f32 and in the order of rows:
    two runs give the same bits.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of
            adaptive_avg_pool2d, (N, C, OH, OW) or without N.
        input_size: The shape of x, (N, C, H, W) or without N.
        out: The Tensor to write to, of the dtype of dy; None makes one.

    Returns:
        A numpy array if the arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.adaptive_avg_pool2d_backward` raises.
    """
    run = kernels.adaptive_avg_pool2d_backward
    return gradient(ADAPTIVE_AVG, run, dy, None, input_size, {}, out)
