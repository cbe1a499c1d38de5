"""Reductions over any axes, in parts that bindings hold; `passes.py` has the dispatches of each."""

from __future__ import annotations

import math
from dataclasses import replace

from pykernels._generated.ops.reductions import FINISHES, RESULTS
from pykernels.errors import DTypeError, LimitError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import fits_binding, narrow
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Ints, View, contiguous_strides

from .axes import problem, reduced_axes
from .passes import Result, Target, choose, combine, of_nothing, whole
from .values import Values, finish_of, readable, results

__all__ = ["choose", "plan", "reduced", "states"]


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
    """The dispatches of the reduction `how` of values that the bodies read directly."""
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
    result = Result(op, number_of, words, divisor, -1 if how == "argmin" else 0, 0)
    if count == 0:
        return [of_nothing(caps, scratch, problem(x, dst, axes, in_order=True), result)]
    return _bounded(caps, scratch, x, dst, axes, result)


def states(
    caps: Caps, scratch: Scratch, name: str, x: View, axes: Ints
) -> tuple[list[Step], list[View]]:
    """The states of the reduction `name` for other plans: float32 views of their words, one for
    each field, with an element for each result. x must have elements."""
    op, finish, words, _ = FINISHES[name]
    rest = sorted([a for a in range(x.ndim) if a not in axes], key=lambda a: -abs(x.strides[a]))
    results = math.prod([x.shape[a] for a in rest])
    room = scratch.empty((words * results,), "float32")
    # Results lie in the order in which the bodies keep their axes: by the steps of x.
    steps = contiguous_strides([x.shape[a] for a in rest], 4)
    shape = tuple([x.shape[a] for a in sorted(rest)])
    dst = room.with_layout(shape, [steps[rest.index(a)] for a in sorted(rest)])
    result = Result(op, finish, words, 1.0, 0, 0)
    views = [replace(dst, offset=4 * results * word) for word in range(words)]
    values = Values((x,), x.dtype)
    if values.fits(caps):
        return whole(caps, scratch, values, dst, axes, result, Target(room, 1, 0)), views
    far = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]) * (x.shape[a] - 1))
    long = [a for a in far if x.shape[a] > 1 and x.strides[a] != 0]
    for a in [a for a in long if a in axes]:
        size = _chunk(caps, values, a)
        if size:
            to = Target(room, 1, 0)
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
    """The states of both halves of a kept axis, copied into one view."""
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
    caps: Caps, scratch: Scratch, x: Values, dst: View, axes: Ints, result: Result
) -> list[Step]:
    """The call in parts that bindings hold, cut along the axis on which x reaches furthest."""
    if x.fits(caps):
        return whole(caps, scratch, x, dst, axes, result, None)
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
            continue  # the chunks of this axis do not follow one another in memory
        size = _chunk(caps, x, a)
        if size and 4 * result.words * dst.size * cdiv(n, size) <= caps.max_binding:
            return _in_chunks(caps, scratch, x, dst, axes, result, a, size)
    raise LimitError(
        f"x has parts of {large.views[0].nbytes} bytes that cannot be cut, but one binding of this "
        f"device holds {caps.max_binding}"
    )


def _chunk(caps: Caps, x: Values, axis: int) -> int:
    """The number of elements along an axis that one binding holds, in whole vectors; 0 for none."""
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
    result: Result,
    axis: int,
    size: int,
    to: Target | None = None,
) -> list[Step]:
    """The steps that make one state for each result from each chunk of a reduced axis, and then the
    results or their states."""
    n = x.shape[axis]
    inner = math.prod([x.shape[a] for a in axes if a > axis])
    p = problem(x, dst, axes, result.op == "position")
    parts = cdiv(n, size)
    room = scratch.empty((result.words * parts * math.prod(p.kept),), "uint32")
    steps: list[Step] = []
    for i in range(parts):
        part = x.narrow(axis, i * size, min(size, n - i * size))
        of_part = Result(
            result.op, result.finish, result.words, result.divisor, result.flip, i * size * inner
        )
        target = Target(room, parts, i)
        steps += whole(caps, scratch, part, dst, axes, of_part, target)
    return steps + combine(caps, scratch, p, result, room, parts, to)


def _check_dtypes(name: str, output: str, x: View, dst: View) -> None:
    """DTypeError unless the rule of the kernel allows the dtype of dst. In place of a float16
    result, dst may have float32, in which the result is computed."""
    allowed = results(output, x.dtype.name)
    if dst.dtype.name not in allowed:
        raise DTypeError(
            f"[{name}] dst must be {' or '.join(allowed)} for x of {x.dtype.name} but is "
            f"{dst.dtype.name}"
        )
