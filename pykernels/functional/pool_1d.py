"""Pools of signals: those of images of one row."""

from __future__ import annotations

from pykernels._generated.kernels.adaptive_avg_pool2d import KERNEL as ADAPTIVE_AVG
from pykernels._generated.kernels.adaptive_max_pool2d import KERNEL as ADAPTIVE_MAX
from pykernels._generated.kernels.avg_pool2d import KERNEL as AVG
from pykernels._generated.kernels.max_pool2d import KERNEL as MAX
from pykernels.arrays import Array
from pykernels.device import Tensor

from ._pools import PoolCall, adaptive, adaptive_mean, averaged, pooled, windows

__all__ = ["adaptive_avg_pool1d", "adaptive_max_pool1d", "avg_pool1d", "max_pool1d"]


def max_pool1d(
    x: Array,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    out: Tensor | None = None,
) -> Array | tuple[Array, Array]:
    """The largest element of each window, as torch.nn.functional.max_pool1d.

    The padding counts as -inf. NaN is larger than any number.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, L) or (C, L).
        kernel_size: The size of a window.
        stride: Steps between windows; None is kernel_size.
        padding: How many -inf on each side, at most half of a window.
        dilation: Steps between the elements of a window.
        ceil_mode: Is the number of windows rounded up, as long as the last one begins in the signal
            or in the padding before it?
        return_indices: Are the positions of the largest elements a second result?
        out: The Tensor to write to, of the dtype of x; None makes one.

    Returns:
        (N, C, OL), and with return_indices a second one, int32: positions along L, of the first of
        several largest, -1 where dilation leaves a window none. Numpy arrays if x is one, else
        Tensors.

    Raises:
        ShapeError: x has other axes, or there is no window.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.max_pool2d` raises.
    """
    op = "max_pool1d"
    w = windows(op, 1, kernel_size, stride, padding, dilation)
    return pooled(PoolCall(MAX, op, 1, x, out=out), x, w, ceil_mode, return_indices)


def avg_pool1d(
    x: Array,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    out: Tensor | None = None,
) -> Array:
    """The mean of each window, as torch.nn.functional.avg_pool1d. Sums are f32.

    What a window that is rounded up has behind the padding never counts.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, L) or (C, L).
        kernel_size: The size of a window.
        stride: Steps between windows; None is kernel_size.
        padding: How many zeros on each side, at most half of a window.
        ceil_mode: Is the number of windows rounded up, as long as the last one begins in the signal
            or in the padding before it?
        count_include_pad: Does the padding count as elements, which are 0?
        out: The Tensor to write to, of the dtype of x; None makes one.

    Returns:
        (N, C, OL). A numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: x has other axes, or there is no window.
        ArgumentError: another argument is unusable.
        DTypeError and what `pykernels.kernels.avg_pool2d` raises.
    """
    op = "avg_pool1d"
    w = windows(op, 1, kernel_size, stride, padding)
    call = PoolCall(AVG, op, 1, x, out=out)
    return averaged(call, x, w, ceil_mode, count_include_pad, None)


def adaptive_max_pool1d(
    x: Array,
    output_size: int | None,
    return_indices: bool = False,
    *,
    out: Tensor | None = None,
) -> Array | tuple[Array, Array]:
    """The largest element of each window, as torch.nn.functional.adaptive_max_pool1d.

    Of OL windows along an axis of L elements, window o begins at o L / OL, rounded down, and ends
    before (o + 1) L / OL, rounded up. NaN is larger than any number.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, L) or (C, L).
        output_size: How many windows there are; None for as many as x has.
        return_indices: Are the positions of the largest elements a second result?
        out: The Tensor to write to, of the dtype of x; None makes one.

    Returns:
        (N, C, OL), and with return_indices a second one, int32: positions along L, of the first of
        several largest. Numpy arrays if x is one, else Tensors.

    Raises:
        ShapeError: x has other axes.
        ArgumentError: output_size is unusable.
        DTypeError and what `pykernels.kernels.adaptive_max_pool2d` raises.
    """
    call = PoolCall(ADAPTIVE_MAX, "adaptive_max_pool1d", 1, x, out=out)
    return adaptive(call, x, output_size, return_indices)


def adaptive_avg_pool1d(
    x: Array,
    output_size: int | None,
    *,
    out: Tensor | None = None,
) -> Array:
    """The mean of each window, as torch.nn.functional.adaptive_avg_pool1d.

    Of OL windows along an axis of L elements, window o begins at o L / OL, rounded down, and ends
    before (o + 1) L / OL, rounded up. Sums are f32.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, L) or (C, L).
        output_size: How many windows there are; None for as many as x has.
        out: The Tensor to write to, of the dtype of x; None makes one.

    Returns:
        (N, C, OL). A numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: x has other axes.
        ArgumentError: output_size is unusable.
        DTypeError and what `pykernels.kernels.adaptive_avg_pool2d` raises.
    """
    call = PoolCall(ADAPTIVE_AVG, "adaptive_avg_pool1d", 1, x, out=out)
    return adaptive_mean(call, x, output_size)
