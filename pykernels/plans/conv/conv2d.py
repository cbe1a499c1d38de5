"""conv2d: the arguments of a call as sums over windows."""

from __future__ import annotations

from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.groups import by_group
from pykernels.plans.matmul.product import broadcasts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .call import Windows, bound
from .geometry import (
    ORDERS,
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
)
from .select import choose
from .windows import steps

__all__ = ["choose", "plan"]

OP = "conv2d"


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    w: View,
    bias: View | None,
    residual: View | None,
    dst: View,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: LayoutName = "NCHW",
    activation: str | None = None,
    precision: str | None = None,
) -> list[Step]:
    """The dispatches of one convolution."""
    if precision not in (None, "fast", "high"):
        raise ArgumentError(f"[{OP}] precision must be None, 'fast' or 'high' but is {precision!r}")
    kernel = kernel_of(OP, w)
    x, dst = channels_first(OP, "x", x, layout), channels_first(OP, "dst", dst, layout)
    g = geometry(OP, kernel, stride, padding, dilation)
    count = check_group(OP, groups, {"the channels of x": x.shape[1], "the rows of w": w.shape[0]})
    if w.shape[1] * count != x.shape[1]:
        raise ShapeError(
            f"[{OP}] w must have {x.shape[1]} / {count} channels of x for each group on its axis 1 "
            f"but has shape {w.shape}"
        )
    want = (x.shape[0], w.shape[0], *g.output(OP, (x.shape[2], x.shape[3])))
    check_shape(OP, "dst", dst, want, layout)
    check_bias(OP, bias, w.shape[0])
    if residual is not None:
        shape = tuple(dst.shape[a] for a in ORDERS[layout])
        if not broadcasts(residual.shape, shape):
            raise ShapeError(
                f"[{OP}] residual must broadcast to {shape} but has shape {residual.shape}"
            )
        over = channels_first(OP, "residual", residual.broadcast_to(shape), layout)
        residual = by_group(over, count, 1)
    # Rounding a float16 result costs more accuracy than adding the sum in one piece.
    in_one_piece = precision == "fast" or (precision is None and dst.dtype.name == "float16")
    call = Windows(
        x=by_group(x, count, 1), w=by_group(w, count, 0), bias=bias, residual=residual,
        dst=by_group(dst, count, 1), origin=(-g.padding[0], -g.padding[2]), stride=g.stride,
        tap=g.dilation, activation=activation_number(OP, activation),
        precision=precision, in_one_piece=in_one_piece,
    )  # fmt: skip
    return bound(caps, scratch, call, lambda part: steps(caps, scratch, part), "x")
