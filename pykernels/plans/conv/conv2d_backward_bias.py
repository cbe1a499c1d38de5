"""conv2d_backward_bias: sums over splits of pixels, and the sum of the splits."""

from __future__ import annotations

from pykernels._generated.bodies import conv2d_backward_bias as body
from pykernels.errors import ShapeError
from pykernels.plans.cost import split_k
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .geometry import LayoutName, channels_first
from .reduce import reduce_step

__all__ = ["plan"]

OP = "conv2d_backward_bias"
SUM = body.CONFIGS["sum256"]


def plan(
    caps: Caps, scratch: Scratch, dy: View, dst: View, layout: LayoutName = "NCHW"
) -> list[Step]:
    """One dispatch, or two if one workgroup for each block of channels would leave the device
    idle."""
    dy = channels_first(OP, "dy", dy, layout)
    channels = dy.shape[1]
    if dst.shape != (channels,):
        raise ShapeError(f"[{OP}] dst must have shape ({channels},) but has shape {dst.shape}")
    if channels == 0:
        return []
    if dy.size == 0:
        return [reduce_step(caps, scratch.empty((1,), "float32"), dst, 0)]
    dy, vec = _pixels(dy)
    item = dy.dtype.itemsize
    # Neighbouring invocations read elements that are neighbours in memory.
    bits = min((channels - 1).bit_length(), 5) if dy.strides[-1] == item else 0
    across, step = cdiv(channels, 1 << bits), SUM.UNROLL * (SUM.threads >> bits)
    pixels = dy.size // channels
    busy = caps.tuning.conv.conv2d_backward_bias.waves * caps.tuning.device.units
    splits = max(min(cdiv(busy, across), pixels // step), 1)
    splits, each = split_k(pixels, splits, step)
    out, after = dst, []
    if splits > 1 or dst.dtype.itemsize < item:
        out = scratch.empty((splits, channels), "float32")
        after = [reduce_step(caps, out, dst, splits)]
    main = body.step(
        caps, dy, out.as_rank(2), V=vec, channels=channels, lane_bits=bits, across=across,
        split_depth=each, is_partial=int(bool(after)),
    )  # fmt: skip
    return [main, *after]


def _pixels(dy: View) -> tuple[View, int]:
    """The view with channels last, and the number of pixels in a vector."""
    order = (0, 2, 3, 1)
    shape, strides = ([v[a] for a in order] for v in (dy.shape, dy.strides))
    fours = dy.vectorizable(4, 3)
    if fours:
        shape[2], strides[2] = shape[2] // 4, 4 * dy.dtype.itemsize
    return dy.with_layout(shape, strides), 4 if fours else 1
