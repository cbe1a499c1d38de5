"""The dispatches of one reduction: rows or columns, in one go or in pieces that are combined."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from pykernels._generated.bodies import reduce_columns, reduce_combine, reduce_rows
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.steps import Caps, Scratch, Step, cdiv, forced
from pykernels.tensors.layout import Ints, View, contiguous_strides

from .axes import Problem, problem
from .values import Values

__all__ = ["ReductionChoice", "Result", "Target", "choose", "combine", "of_nothing", "whole"]

ROWS = reduce_rows.CONFIGS
COLUMNS = reduce_columns.CONFIGS["batch8"]
COMBINE = reduce_combine.CONFIGS["batch4"]
LANES = COLUMNS.threads  # lanes of a workgroup
# One lane adds at most this many terms one after the other, so that its sum stays precise.
TERMS = 128
ACROSS = 64  # columns of a workgroup, unless columns are short
NARROW = 8  # columns of a workgroup if more columns would leave multiprocessors idle
NARROW_ROWS = 1024  # with fewer rows than this, a workgroup may have NARROW columns
STATES = 8192  # most states that a workgroup combines if there are few results


class ReductionChoice(NamedTuple):
    """The approximate number of pieces of a reduced axis."""

    pieces: int


class Result(NamedTuple):
    """Facts for every step of a call: the reduction, and how a state becomes a result."""

    op: str
    finish: int
    words: int
    divisor: float
    flip: int
    start: int  # position of the first element in its row


class Target(NamedTuple):
    """The destination of the states of one part; the states of all parts lie side by side."""

    room: View
    parts: int
    part: int


def choose(caps: Caps, groups: int, rounds: int) -> ReductionChoice:
    """The number of pieces for `groups` workgroups of `rounds` rounds each. If half of the
    multiprocessors would be idle, there are enough pieces to keep all of them busy."""
    given = forced(caps, ReductionChoice, groups, rounds)
    if given is not None:
        return given
    busy = caps.tuning.device.units * caps.tuning.reduce.groups
    pieces = 1
    if 2 * groups <= busy and rounds >= 4:
        pieces = min(busy // groups, rounds)
    return ReductionChoice(max(pieces, cdiv(rounds, TERMS)))


def whole(
    caps: Caps,
    scratch: Scratch,
    x: Values,
    dst: View,
    axes: Ints,
    result: Result,
    target: Target | None,
) -> list[Step]:
    """The steps that reduce values which one binding holds, to results or to the states of a
    part."""
    p = problem(x, dst, axes, in_order=result.op == "position")
    if p.columns:
        return _columns(caps, scratch, p, result, target)
    return _rows(caps, scratch, p, result, target)


def _rows(
    caps: Caps, scratch: Scratch, p: Problem, result: Result, target: Target | None
) -> list[Step]:
    """The steps for rows whose elements are neighbours, or lie at one stride."""
    lead = p.reduced[:-1] + p.kept
    cols = p.reduced[-1]
    pairs = zip(p.inner, p.steps, strict=True)
    x = p.values.with_layout((*lead, cols), [(*i[:-1], *s, i[-1]) for i, s in pairs])
    rows, outs = math.prod(lead), math.prod(p.kept)
    vectors = cols // x.vec
    batch = ROWS["batch8"].N
    # In rows of up to a batch of vectors, each lane loads one vector.
    lanes = _power(min(vectors if vectors <= batch else cdiv(vectors, batch), LANES))
    if rows * lanes <= caps.tuning.device.units * LANES:
        # more vectors for each lane would leave too few lanes to keep the device busy
        lanes = _power(min(vectors, LANES))
    rounds = cdiv(vectors, LANES * batch)
    pieces = choose(caps, cdiv(rows, LANES // lanes), rounds).pieces
    if pieces > 1:
        lanes = LANES
    depth = cdiv(vectors, pieces)
    if pieces > 1:
        depth = cdiv(depth, LANES * batch) * LANES * batch
    pieces = cdiv(vectors, depth)
    partial = pieces > 1 or rows > outs or target is not None
    room = scratch.empty((result.words * pieces * rows,), "uint32") if partial else p.dst
    if partial:
        dst = _states(room, lead, result.words * pieces)
    else:
        dst = p.dst.with_layout((*p.kept, 1), (*p.out_steps, 0))
    step = x.rows(
        caps, dst, OP=result.op, BATCH="batch8" if vectors > 2 * lanes else "batch1",
        outs=outs, lane_bits=_bits(lanes), pieces=pieces, depth=depth, is_partial=int(partial),
        finish=result.finish, kind=_kind(dst), flip=result.flip, start=result.start,
        divisor=result.divisor,
    )  # fmt: skip
    if not partial:
        return [step]
    return [step, *combine(caps, scratch, p, result, room, pieces * (rows // outs), target)]


def _columns(
    caps: Caps, scratch: Scratch, p: Problem, result: Result, target: Target | None
) -> list[Step]:
    """The steps for columns that are neighbours."""
    lead = p.reduced[:-1] + p.kept[:-1]
    depth, cols = p.reduced[-1], p.kept[-1]
    pairs = zip(p.inner, p.steps, strict=True)
    x = p.values.with_layout(
        (*lead, depth, cols), [(*i[:-1], *s[:-1], i[-1], s[-1]) for i, s in pairs]
    )
    batches, outs = math.prod(lead), math.prod(p.kept[:-1])
    vectors = cols // x.vec
    units = caps.tuning.device.units
    lanes = _power(min(cdiv(depth, COLUMNS.N), LANES))
    across = max(min(_power(batches * vectors), ACROSS), LANES // lanes)
    while across > NARROW and depth < NARROW_ROWS and batches * vectors < across * units:
        across //= 2  # narrower workgroups, instead of pieces and a second dispatch
    tiles = cdiv(batches * vectors, across)
    each = LANES // across * COLUMNS.N  # rows that a workgroup reads in one round
    pieces = choose(caps, tiles, cdiv(depth, each)).pieces
    rows = cdiv(depth, pieces)
    if pieces > 1:
        rows = cdiv(rows, each) * each
    pieces = cdiv(depth, rows)
    partial = pieces > 1 or batches > outs or target is not None
    room = scratch.empty((result.words * pieces * batches * cols,), "uint32") if partial else p.dst
    if partial:
        dst = _states(room, (*lead, cols), result.words * pieces)
        order = (*range(len(lead)), len(lead) + 1, len(lead))
        dst = dst.with_layout([dst.shape[a] for a in order], [dst.strides[a] for a in order])
    else:
        dst = p.dst.with_layout((*p.kept[:-1], 1, cols), (*p.out_steps[:-1], 0, p.out_steps[-1]))
    step = x.columns(
        caps, dst, OP=result.op, outs=outs, across_bits=_bits(across), tiles=tiles,
        pieces=pieces, depth=rows, is_partial=int(partial), finish=result.finish,
        kind=_kind(dst), flip=result.flip, start=result.start, divisor=result.divisor,
    )  # fmt: skip
    if not partial:
        return [step]
    return [step, *combine(caps, scratch, p, result, room, pieces * (batches // outs), target)]


def combine(
    caps: Caps,
    scratch: Scratch,
    p: Problem,
    result: Result,
    room: View,
    count: int,
    target: Target | None,
) -> list[Step]:
    """The steps that combine `count` states into each result, or into one state. Many states are
    combined in several rounds."""
    steps = []
    outs = math.prod(p.kept)
    short = p.values.computed
    while True:
        across = min(_power(outs), 32)
        lanes = min(_power(cdiv(count, COMBINE.N)), LANES // across)
        groups = cdiv(outs, LANES // lanes)
        most = lanes * COMBINE.N * MAX_ROUNDS
        last = count <= STATES or (groups >= caps.tuning.device.units and count <= most)
        depth = count if last else STATES // 2
        pieces = cdiv(count, depth)
        states = _states(room, p.kept, result.words * count)
        dst, apart = p.dst.with_layout((*p.kept, 1), (*p.out_steps, 0)), pieces
        if not last:
            room = scratch.empty((result.words * pieces * outs,), "uint32")
            dst = _states(room, p.kept, result.words * pieces)
        elif target is not None:
            apart = target.parts
            dst = _states(target.room, p.kept, (result.words - 1) * apart + 1)
            dst = replace(dst, offset=dst.offset + 4 * outs * target.part)
        steps.append(
            reduce_combine.step(
                caps, states, dst, OP=result.op, T=short, count=count, lane_bits=_bits(lanes),
                pieces=pieces, depth=depth, is_partial=int(not last or target is not None),
                apart=apart, finish=result.finish, kind=_kind(dst), divisor=result.divisor,
            )
        )  # fmt: skip
        if last:
            return steps
        count = pieces


def of_nothing(caps: Caps, scratch: Scratch, p: Problem, result: Result) -> Step:
    """The step that writes the results of no elements."""
    room = scratch.empty((1,), "uint32")
    states = room.with_layout((*p.kept, 1), (0,) * (len(p.kept) + 1))
    dst = p.dst.with_layout((*p.kept, 1), (*p.out_steps, 0))
    short = p.values.computed
    return reduce_combine.step(
        caps, states, dst, OP=result.op, T=short, count=0, lane_bits=0, pieces=1, depth=0,
        is_partial=0, apart=0, finish=result.finish, kind=_kind(dst), divisor=result.divisor,
    )  # fmt: skip


def _states(room: View, lead: Ints, states: int) -> View:
    """States as columns of rows of `lead`; neighbours in a row are neighbours in memory."""
    strides = contiguous_strides(lead, 4)
    return room.with_layout((*lead, states), (*strides, 4 * math.prod(lead)))


def _kind(dst: View) -> int:
    """The storage of results: words, halves of floats or integers, or bytes."""
    if dst.dtype.itemsize == 2:
        return 1 if dst.dtype.kind == "f" else 2
    return 3 if dst.dtype.itemsize == 1 else 0


def _bits(power: int) -> int:
    """The exponent of a power of two."""
    return power.bit_length() - 1


def _power(n: int) -> int:
    """The smallest power of two that is n or more."""
    return 1 << max(n - 1, 0).bit_length()
