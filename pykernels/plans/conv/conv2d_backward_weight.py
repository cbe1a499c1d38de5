"""conv2d_backward_weight: tiles of a product over all pixels, or one sum for each weight."""

from __future__ import annotations

from dataclasses import dataclass

from pykernels._generated.bodies import conv2d_backward_weight as tile_body
from pykernels._generated.bodies import conv_weight_direct, conv_weight_mma
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.cost import split_k, tile_of
from pykernels.plans.groups import by_group
from pykernels.plans.mma import UNIT, longest_sum
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from . import matrix
from .geometry import (
    Geometry,
    LayoutName,
    Padding,
    Pair,
    channels_first,
    check_group,
    check_shape,
    geometry,
    reorder,
)
from .reduce import reduce_step
from .select_mma import TILES_WEIGHT, MmaShape
from .select_weight import BK, CHUNK, DIRECT, TILES, WeightGradChoice, WeightGradShape, choose
from .window_steps import u32

__all__ = ["choose", "plan"]

OP = "conv2d_backward_weight"


@dataclass(frozen=True)
class Call:
    """dst[g, o, c, i, j] = sum over n, y, x of dy[n, g, o, y, x] x[n, g, c, y s + .., x s + ..]."""

    dy: View  # (N, groups, O, OH, OW)
    x: View  # (N, groups, C, H, W)
    dst: View  # (groups, O, C, KH, KW)
    g: Geometry

    @property
    def shape(self) -> WeightGradShape:
        groups, rows, channels, kh, kw = self.dst.shape
        n, _, _, height, width = self.dy.shape
        return WeightGradShape(groups, rows, channels, kh * kw, n * height * width)


def plan(
    caps: Caps,
    scratch: Scratch,
    dy: View,
    x: View,
    dst: View,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: LayoutName = "NCHW",
) -> list[Step]:
    """The dispatches of one gradient."""
    call = _call(dy, x, dst, stride, padding, dilation, groups, layout)
    if dst.size == 0:
        return []
    if call.dy.size == 0:
        return [_sum(caps, scratch.empty((1,), "float32"), call, 0)]
    call, before = _one_dtype(caps, scratch, call)
    choice = choose(caps, call.shape._replace(mma=_mma_shape(caps, call)))
    if choice.body in TILES_WEIGHT:
        return _matrix(caps, scratch, call, choice)
    step = _direct if choice.body == DIRECT else _tiled
    return [*before, *step(caps, scratch, call, choice)]


def _call(
    dy: View, x: View, dst: View, stride: Pair, padding: Padding, dilation: Pair, groups: int,
    layout: str,
) -> Call:  # fmt: skip
    """Check the arguments, and cut their channels into groups."""
    if dst.ndim != 4:
        raise ShapeError(f"[{OP}] dst must have four axes but has shape {dst.shape}")
    rows, channels, kh, kw = dst.shape
    g = geometry(OP, (kh, kw), stride, padding, dilation)
    dy, x = channels_first(OP, "dy", dy, layout), channels_first(OP, "x", x, layout)
    count = check_group(OP, groups, {"the channels of x": x.shape[1], "the channels of dy": rows})
    if channels * count != x.shape[1]:
        raise ShapeError(
            f"[{OP}] dst must have {x.shape[1]} / {count} channels of x for each group on its axis "
            f"1 but has shape {dst.shape}"
        )
    want = (x.shape[0], rows, *g.output(OP, (x.shape[2], x.shape[3])))
    check_shape(OP, "dy", dy, want, layout)
    return Call(by_group(dy, count, 1), by_group(x, count, 1), by_group(dst, count, 0), g)


def _one_dtype(caps: Caps, scratch: Scratch, call: Call) -> tuple[Call, list[Step]]:
    """If only one of dy and x is f16, it is copied to f32."""
    if call.dy.dtype == call.x.dtype:
        return call, []
    half = call.x if call.x.dtype.itemsize == 2 else call.dy
    copy = scratch.empty(half.shape, "float32")
    before = cpy.plan(caps, scratch, half, copy)
    dy, x = (copy if v is half else v for v in (call.dy, call.x))
    return Call(dy, x, call.dst, call.g), before


def _sum(caps: Caps, partials: View, call: Call, splits: int) -> Step:
    """The sum of the splits, in the order of dst. In each split, the sums of all channels of a tap
    are neighbours in memory."""
    dst, taps, channels = call.dst, call.shape.taps, call.shape.channels
    if abs(dst.strides[2]) < abs(dst.strides[4]):
        dst, taps, channels = _channels_last(dst), 1, 1
    return reduce_step(caps, partials, dst, splits, taps, channels)


def _channels_last(dst: View) -> View:
    return reorder(dst, (0, 1, 3, 4, 2))


def _target(scratch: Scratch, call: Call, splits: int) -> View:
    """Scratch for partial sums, (splits, groups, rows, KH, KW, channels)."""
    return scratch.empty((splits, *_channels_last(call.dst).shape), "float32")


def _pixels(call: Call, each: int, ahead: int) -> dict[str, int]:
    """The params that all bodies have. From one step to the next, an invocation advances by `ahead`
    pixels."""
    g, s = call.g, call.shape
    out_h, out_w = call.dy.shape[3:]
    return {
        "rows": s.rows, "kernel_w": g.kernel[1], "depth": s.pixels, "split_depth": each,
        "out_h": out_h, "out_w": out_w,
        "step_x": ahead % out_w, "step_y": ahead // out_w % out_h,
        "step_n": ahead // out_w // out_h, "stride_h": g.stride[0], "stride_w": g.stride[1],
    }  # fmt: skip


def _common(call: Call, each: int, ahead: int) -> dict[str, int]:
    """Parameters of the bodies that read unpacked images."""
    g, s = call.g, call.shape
    return {
        **_pixels(call, each, ahead), "channels": s.channels, "members": s.groups,
        "height": call.x.shape[3], "width": call.x.shape[4],
        "y_first": -g.padding[0] % (1 << 32), "x_first": -g.padding[2] % (1 << 32),
        "tap_h": g.dilation[0], "tap_w": g.dilation[1],
    }  # fmt: skip


def _direct(caps: Caps, scratch: Scratch, call: Call, choice: WeightGradChoice) -> list[Step]:
    s = call.shape
    splits, each = split_k(s.pixels, choice.splits, CHUNK.threads)
    partials = _target(scratch, call, splits)
    step = conv_weight_direct.step(
        caps, call.dy, call.x, partials, taps=s.taps, **_common(call, each, CHUNK.threads)
    )
    return [step, _sum(caps, partials, call, splits)]


def _tiled(caps: Caps, scratch: Scratch, call: Call, choice: WeightGradChoice) -> list[Step]:
    s, tile = call.shape, choice.body
    own = TILES[tile]
    splits, each = split_k(s.pixels, choice.splits, BK)
    out, after = call.dst.with_layout((1, *call.dst.shape), (0, *call.dst.strides)), []
    if splits > 1 or call.dst.dtype.itemsize < call.x.dtype.itemsize:
        partials = _target(scratch, call, splits)
        after = [_sum(caps, partials, call, splits)]
        out = reorder(partials, (0, 1, 2, 5, 3, 4))
    fours = s.channels % 4 == 0
    xv = 4 if call.x.vectorizable(4, 2) else 1
    yv = 4 if call.dy.vectorizable(4, 2) else 1
    step = tile_body.step(
        caps, call.dy, call.x, out,
        TILE=tile, FORM="fours" if fours else "any", XV=xv, YV=yv,
        cols=s.cols, across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
        is_partial=int(bool(after)), **_common(call, each, BK),
    )  # fmt: skip
    return [step, *after]


# -- matrix units ---------------------------------------------------------------------------------


def _span(call: Call) -> tuple[int, int]:
    g = call.g
    return matrix.span((call.dy.shape[3], call.dy.shape[4]), g.stride, g.kernel, g.dilation)


def _mma_shape(caps: Caps, call: Call) -> MmaShape | None:
    """The product of a call on matrix units; None if they cannot compute it."""
    if caps.matrix is None or not matrix.is_halves(call.dy, call.x):
        return None
    s, size = call.shape, _span(call)
    channels, rows = (cdiv(n, UNIT) * UNIT for n in (s.channels, s.rows))
    image = 2 * s.groups * call.x.shape[0] * size[0] * size[1] * channels
    grads = 2 * s.groups * s.pixels * rows
    if image + grads > caps.max_binding:
        return None
    cols = s.taps * channels
    return MmaShape(s.groups, s.rows, cols, s.pixels, image + grads, call.dst.size)


def _matrix(caps: Caps, scratch: Scratch, call: Call, choice: WeightGradChoice) -> list[Step]:
    """The steps of a call on matrix units. First they pack dy, and x with its padding, so that the
    channels of a pixel lie next to each other."""
    assert caps.matrix is not None
    s, own = call.shape, TILES_WEIGHT[choice.body]
    first = (-call.g.padding[0], -call.g.padding[2])
    size = (call.dy.shape[3], call.dy.shape[4])
    (x, dy), before = matrix.units(
        caps, scratch, matrix.Image(call.x, first, _span(call), UNIT),
        matrix.Image(call.dy, (0, 0), size, UNIT, even=matrix.PIXELS),
    )  # fmt: skip
    splits, each = split_k(s.pixels, choice.splits, own.BK)
    partials = _target(scratch, call, splits)
    channels = x.shape[5] * 2 // UNIT
    # the packed image has one chunk
    x = x.with_layout((x.shape[0], *x.shape[2:]), (x.strides[0], *x.strides[2:]))
    cols = s.taps * channels * UNIT
    step = conv_weight_mma.step(
        caps, x, matrix.pixel_rows(dy),
        partials.with_layout(
            (splits, s.groups, s.rows, s.cols), (*partials.strides[:3], partials.strides[5])
        ),
        MMA=caps.matrix.dialect, TILE=tile_of(choice.body),
        DV=4 if s.channels % 4 == 0 else 1, cols=cols, own_channels=s.channels,
        splits=splits, slice=longest_sum(s.pixels, own.BK), across=cdiv(cols, own.BN),
        down=cdiv(s.rows, own.BM), channels=channels,
        **_pixels(call, each, own.BK),
        tap_h=u32(call.g.dilation[0] * x.strides[2] // 16),
        tap_w=u32(call.g.dilation[1] * x.strides[3] // 16),
    )  # fmt: skip
    return [*before, step, _sum(caps, partials, call, splits)]
