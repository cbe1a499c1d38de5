"""rope: heads of a token share its angles; one dispatch for each part that a binding holds."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import rope as body
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View
from pykernels.wgsl.watch import Watch

__all__ = ["LIMIT", "ROWS", "Turn", "check", "heads_first", "plan", "turn"]

ROWS = 1024  # rows in each half of the table of angles
LIMIT = ROWS * ROWS  # positions are below this number
STYLES = ("normal", "neox")


def plan(
    caps: Caps, scratch: Scratch, x: View, positions: View, table: View, dst: View,
    style: str = "normal",
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty dst, more if a tensor is larger than one binding."""
    if x.ndim >= 3 and dst.shape != x.shape:
        raise ShapeError(
            f"[rope] x and dst must be (..., heads, tokens, width) but have shapes {x.shape} and "
            f"{dst.shape}"
        )
    check("rope", x, positions, table, style)
    if dst.size == 0:
        return []
    shape = positions.shape
    tokens = (*x.shape[:-3], x.shape[-2])
    watch = Watch("positions", LIMIT, shape, tokens)
    # The first axis counts heads; the other axes count tokens.
    views = {
        "x": heads_first(x), "dst": heads_first(dst), "positions": positions.broadcast_to(tokens)
    }  # fmt: skip
    last = len(tokens)
    axes = [{"x": a + 1, "dst": a + 1, "positions": a} for a in range(last)]
    heads = {"x": 0, "dst": 0}
    found = [
        each
        for part in parts(caps, views, [*axes, heads])
        for each in in_levels(part, axes, Rows.LEVELS)
    ]
    steps: list[Step] = []
    number = 0
    for part in found:
        *first, head = part.first
        own = None
        if head == 0:  # so that each position is reported once
            own = watch
            if len(found) > 1:
                own = watch.part(number, tuple(first), part.views["positions"].shape, tokens)
            number += 1
        steps.append(
            _step(caps, part.views["x"], part.views["positions"], table, part.views["dst"], style,
                  own)
        )  # fmt: skip
    return steps


def check(op: str, x: View, positions: View, table: View, style: str) -> None:
    """Check the arguments that all kernels with rotary positions have."""
    if style not in STYLES:
        raise ArgumentError(f"[{op}] style must be 'normal' or 'neox' but is {style!r}")
    if x.ndim < 3:
        raise ShapeError(f"[{op}] x must be (..., heads, tokens, width) but has shape {x.shape}")
    pairs = table.shape[-1] if table.ndim else 0
    if table.shape != (2, ROWS, 2, pairs) or not 0 < 2 * pairs <= max(x.shape[-1], 2):
        raise ShapeError(
            f"[{op}] table must be (2, {ROWS}, 2, pairs) with 2 pairs in the width of x, "
            f"{x.shape[-1]}, but has shape {table.shape}"
        )
    tokens = (*x.shape[:-3], x.shape[-2])
    own = (1,) * (len(tokens) - positions.ndim) + positions.shape
    fits = len(own) == len(tokens) and own[-1] == tokens[-1]
    if not fits or any(n not in (1, m) for n, m in zip(own, tokens, strict=True)):
        raise ShapeError(
            f"[{op}] positions must have shape {tokens}, or repeat to it along leading axes, but "
            f"have shape {positions.shape}"
        )


def heads_first(view: View) -> View:
    """The view (heads, ..., tokens, width)."""

    def moved(items: tuple[int, ...]) -> tuple[int, ...]:
        return (items[-3], *items[:-3], *items[-2:])

    return view.with_layout(moved(view.shape), moved(view.strides))


def _step(
    caps: Caps, x: View, positions: View, table: View, dst: View, style: str, watch: Watch | None
) -> Step:
    own = turn(table, style, x, dst)
    return body.step(caps, x, positions, own.table, dst, watch=watch, **own.sizes)


class Turn(NamedTuple):
    """The view of the table (in vectors if the body reads vectors), and the params that bodies
    share."""

    table: View
    sizes: dict[str, int]


def turn(table: View, style: str, *tensors: View) -> Turn:
    """The params for rotating pairs of these tensors; their last axis counts columns."""
    pairs, width = table.shape[-1], tensors[0].shape[-1]
    vectors = pairs % 4 == 0 and all(t.vectorizable(4) for t in (*tensors, table))
    v = 4 if vectors else 1
    if vectors:  # one index stands for four pairs
        table = table.with_layout((*table.shape[:-1], pairs // 4), (*table.strides[:-1], 16))
    sizes = {
        "V": v, "pairs": pairs // v, "halves": int(style == "neox"), "columns": cdiv(width, 2 * v),
    }  # fmt: skip
    return Turn(table, sizes)
