"""avg_pool2d_backward: each element of the image sums its share of the gradient of each window that
contains it."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .avg_pool2d import check_divisor
from .backward import pool_backward
from .windows import OptionalPair, Pair, check_images, windows

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    dy: View,
    dst: View,
    kernel: Pair = 1,
    stride: OptionalPair = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> list[Step]:
    """One dispatch, none for an empty dst."""
    op = "avg_pool2d_backward"
    check_images(op, "dst", dst, "dy", dy)
    check_divisor(op, divisor_override)
    size, out = (dst.shape[2], dst.shape[3]), (dy.shape[2], dy.shape[3])
    w = windows(op, size, out, kernel, stride, padding, 1, count_include_pad)
    return pool_backward(caps, scratch, dy, None, dst, w, divisor_override or 0)
