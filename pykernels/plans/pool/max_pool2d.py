"""max_pool2d: windows of one size."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .forward import pool
from .windows import OptionalPair, Pair, check_images, check_padding, windows

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    index: View | None,
    dst: View,
    kernel: Pair = 1,
    stride: OptionalPair = None,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> list[Step]:
    """One dispatch, none for an empty dst."""
    check_images("max_pool2d", "x", x, "dst", dst)
    size, out = (x.shape[2], x.shape[3]), (dst.shape[2], dst.shape[3])
    check_padding("max_pool2d", kernel, padding, dilation)
    w = windows("max_pool2d", size, out, kernel, stride, padding, dilation)
    return pool(caps, scratch, "max", x, index, dst, w)
