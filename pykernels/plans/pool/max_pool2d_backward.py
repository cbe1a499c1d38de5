"""max_pool2d_backward: each element of the image sums the gradients of the windows whose maximum it
is."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .backward import pool_backward
from .windows import OptionalPair, Pair, check_images, check_padding, windows

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    dy: View,
    index: View,
    dst: View,
    kernel: Pair = 1,
    stride: OptionalPair = None,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> list[Step]:
    """One dispatch, none for an empty dst."""
    check_images("max_pool2d_backward", "dst", dst, "dy", dy)
    size, out = (dst.shape[2], dst.shape[3]), (dy.shape[2], dy.shape[3])
    check_padding("max_pool2d_backward", kernel, padding, dilation)
    w = windows("max_pool2d_backward", size, out, kernel, stride, padding, dilation)
    return pool_backward(caps, scratch, dy, index, dst, w)
