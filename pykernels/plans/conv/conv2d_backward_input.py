"""conv2d_backward_input: the arguments of a call as a transposed convolution."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.plans.groups import by_group
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .geometry import (
    LayoutName,
    Padding,
    Pair,
    channels_first,
    check_group,
    check_shape,
    geometry,
    kernel_of,
    reorder,
)
from .phases import by_phases
from .select import choose

__all__ = ["choose", "plan"]

OP = "conv2d_backward_input"


def plan(
    caps: Caps,
    scratch: Scratch,
    dy: View,
    w: View,
    dst: View,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: LayoutName = "NCHW",
) -> list[Step]:
    """The dispatches of one gradient."""
    kernel = kernel_of(OP, w)
    dy, dst = channels_first(OP, "dy", dy, layout), channels_first(OP, "dst", dst, layout)
    g = geometry(OP, kernel, stride, padding, dilation)
    count = check_group(
        OP, groups, {"the channels of dst": dst.shape[1], "the rows of w": w.shape[0]}
    )
    if w.shape[1] * count != dst.shape[1]:
        raise ShapeError(
            f"[{OP}] w must have {dst.shape[1]} / {count} channels of dst for each group on its "
            f"axis 1 but has shape {w.shape}"
        )
    want = (dst.shape[0], w.shape[0], *g.output(OP, (dst.shape[2], dst.shape[3])))
    check_shape(OP, "dy", dy, want, layout)
    transposed = reorder(by_group(w, count, 0), (0, 2, 1, 3, 4))
    return by_phases(
        caps,
        scratch,
        by_group(dy, count, 1),
        transposed,
        None,
        by_group(dst, count, 1),
        g,
        0,
        "dy",
    )
