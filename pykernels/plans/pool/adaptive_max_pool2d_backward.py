"""adaptive_max_pool2d_backward: each element of the image sums the gradients of the windows whose
maximum it is."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .backward import pool_backward
from .windows import adaptive_windows, check_images

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, dy: View, index: View, dst: View) -> list[Step]:
    """One dispatch, none for an empty dst."""
    check_images("adaptive_max_pool2d_backward", "dst", dst, "dy", dy)
    size, out = (dst.shape[2], dst.shape[3]), (dy.shape[2], dy.shape[3])
    w = adaptive_windows("adaptive_max_pool2d_backward", size, out)
    return pool_backward(caps, scratch, dy, index, dst, w)
