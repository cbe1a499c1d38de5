"""Reductions over any axes: rows or columns in one dispatch, or pieces of them and a second one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from pykernels._generated.bodies import reduce_columns, reduce_combine, reduce_rows
from pykernels._generated.ops.reductions import FINISHES, RESULTS
from pykernels.errors import DTypeError, LimitError, ShapeError
from pykernels.layout import Ints, View, contiguous_strides
from pykernels.plan import Caps, Scratch, Step, cdiv, forced
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.parts import fits_binding, narrow

from .axes import Problem, problem, reduced_axes
from .values import Values, finish_of, readable, results

__all__ = ["ReductionChoice", "choose", "plan", "reduced", "states"]

ROWS = reduce_rows.CONFIGS
COLUMNS = reduce_columns.CONFIGS["batch8"]
COMBINE = reduce_combine.CONFIGS["batch4"]
LANES = COLUMNS.threads  # of a workgroup
# One lane adds at most this many terms one after the other, so that its sum keeps its bits.
TERMS = 128
ACROSS = 64  # columns of a workgroup, unless they are short
NARROW = 8  # columns of a workgroup where units would be idle otherwise
NARROW_ROWS = 1024  # below which they are
STATES = 8192  # that a workgroup combines where there are few results, at the most


class ReductionChoice(NamedTuple):
    """Into how many pieces the axis is cut, about."""

    pieces: int


class _Result(NamedTuple):
    """What every step of a call is told: the reduction, and what comes of its state."""

    op: str
    finish: int
    words: int
    divisor: float
    flip: int
    start: int  # position of the first element


class _Target(NamedTuple):
    """Where the states of one part of several go: those of all parts lie side by side."""

    room: View
    parts: int
    part: int


def choose(caps: Caps, groups: int, rounds: int) -> ReductionChoice:
    """Pieces for `groups` workgroups of so many rounds each: enough to keep all units busy, where
    half of them would be idle otherwise."""
    given = forced(caps, ReductionChoice)
    if given is not None:
        return given
    busy = caps.tuning.device.units * caps.tuning.reduce.groups
    pieces = 1
    if 2 * groups <= busy and rounds >= 4:
        pieces = min(busy // groups, rounds)
    return ReductionChoice(max(pieces, cdiv(rounds, TERMS)))


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    dst: View,
    axis: int | tuple[int, ...] | None,
    number: float = 0.0,
    *,
    name: str,
) -> list[Step]:
    """The dispatches of the reduction `name`; `number` is ddof of var and std, ord of norm."""
    axes = reduced_axes(name, x, dst, axis)
    output, _ = RESULTS[name]
    finish = finish_of(name, x.dtype.name, number)
    _check_dtypes(name, output, x, dst)
    if dst.size == 0:
        return []
    before: list[Step] = []
    wanted = readable(x.dtype.name, FINISHES[finish][3])
    if wanted != x.dtype.name:
        given = scratch.empty(x.shape, wanted)
        before = cpy.plan(caps, scratch, x, given) if x.size else []
        x = given
    values = Values((x,), x.dtype)
    return before + reduced(
        caps, scratch, values, dst, axes, number, name=name, how=name, finish=finish
    )


def reduced(
    caps: Caps,
    scratch: Scratch,
    x: Values,
    dst: View,
    axes: Ints,
    number: float,
    *,
    name: str,
    how: str,
    finish: str,
) -> list[Step]:
    """The dispatches of the reduction `how` of values that the bodies read as they are."""
    if dst.size == 0:
        return []
    count = math.prod([x.shape[a] for a in axes])
    may_be_empty = RESULTS[how][1]
    if count == 0 and (not may_be_empty or finish == "norm_inf"):
        what = "x" if x.made is None else "what is reduced"
        raise ShapeError(
            f"[{name}] {what} must have elements along the axes that are reduced, {axes}, but has "
            f"shape {x.shape}"
        )
    op, number_of, words, _ = FINISHES[finish]
    divisor = 1.0
    if how in ("mean", "var", "std"):
        divisor = max(count - (number if how != "mean" else 0), 0)
    result = _Result(op, number_of, words, divisor, -1 if how == "argmin" else 0, 0)
    if count == 0:
        return [_of_nothing(caps, scratch, problem(x, dst, axes, in_order=True), result)]
    return _bounded(caps, scratch, x, dst, axes, result)


def states(
    caps: Caps, scratch: Scratch, name: str, x: View, axes: Ints
) -> tuple[list[Step], list[View]]:
    """The states that the reduction `name` finishes, for plans that go on with them: float32 views
    of their words, one for each field, with an element for each result. x has elements."""
    op, finish, words, _ = FINISHES[name]
    rest = sorted([a for a in range(x.ndim) if a not in axes], key=lambda a: -abs(x.strides[a]))
    results = math.prod([x.shape[a] for a in rest])
    room = scratch.empty((words * results,), "float32")
    # Results lie in the order in which the bodies keep their axes: by the steps of x.
    steps = contiguous_strides([x.shape[a] for a in rest], 4)
    shape = tuple([x.shape[a] for a in sorted(rest)])
    dst = room.with_layout(shape, [steps[rest.index(a)] for a in sorted(rest)])
    result = _Result(op, finish, words, 1.0, 0, 0)
    views = [replace(dst, offset=4 * results * word) for word in range(words)]
    values = Values((x,), x.dtype)
    if values.fits(caps):
        return _whole(caps, scratch, values, dst, axes, result, _Target(room, 1, 0)), views
    far = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]) * (x.shape[a] - 1))
    long = [a for a in far if x.shape[a] > 1 and x.strides[a] != 0]
    for a in [a for a in long if a in axes]:
        size = _chunk(caps, values, a)
        if size:
            to = _Target(room, 1, 0)
            return _in_chunks(caps, scratch, values, dst, axes, result, a, size, to), views
    for a in [a for a in long if a not in axes]:
        return _in_halves(caps, scratch, name, x, axes, a, views), views
    raise LimitError(
        f"x has parts of {x.nbytes} bytes that cannot be cut, but one binding of this device "
        f"holds {caps.max_binding}"
    )


def _in_halves(
    caps: Caps, scratch: Scratch, name: str, x: View, axes: Ints, axis: int, views: list[View]
) -> list[Step]:
    """The states of each half of an axis that is kept, copied together."""
    steps: list[Step] = []
    half = x.shape[axis] // 2
    at = axis - len([a for a in axes if a < axis])
    for first, size in ((0, half), (half, x.shape[axis] - half)):
        own, found = states(caps, scratch, name, narrow(x, axis, first, size), axes)
        steps += own
        for word, to in zip(found, views, strict=True):
            steps += cpy.plan(caps, scratch, word, narrow(to, at, first, size))
    return steps


def _bounded(
    caps: Caps, scratch: Scratch, x: Values, dst: View, axes: Ints, result: _Result
) -> list[Step]:
    """The call in parts that bindings hold, along the axis on which x reaches furthest."""
    if x.fits(caps):
        return _whole(caps, scratch, x, dst, axes, result, None)
    large = Values(tuple([v for v in x.views if not fits_binding(caps, v)]), x.dtype)
    long = [a for a in range(x.ndim) if x.shape[a] > 1 and large.step(a) != 0]
    first_reduced = min([a for a in axes if a in long], default=-1)
    for a in sorted(long, key=lambda a: -large.step(a) * (x.shape[a] - 1)):
        n = x.shape[a]
        if a not in axes:
            to = a if dst.ndim == x.ndim else a - len([b for b in axes if b < a])
            half = n // 2 // 64 * 64 or n // 2
            steps = []
            for first, size in ((0, half), (half, n - half)):
                part, result_of = x.narrow(a, first, size), narrow(dst, to, first, size)
                steps += _bounded(caps, scratch, part, result_of, axes, result)
            return steps
        if result.op == "position" and a != first_reduced:
            continue  # its chunks are not one after the other
        size = _chunk(caps, x, a)
        if size and 4 * result.words * dst.size * cdiv(n, size) <= caps.max_binding:
            return _in_chunks(caps, scratch, x, dst, axes, result, a, size)
    raise LimitError(
        f"x has parts of {large.views[0].nbytes} bytes that cannot be cut, but one binding of this "
        f"device holds {caps.max_binding}"
    )


def _chunk(caps: Caps, x: Values, axis: int) -> int:
    """Elements along an axis that one binding holds, whole vectors of them; 0 for none."""
    sizes = [x.shape[axis]]
    for v in x.views:
        lo, hi = narrow(v, axis, 0, 1).window
        room = caps.max_binding - 2 * caps.alignment - (hi - lo)
        if room < 0:
            return 0
        if v.strides[axis] != 0:
            sizes.append(room // abs(v.strides[axis]) + 1)
    size = min(sizes)
    return size // 64 * 64 or size


def _in_chunks(
    caps: Caps,
    scratch: Scratch,
    x: Values,
    dst: View,
    axes: Ints,
    result: _Result,
    axis: int,
    size: int,
    to: _Target | None = None,
) -> list[Step]:
    """One state for each result from each chunk of an axis that is reduced, then the results, or
    their states."""
    n = x.shape[axis]
    inner = math.prod([x.shape[a] for a in axes if a > axis])
    p = problem(x, dst, axes, result.op == "position")
    parts = cdiv(n, size)
    room = scratch.empty((result.words * parts * math.prod(p.kept),), "uint32")
    steps: list[Step] = []
    for i in range(parts):
        part = x.narrow(axis, i * size, min(size, n - i * size))
        of_part = _Result(
            result.op, result.finish, result.words, result.divisor, result.flip, i * size * inner
        )
        target = _Target(room, parts, i)
        steps += _whole(caps, scratch, part, dst, axes, of_part, target)
    return steps + _combine(caps, scratch, p, result, room, parts, to)


def _whole(
    caps: Caps,
    scratch: Scratch,
    x: Values,
    dst: View,
    axes: Ints,
    result: _Result,
    target: _Target | None,
) -> list[Step]:
    """What one binding holds: the results, or the states of a part."""
    p = problem(x, dst, axes, in_order=result.op == "position")
    if p.columns:
        return _columns(caps, scratch, p, result, target)
    return _rows(caps, scratch, p, result, target)


def _check_dtypes(name: str, output: str, x: View, dst: View) -> None:
    """The dtype of dst by the rule of the kernel; a float16 may be given as the float32 that it is
    computed in."""
    allowed = results(output, x.dtype.name)
    if dst.dtype.name not in allowed:
        raise DTypeError(
            f"[{name}] dst must be {' or '.join(allowed)} for x of {x.dtype.name} but is "
            f"{dst.dtype.name}"
        )


def _rows(
    caps: Caps, scratch: Scratch, p: Problem, result: _Result, target: _Target | None
) -> list[Step]:
    """Rows of neighbours, or of whatever lies apart by one step."""
    lead = p.reduced[:-1] + p.kept
    cols = p.reduced[-1]
    pairs = zip(p.inner, p.steps, strict=True)
    x = p.values.with_layout((*lead, cols), [(*i[:-1], *s, i[-1]) for i, s in pairs])
    rows, outs = math.prod(lead), math.prod(p.kept)
    vectors = cols // x.vec
    batch = ROWS["batch8"].N
    # Rows of up to a batch are one load of each lane.
    lanes = _power(min(vectors if vectors <= batch else cdiv(vectors, batch), LANES))
    if rows * lanes <= caps.tuning.device.units * LANES:
        lanes = _power(min(vectors, LANES))  # too few to keep the device busy: shorter ways
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
    return [step, *_combine(caps, scratch, p, result, room, pieces * (rows // outs), target)]


def _columns(
    caps: Caps, scratch: Scratch, p: Problem, result: _Result, target: _Target | None
) -> list[Step]:
    """Columns that are neighbours."""
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
        across //= 2  # more workgroups instead of pieces and a second dispatch
    tiles = cdiv(batches * vectors, across)
    each = LANES // across * COLUMNS.N  # rows of a round
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
    return [step, *_combine(caps, scratch, p, result, room, pieces * (batches // outs), target)]


def _combine(
    caps: Caps,
    scratch: Scratch,
    p: Problem,
    result: _Result,
    room: View,
    count: int,
    target: _Target | None,
) -> list[Step]:
    """The results from `count` states each, or one state: fewer and fewer where they are many."""
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


def _of_nothing(caps: Caps, scratch: Scratch, p: Problem, result: _Result) -> Step:
    """The results of no elements."""
    room = scratch.empty((1,), "uint32")
    states = room.with_layout((*p.kept, 1), (0,) * (len(p.kept) + 1))
    dst = p.dst.with_layout((*p.kept, 1), (*p.out_steps, 0))
    short = p.values.computed
    return reduce_combine.step(
        caps, states, dst, OP=result.op, T=short, count=0, lane_bits=0, pieces=1, depth=0,
        is_partial=0, apart=0, finish=result.finish, kind=_kind(dst), divisor=result.divisor,
    )  # fmt: skip


def _states(room: View, lead: Ints, states: int) -> View:
    """States as columns of the rows of `lead`; a row's neighbours are its neighbours in memory."""
    strides = contiguous_strides(lead, 4)
    return room.with_layout((*lead, states), (*strides, 4 * math.prod(lead)))


def _kind(dst: View) -> int:
    """How results are stored: as words, halves of floats or of integers, bytes."""
    if dst.dtype.itemsize == 2:
        return 1 if dst.dtype.kind == "f" else 2
    return 3 if dst.dtype.itemsize == 1 else 0


def _bits(power: int) -> int:
    """The exponent of a power of two."""
    return power.bit_length() - 1


def _power(n: int) -> int:
    """The smallest power of two that is n or more."""
    return 1 << max(n - 1, 0).bit_length()
