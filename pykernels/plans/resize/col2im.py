"""col2im: one dispatch that gathers."""

from __future__ import annotations

import math

from pykernels._generated.bodies import col2im as body
from pykernels.errors import LimitError, ShapeError
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .windows import Pair, check, windows

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    dst: View,
    kernel: Pair = 1,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> list[Step]:
    """One step, none for an empty dst."""
    if dst.ndim != 4 or x.ndim != 3:
        raise ShapeError(
            "[col2im] x must have axes (N, C KH KW, windows) and dst (N, C, H, W) but they have "
            f"shapes {x.shape} and {dst.shape}"
        )
    w = windows("col2im", (dst.shape[2], dst.shape[3]), kernel, stride, padding, dilation)
    check("col2im", dst, x, w)
    if dst.size == 0:
        return []
    common = [math.gcd(s, d) for s, d in zip(w.stride, w.dilation, strict=True)]
    step = [s // g for s, g in zip(w.stride, common, strict=True)]
    inverse = [_inverse(w.dilation[a] // common[a], step[a]) for a in range(2)]
    if (w.kernel[0] // step[0] + 1) * (w.kernel[1] // step[1] + 1) > MAX_ROUNDS:
        raise LimitError(f"a pixel is in too many windows of {w.kernel}")
    return [
        body.step(
            caps, x, dst, out_h=w.out[0], out_w=w.out[1], kernel_h=w.kernel[0],
            kernel_w=w.kernel[1], stride_h=w.stride[0], stride_w=w.stride[1], pad_h=w.padding[0],
            pad_w=w.padding[1], dilation_h=w.dilation[0], dilation_w=w.dilation[1],
            common_h=common[0], common_w=common[1], next_h=step[0], next_w=step[1],
            inverse_h=inverse[0], inverse_w=inverse[1],
        )
    ]  # fmt: skip


def _inverse(a: int, n: int) -> int:
    """The inverse of a modulo n, which have no common factor."""
    return next((i for i in range(n) if a * i % n == 1), 0)
