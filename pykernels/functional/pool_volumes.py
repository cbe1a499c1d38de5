"""Pools of volumes: a pool of the images, then a pool over their planes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pykernels._generated.kernels.avg_pool2d import KERNEL as _AVG_KERNEL
from pykernels._generated.kernels.max_pool2d import KERNEL as _MAX_KERNEL
from pykernels._generated.operations.pool import avg_pool2d, max_pool2d
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.runtime.whole import whole

from .conv_volumes import three

__all__ = ["avg_pool3d", "max_pool3d"]

_AVG, _MAX = replace(_AVG_KERNEL, name="avg_pool3d"), replace(_MAX_KERNEL, name="max_pool3d")
Three = int | Sequence[int]


@again
@whole
def max_pool3d(
    x: Array, kernel_size: Three, stride: Three | None = None, padding: Three = 0,
    dilation: Three = 1,
) -> Array:  # fmt: skip
    """The largest element of each window, as torch.nn.functional.max_pool3d.

    Images are pooled first, then their planes: two launches.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, D, H, W) or without N.
        kernel_size: The size of a window, an integer or (planes, rows, columns).
        stride: Distance between windows; None is kernel_size.
        padding: Planes, rows and columns of -inf on each side, at most half of a window.
        dilation: Distance between the elements of a window.

    Returns:
        (N, C, OD, OH, OW) of x's dtype: a numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: x does not have four or five axes, or there is no window.
        ArgumentError: another argument is unusable.
        DTypeError and the errors of `pykernels.kernels.max_pool2d`.
    """
    call = Call(_MAX, x)
    t, kernel, steps, around = _read(call, x, kernel_size, stride, padding)
    gaps = three(call.op, "dilation", dilation)
    y = _pooled(max_pool2d, t, kernel, steps, around, (((gaps[0], 1),), (gaps[1:],)))
    return call.leave(y[0] if x.ndim == 4 else y)


@again
@whole
def avg_pool3d(
    x: Array, kernel_size: Three, stride: Three | None = None, padding: Three = 0,
    count_include_pad: bool = True,
) -> Array:  # fmt: skip
    """The mean of each window, as torch.nn.functional.avg_pool3d.

    Images are pooled first, then their planes: two launches. Sums are f32.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, D, H, W) or without N.
        kernel_size: The size of a window, an integer or (planes, rows, columns).
        stride: Distance between windows; None is kernel_size.
        padding: Planes, rows and columns of zeros on each side, at most half of a window.
        count_include_pad: True counts these zeros in the mean.

    Returns:
        (N, C, OD, OH, OW) of x's dtype: a numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: x does not have four or five axes, or there is no window.
        ArgumentError: another argument is unusable.
        DTypeError and the errors of `pykernels.kernels.avg_pool2d`.
    """
    call = Call(_AVG, x)
    t, kernel, steps, around = _read(call, x, kernel_size, stride, padding)
    counted = flag(call.op, "count_include_pad", count_include_pad)
    wide = t if t.dtype == "float32" else t.astype("float32")
    y = _pooled(_mean(counted), wide, kernel, steps, around, ((), ()))
    y = y if y.dtype == t.dtype else y.astype(t.dtype)
    return call.leave(y[0] if x.ndim == 4 else y)


def _read(
    call: Call, x: Array, kernel_size: Three, stride: Three | None, padding: Three
) -> tuple[Tensor, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    op, t = call.op, call.tensor("x", x)
    if t.ndim not in (4, 5):
        raise ShapeError(
            f"[{op}] x must have axes (N, C, D, H, W) or (C, D, H, W) but has shape {t.shape}"
        )
    kernel = three(op, "kernel_size", kernel_size)
    steps = kernel if stride is None else three(op, "stride", stride)
    t = t[None] if t.ndim == 4 else t
    return t, kernel, steps, three(op, "padding", padding, 0)


def _mean(counted: bool) -> Any:
    def pool(x: Any, kernel: Any, steps: Any, around: Any) -> Any:
        return avg_pool2d(x, kernel, steps, around, count_include_pad=counted)

    return pool


def _planes(t: Tensor) -> Tensor:
    return t.reshape(t.shape[0], t.shape[1] * t.shape[2], *t.shape[3:])


def _pooled(pool: Any, t: Tensor, kernel: Any, steps: Any, around: Any, more: Any) -> Any:
    """A pool of the images, then a pool over the planes, with the pixels of each plane as a row."""
    y = pool(_planes(t), kernel[1:], steps[1:], around[1:], *more[1])
    size = y.shape[2:]
    y = y.reshape(*t.shape[:3], size[0] * size[1])
    y = pool(y, (kernel[0], 1), (steps[0], 1), (around[0], 0), *more[0])
    return y.reshape(*y.shape[:3], *size)
