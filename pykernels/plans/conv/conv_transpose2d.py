"""conv_transpose2d: the arguments of a call as a transposed convolution."""

from __future__ import annotations

from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.groups import by_group
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .geometry import (
    LayoutName,
    Padding,
    Pair,
    activation_number,
    channels_first,
    check_bias,
    check_group,
    check_shape,
    geometry,
    kernel_of,
    pair,
    reorder,
    transposed_size,
)
from .phases import by_phases
from .select import choose

__all__ = ["choose", "plan"]

OP = "conv_transpose2d"


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    w: View,
    bias: View | None,
    dst: View,
    stride: Pair = 1,
    padding: Padding = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: LayoutName = "NCHW",
    activation: str | None = None,
) -> list[Step]:
    """The dispatches of one transposed convolution."""
    kernel = kernel_of(OP, w)
    x, dst = channels_first(OP, "x", x, layout), channels_first(OP, "dst", dst, layout)
    if isinstance(padding, str):
        raise ArgumentError(f"[{OP}] padding must be integers but is {padding!r}")
    g = geometry(OP, kernel, stride, padding, dilation)
    more = pair(OP, "output_padding", output_padding, 0)
    count = check_group(OP, groups, {"the channels of x": x.shape[1]})
    if w.shape[0] != x.shape[1]:
        raise ShapeError(
            f"[{OP}] w must have a row for each channel of x, {x.shape[1]}, but has shape {w.shape}"
        )
    channels = w.shape[1] * count
    want = (x.shape[0], channels, *transposed_size(OP, (x.shape[2], x.shape[3]), g, more))
    check_shape(OP, "dst", dst, want, layout)
    check_bias(OP, bias, channels)
    transposed = reorder(by_group(w, count, 0), (0, 2, 1, 3, 4))
    return by_phases(
        caps,
        scratch,
        by_group(x, count, 1),
        transposed,
        bias,
        by_group(dst, count, 1),
        g,
        activation_number(OP, activation),
        "x",
    )
