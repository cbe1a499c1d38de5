"""Pools: one dispatch of pool_block for common windows, or of pool_windows for any windows."""

from __future__ import annotations

from typing import Literal

from pykernels._generated.bodies import pool_block, pool_windows
from pykernels.errors import DTypeError, LimitError
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.parts import parts
from pykernels.plans.reduce import reduction
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .windows import Windows, is_whole

__all__ = ["block", "by_channels", "check_dtype", "in_vectors", "pool", "vectorizable"]

Op = Literal["max", "avg"]
BLOCKS = pool_block.CONFIGS


def pool(
    caps: Caps,
    scratch: Scratch,
    kind: Op,
    x: View,
    index: View | None,
    dst: View,
    w: Windows,
    divisor: int = 0,
) -> list[Step]:
    """The steps for views of four axes; a mean divides its sum by `divisor`, unless that is 0."""
    check_dtype("dst", x, dst)
    if dst.size == 0:
        return []
    if divisor == 0 and is_whole(w):
        name = "mean" if kind == "avg" else "max"
        steps = reduction.plan(caps, scratch, x, dst, (2, 3), name=name)
        if index is not None:
            steps += reduction.plan(caps, scratch, x, index, (2, 3), name="argmax")
        return steps
    views = {"x": x, "dst": dst}
    if index is not None:
        views["index"] = index
    along = [{name: axis for name in views} for axis in range(2)]
    found = parts(caps, views, along)
    return [_step(caps, kind, p.views, w, divisor) for p in found]


def check_dtype(name: str, x: View, dst: View) -> None:
    """DTypeError if the tensors have different dtypes."""
    if x.dtype != dst.dtype:
        raise DTypeError(
            f"{name} must have the dtype of its input, {x.dtype.name}, but is {dst.dtype.name}"
        )


def _step(caps: Caps, kind: Op, views: dict[str, View], w: Windows, divisor: int) -> Step:
    x, dst, index = views["x"], views["dst"], views.get("index")
    op = "index" if index is not None else kind
    h, v = w
    if not by_channels(x):
        config = block(w)
        if config:
            columns = 4 // BLOCKS[config].S
            fours = (
                x.vectorizable(4)
                and all([t.vectorizable(columns) for n, t in views.items() if n != "x"])
                and v.pad == BLOCKS[config].PAD
                and v.out * v.step <= v.size
            )
            return pool_block.step(
                caps, x, index, dst, OP=op, WINDOW=config, V=4 if fours else 1,
                D=columns if fours else 1, pad_h=h.pad, pad_w=v.pad, low_h=h.low, low_w=v.low,
                high_h=h.high, high_w=v.high, divisor=divisor,
            )  # fmt: skip
    if cdiv(h.last, h.unit * h.dilation) * cdiv(v.last, v.unit * v.dilation) > MAX_ROUNDS:
        raise LimitError(f"windows of {h.last // h.unit} x {v.last // v.unit} are too large")
    first = by_channels(x) or by_channels(dst)
    n = 4 if vectorizable(views) else 1
    x, dst = in_vectors(x, n), in_vectors(dst, n)
    index = None if index is None else in_vectors(index, n)
    return pool_windows.step(
        caps, x, index, dst, OP=op, V=n, channels_first=int(first), step_h=h.step, step_w=v.step,
        last_h=h.last, last_w=v.last, unit_h=h.unit, unit_w=v.unit, pad_h=h.pad, pad_w=v.pad,
        dilation_h=h.dilation, dilation_w=v.dilation, low_h=h.low, low_w=v.low, high_h=h.high,
        high_w=v.high, divisor=divisor,
    )  # fmt: skip


def block(w: Windows) -> str:
    """The configuration of pool_block for these windows, "" if there is none."""
    h, v = w
    if h.unit != 1 or v.unit != 1 or h.dilation != 1 or v.dilation != 1:
        return ""
    for name, c in BLOCKS.items():
        if h.last == c.K and v.last == c.K and h.step == c.S and v.step == c.S:
            return name
    return ""


def by_channels(x: View) -> bool:
    """True if channels are neighbours in memory, and columns are not."""
    item = x.dtype.itemsize
    return x.strides[1] == item and x.shape[1] > 1 and x.strides[3] != item


def vectorizable(views: dict[str, View]) -> bool:
    """True if all views may be read and written in vectors of four channels."""
    return all([view.vectorizable(4, 1) for view in views.values()])


def in_vectors(view: View, n: int) -> View:
    """The view with channels in vectors of n."""
    if n == 1:
        return view
    batch, channels, *sizes = view.shape
    first, step, *steps = view.strides
    return view.with_layout((batch, channels // n, *sizes), (first, n * step, *steps))
