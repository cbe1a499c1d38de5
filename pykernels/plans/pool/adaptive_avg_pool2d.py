"""adaptive_avg_pool2d: windows that divide an image."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .forward import pool
from .windows import adaptive_windows, check_images

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View) -> list[Step]:
    """One dispatch, none for an empty dst."""
    check_images("adaptive_avg_pool2d", "x", x, "dst", dst)
    size, out = (x.shape[2], x.shape[3]), (dst.shape[2], dst.shape[3])
    w = adaptive_windows("adaptive_avg_pool2d", size, out)
    return pool(caps, scratch, "avg", x, None, dst, w)
