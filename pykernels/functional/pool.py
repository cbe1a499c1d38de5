"""max_pool2d and avg_pool2d, by torch's rules, and pools over windows that divide an image."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels._generated.kernels.adaptive_avg_pool2d import KERNEL as ADAPTIVE_AVG
from pykernels._generated.kernels.adaptive_max_pool2d import KERNEL as ADAPTIVE_MAX
from pykernels._generated.kernels.avg_pool2d import KERNEL as AVG
from pykernels._generated.kernels.max_pool2d import KERNEL as MAX
from pykernels.arrays import Array
from pykernels.device import Tensor

from ._pools import Pair, PoolCall, adaptive, adaptive_mean, averaged, pooled, windows

__all__ = ["adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool2d", "max_pool2d"]


def max_pool2d(
    x: Array,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    dilation: Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: Tensor | None = None,
) -> Array | tuple[Array, Array]:
    """The largest element of each window, as torch.nn.functional.max_pool2d.

    The padding counts as -inf. NaN is larger than any number.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or (C, H, W).
        kernel_size: The size of a window, an integer or (rows, columns).
        stride: Steps between windows; None is kernel_size.
        padding: Rows and columns of -inf on each side, at most half of a window.
        dilation: Steps between the elements of a window, an integer or (rows, columns).
        ceil_mode: Is the number of windows rounded up, as long as the last one begins in the image
            or in the padding before it?
        return_indices: Are the positions of the largest elements a second result?
        out: The Tensor to write to, of the dtype of x; None makes one, whose channels lie next to
            each other where those of x do.

    Returns:
        (N, C, OH, OW), and with return_indices a second one, int32: positions in the H x W elements
        of an image, of the first of several largest, -1 where dilation leaves a window none. Numpy
        arrays if x is one, else Tensors.

    Raises:
        ShapeError: x has other axes, or there is no window.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.max_pool2d` raises.
    """
    op = "max_pool2d"
    w = windows(op, 2, kernel_size, stride, padding, dilation)
    return pooled(PoolCall(MAX, op, 2, x, out=out), x, w, ceil_mode, return_indices)


def avg_pool2d(
    x: Array,
    kernel_size: Pair,
    stride: Pair | None = None,
    padding: Pair = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Array:
    """The mean of each window, as torch.nn.functional.avg_pool2d. Sums are f32.

    What a window that is rounded up has behind the padding never counts.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or (C, H, W).
        kernel_size: The size of a window, an integer or (rows, columns).
        stride: Steps between windows; None is kernel_size.
        padding: Rows and columns of zeros on each side, at most half of a window.
        ceil_mode: Is the number of windows rounded up, as long as the last one begins in the image
            or in the padding before it?
        count_include_pad: Does the padding count as elements, which are 0?
        divisor_override: What sums are divided by, in place of the number of elements.
        out: The Tensor to write to, of the dtype of x; None makes one, whose channels lie next to
            each other where those of x do.

    Returns:
        (N, C, OH, OW). A numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: x has other axes, or there is no window.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.avg_pool2d` raises.
    """
    op = "avg_pool2d"
    w = windows(op, 2, kernel_size, stride, padding)
    call = PoolCall(AVG, op, 2, x, out=out)
    return averaged(call, x, w, ceil_mode, count_include_pad, divisor_override)


def adaptive_max_pool2d(
    x: Array,
    output_size: int | Sequence[int | None] | None,
    return_indices: bool = False,
    *,
    out: Tensor | None = None,
) -> Array | tuple[Array, Array]:
    """The largest element of each window, as torch.nn.functional.adaptive_max_pool2d.

    Of OL windows along an axis of L elements, window o begins at o L / OL, rounded down, and ends
    before (o + 1) L / OL, rounded up. NaN is larger than any number.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or (C, H, W).
        output_size: How many windows there are: an integer or (rows, columns),
            None for as many as x has.
        return_indices: Are the positions of the largest elements a second result?
        out: The Tensor to write to, of the dtype of x; None makes one, whose channels lie next to
            each other where those of x do.

    Returns:
        (N, C, OH, OW), and with return_indices a second one, int32: positions in the H x W elements
        of an image, of the first of several largest. Numpy arrays if x is one, else Tensors.

    Raises:
        ShapeError: x has other axes.
        ArgumentError: output_size is unusable.
        DTypeError and what `pykernels.kernels.adaptive_max_pool2d` raises.
    """
    call = PoolCall(ADAPTIVE_MAX, "adaptive_max_pool2d", 2, x, out=out)
    return adaptive(call, x, output_size, return_indices)


def adaptive_avg_pool2d(
    x: Array,
    output_size: int | Sequence[int | None] | None,
    *,
    out: Tensor | None = None,
) -> Array:
    """The mean of each window, as torch.nn.functional.adaptive_avg_pool2d.

    Of OL windows along an axis of L elements, window o begins at o L / OL, rounded down, and ends
    before (o + 1) L / OL, rounded up. Sums are f32.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or (C, H, W).
        output_size: How many windows there are: an integer or (rows, columns),
            None for as many as x has.
        out: The Tensor to write to, of the dtype of x; None makes one, whose channels lie next to
            each other where those of x do.

    Returns:
        (N, C, OH, OW). A numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: x has other axes.
        ArgumentError: output_size is unusable.
        DTypeError and what `pykernels.kernels.adaptive_avg_pool2d` raises.
    """
    call = PoolCall(ADAPTIVE_AVG, "adaptive_avg_pool2d", 2, x, out=out)
    return adaptive_mean(call, x, output_size)
