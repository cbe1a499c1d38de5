"""avg_pool2d: windows of one size."""

from __future__ import annotations

from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .forward import pool
from .windows import OptionalPair, Pair, check_images, windows

__all__ = ["check_divisor", "plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    dst: View,
    kernel: Pair = 1,
    stride: OptionalPair = None,
    padding: Pair = 0,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> list[Step]:
    """One dispatch, none for an empty dst."""
    check_images("avg_pool2d", "x", x, "dst", dst)
    check_divisor("avg_pool2d", divisor_override)
    size, out = (x.shape[2], x.shape[3]), (dst.shape[2], dst.shape[3])
    w = windows("avg_pool2d", size, out, kernel, stride, padding, 1, count_include_pad)
    return pool(caps, scratch, "avg", x, None, dst, w, divisor_override or 0)


def check_divisor(op: str, divisor: int | None) -> None:
    """Check a divisor: ArgumentError for 0, and for numbers that do not fit 64 bits."""
    if divisor is not None and (divisor == 0 or abs(divisor) >= 1 << 63):
        raise ArgumentError(
            f"[{op}] divisor_override must be an integer of 64 bits, not 0, but is {divisor}"
        )
