"""Gradients of pools: each element of an image collects its gradient from the windows that contain
it."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import pool_backward_block, pool_backward_windows
from pykernels.errors import LimitError
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.parts import parts
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .forward import by_channels, check_dtype, in_vectors, vectorizable
from .windows import Axis, Windows, is_whole

__all__ = ["pool_backward"]

BLOCKS = pool_backward_block.CONFIGS


class _Back(NamedTuple):
    """The windows around element i: from (max(i * step + before, reach) - reach) // unit on, up to
    (i * step + after) // unit."""

    step: int
    unit: int
    before: int
    reach: int
    after: int


def pool_backward(
    caps: Caps,
    scratch: Scratch,
    dy: View,
    index: View | None,
    dst: View,
    w: Windows,
    divisor: int = 0,
) -> list[Step]:
    """The steps for views of four axes: with an index, the gradient of a maximum; without, the
    gradient of a mean."""
    check_dtype("dst", dy, dst)
    if dst.size == 0:
        return []
    if index is None and is_whole(w) and w[0].size * w[1].size > 1:
        return _spread(caps, scratch, dy, dst, divisor or w[0].size * w[1].size)
    views = {"dy": dy, "dst": dst}
    if index is not None:
        views["index"] = index
    along = [{name: axis for name in views} for axis in range(2)]
    found = parts(caps, views, along)
    return [_step(caps, p.views, w, divisor) for p in found]


def _spread(caps: Caps, scratch: Scratch, dy: View, dst: View, divisor: int) -> list[Step]:
    """The steps of the gradient of means of whole images, which is one number for all elements of
    an image."""
    share = scratch.empty(dy.shape, dst.dtype.name)
    one = Axis(1, 1, 1, 1, 1, 0, 1, 0, 1)
    steps = pool_backward(caps, scratch, dy, None, share, (one, one), divisor)
    return [*steps, *cpy.plan(caps, scratch, share.broadcast_to(dst.shape), dst)]


def _step(caps: Caps, views: dict[str, View], w: Windows, divisor: int) -> Step:
    dy, dst, index = views["dy"], views["dst"], views.get("index")
    op = "avg" if index is None else "max"
    h, v = w
    config = "" if by_channels(dst) else _block(w)
    if config:
        return pool_backward_block.step(
            caps, dy, index, dst, OP=op, WINDOW=config, low_h=h.low, low_w=v.low, high_h=h.high,
            high_w=v.high, divisor=divisor,
        )  # fmt: skip
    rows, cols = _back(h), _back(v)
    if _rounds(rows) * _rounds(cols) > MAX_ROUNDS:
        raise LimitError(f"elements are in too many windows of {h.last} x {v.last}")
    first = by_channels(dst) or by_channels(dy)
    n = 4 if vectorizable(views) else 1
    dy, dst = in_vectors(dy, n), in_vectors(dst, n)
    index = None if index is None else in_vectors(index, n)
    return pool_backward_windows.step(
        caps, dy, index, dst, OP=op, V=n, channels_first=int(first), step_h=h.step, step_w=v.step,
        last_h=h.last, last_w=v.last, unit_h=h.unit, unit_w=v.unit, pad_h=h.pad, pad_w=v.pad,
        back_step_h=rows.step, back_step_w=cols.step, back_unit_h=rows.unit,
        back_unit_w=cols.unit, before_h=rows.before, before_w=cols.before, reach_h=rows.reach,
        reach_w=cols.reach, after_h=rows.after, after_w=cols.after, low_h=h.low, low_w=v.low,
        high_h=h.high, high_w=v.high, divisor=divisor,
    )  # fmt: skip


def _block(w: Windows) -> str:
    """The configuration of pool_backward_block for these windows, "" if there is none."""
    h, v = w
    if h.unit != 1 or v.unit != 1 or h.dilation != 1 or v.dilation != 1:
        return ""
    for name, c in BLOCKS.items():
        fits = h.last == c.K and h.step == c.S and h.pad == c.PAD
        if fits and v.last == c.K and v.step == c.S and v.pad == c.PAD:
            return name
    return ""


def _back(a: Axis) -> _Back:
    if a.unit == 1:
        return _Back(1, a.step, a.pad + a.step, a.last, a.pad + a.step)
    return _Back(a.out, a.size, 0, 0, a.out + a.size - 1)


def _rounds(b: _Back) -> int:
    """The largest number of windows that contain an element."""
    return cdiv(b.after - b.before + b.reach, b.unit) + 1
