"""im2col: one dispatch."""

from __future__ import annotations

from pykernels._generated.bodies import im2col as body
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.fours import in_fours
from pykernels.steps import Caps, Scratch, Step, cdiv
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
    if x.ndim != 4:
        raise ShapeError(f"[im2col] x must have axes (N, C, H, W) but has shape {x.shape}")
    w = windows("im2col", (x.shape[2], x.shape[3]), kernel, stride, padding, dilation)
    check("im2col", x, dst, w)
    if x.dtype != dst.dtype:
        raise DTypeError(
            f"[im2col] dst must have the dtype of x, {x.dtype.name}, but is {dst.dtype.name}"
        )
    if dst.size == 0:
        return []
    if x.size == 0:
        raise ShapeError(f"[im2col] x must have pixels but has shape {x.shape}")
    fours = in_fours(dst)
    count = dst.shape[2]
    return [
        body.step(
            caps, x, dst if fours is None else fours, S=dst.dtype.itemsize,
            V=1 if fours is None else 4, windows=count, quads=cdiv(count, 4), out_w=w.out[1],
            kernel_h=w.kernel[0], kernel_w=w.kernel[1], stride_h=w.stride[0],
            stride_w=w.stride[1], pad_h=w.padding[0], pad_w=w.padding[1],
            dilation_h=w.dilation[0], dilation_w=w.dilation[1],
        )
    ]  # fmt: skip
