"""cross_entropy: reads rows, or pieces of long rows, once; then sums their losses."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels._generated.bodies import (
    cross_entropy_combine,
    cross_entropy_probs,
    cross_entropy_rows,
)
from pykernels.steps import Caps, Scratch, Step, cdiv, forced
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .classes import (
    THREADS,
    Numbers,
    RowPart,
    check_classes,
    column,
    numbers_of,
    parts_of_rows,
    take,
)  # fmt: skip
from .total import check_outputs, delivered, total

__all__ = ["CrossEntropyChoice", "choose", "plan"]

BATCH = cross_entropy_rows.CONFIGS["batch8"].N
WORDS = 6  # words of the state of a piece
ROUNDS = 8  # fewest rounds of a piece, so that the cost of its state is relatively small
MOST_ROUNDS = 4096  # most rounds of one invocation


class CrossEntropyChoice(NamedTuple):
    """The number of pieces that a row is cut into."""

    pieces: int


def choose(caps: Caps, groups: int, rounds: int) -> CrossEntropyChoice:
    """The number of pieces of a row of `rounds` rounds; it is larger if `groups` workgroups would
    leave half of the device idle."""
    given = forced(caps, CrossEntropyChoice, groups, rounds)
    if given is not None:
        return CrossEntropyChoice(min(given.pieces, rounds))
    busy = caps.tuning.device.units * caps.tuning.reduce.groups
    pieces = min(busy // groups, rounds // ROUNDS) if 2 * groups <= busy else 1
    return CrossEntropyChoice(max(pieces, cdiv(rounds, MOST_ROUNDS), 1))


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    target: View,
    weight: View | None,
    stats: View | None,
    total_: View | None,
    dst: View,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> list[Step]:
    """One dispatch for the losses of rows, or two if rows are cut; then one for their sum or
    mean."""
    op = "cross_entropy"
    check_classes(op, x, target, weight)
    lead, classes = x.shape[:-1], x.shape[-1]
    check_outputs(op, lead, stats, total_, dst, reduction)
    numbers = numbers_of(op, ignore_index, label_smoothing, classes)
    result, after = delivered(caps, scratch, dst)
    losses = result
    if reduction != "none":
        losses = scratch.empty((*lead, 2), "float32")
    else:
        losses = column(losses)
    steps = []
    if x.size:
        probs = target.dtype.kind == "f"
        views = {"x": x, "target": target if probs else column(target), "dst": losses}
        if stats is not None:
            views["stats"] = stats
        if x.ndim == 1:  # one row
            views = {name: v.as_rank(2) for name, v in views.items()}
        watch = None if probs else Watch("target", classes, lead, lead or (1,))
        before, parts, behind = parts_of_rows(caps, scratch, views, watch)
        steps += before
        for part in parts:
            steps += _rows(caps, scratch, part, weight, numbers)
        steps += behind
    if reduction != "none":
        flat = losses.with_layout((math.prod(lead), 2), (8, 4))
        mean = reduction == "mean"
        steps += total(caps, scratch, flat, total_, result, mean=mean)
    return [*steps, *after]


def _rows(
    caps: Caps,
    scratch: Scratch,
    part: RowPart,
    weight: View | None,
    numbers: Numbers,
) -> list[Step]:
    """The steps that compute the losses of a part's rows."""
    x, target, dst, stats = (part.views.get(n) for n in ("x", "target", "dst", "stats"))
    assert x is not None and target is not None and dst is not None
    probs = target.dtype.kind == "f"
    taken = take(x, [target] if probs else [], BATCH)
    rows, vectors = math.prod(x.shape[:-1]), x.shape[-1] // taken.vec
    rounds = cdiv(vectors, taken.lanes * BATCH)
    pieces = choose(caps, cdiv(rows, THREADS >> taken.lane_bits), rounds).pieces
    depth = cdiv(rounds, pieces) * taken.lanes * BATCH
    pieces = cdiv(vectors, depth)
    states = dst
    if pieces > 1:
        states = scratch.empty((*x.shape[:-1], WORDS * pieces), "float32")
    # A missing output needs a binding, too: scratch that no input uses.
    own = stats if pieces == 1 else None
    has_stats = int(own is not None)
    if own is None:
        own = scratch.empty((1,), "float32").with_layout((*x.shape[:-1], 2), (0,) * x.ndim)
    name = "batch8" if vectors > taken.lanes else "batch1"
    how = {
        "lanes_apart": int(taken.apart), "lane_bits": taken.lane_bits, "pieces": pieces,
        "depth": depth, "has_stats": has_stats,
    }  # fmt: skip
    if probs:
        step = cross_entropy_probs.step(
            caps, x, target, weight, own, states, VEC=taken.vec, BATCH=name,
            hard=numbers.hard, spread=numbers.spread, **how,
        )  # fmt: skip
    else:
        step = cross_entropy_rows.step(
            caps, x, target, weight, own, states, VEC=taken.vec, BATCH=name, watch=part.watch,
            **numbers._asdict(), **how,
        )  # fmt: skip
    if pieces == 1:
        return [step]
    return [step, cross_entropy_combine.step(caps, states, stats, dst, pieces=pieces)]
