"""Gradients of norms over the last axis: short rows are held in registers; for longer rows, sums
come first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykernels._generated.bodies import binary, norm_rows_backward
from pykernels.dtypes import DTypeName
from pykernels.plans.parts import narrow, row_parts
from pykernels.steps import Caps, Scratch, Step, cdiv, forced
from pykernels.tensors.layout import View

from .apply import apply_backward
from .rows import close, config
from .statistics import Norm, check_affine, dense, repeat, statistics
from .sums import column_sums, pick, row_sums, sums_alike, total, zeros

__all__ = ["NormChoice", "choose", "plan"]

WG = 256
SUMS = 8  # with at most this many vectors for each lane, registers also hold the sums over rows


class NormChoice(NamedTuple):
    """The number of workgroups on each multiprocessor that share the rows."""

    groups: int


def choose(caps: Caps) -> NormChoice:
    """The value from the device's tuning table."""
    return forced(caps, NormChoice) or NormChoice(caps.tuning.norm.groups)


def plan(
    caps: Caps, scratch: Scratch, norm: Norm, dy: View, x: View, weight: View | None,
    ds: View | None, dweight: View | None, dbias: View | None, dst: View,
) -> list[Step]:  # fmt: skip
    """The dispatches of one gradient, part by part if it is cut."""
    given = {"dy": dy, "x": x, "ds": ds, "dst": dst}
    views = {n: v.as_rank(max(v.ndim, 1)) for n, v in given.items() if v is not None}
    x = views["x"]
    check_affine(norm.op, x.shape[-1], weight=weight, dweight=dweight, dbias=dbias)
    if x.size == 0:
        return zeros(caps, scratch, dweight, dbias)
    before: list[Step] = []
    after: list[Step] = []
    views = close(caps, scratch, views, ("dst",), before, after)
    vec = 4 if all([v.vectorizable(4) for v in views.values()]) else 1
    found = config(caps, views, vec, norm_rows_backward.CONFIGS)
    halves = x.dtype.itemsize == 2 and weight is not None and weight.dtype.itemsize == 2
    dtype: DTypeName = "float16" if halves and vec == 4 and found is not None else "float32"
    weight = dense(caps, scratch, weight, dtype, before)
    if found is not None and norm_rows_backward.CONFIGS[found].N <= SUMS:
        steps = _in_registers(caps, scratch, norm, views, weight, dweight, dbias, vec, found)
    else:
        steps = _in_passes(caps, scratch, norm, views, weight, dweight, dbias, vec, found)
    return [*before, *steps, *after]


def _in_registers(
    caps: Caps, scratch: Scratch, norm: Norm, views: Mapping[str, View], weight: View | None,
    dweight: View | None, dbias: View | None, vec: int, found: str,
) -> list[Step]:  # fmt: skip
    """The steps of one pass, which writes the sums of each workgroup's rows."""
    parts = [p.views for p in row_parts(caps, views["x"].shape, views)]
    c = norm_rows_backward.CONFIGS[found]
    most = caps.tuning.device.units * choose(caps).groups
    groups = [min(cdiv(p["x"].size // p["x"].shape[-1], WG // c.LANES), most) for p in parts]
    room = None
    if dweight or dbias:
        words = 2 if norm.mean else 1
        room = scratch.empty((sum(groups), words, parts[0]["x"].shape[-1]), "float32")
    steps: list[Step] = []
    first = 0
    for p, n in zip(parts, groups, strict=True):
        partials = narrow(room, 0, first, n) if room else None
        steps.append(_rows(caps, scratch, norm, p, weight, partials, n, vec, found))
        first += n
    for which, out in enumerate((dweight, dbias)):
        if room is not None and out is not None:
            steps += total(caps, scratch, pick(room, 1, which), (0,), out)
    return steps


def _rows(
    caps: Caps, scratch: Scratch, norm: Norm, views: Mapping[str, View], weight: View | None,
    partials: View | None, groups: int, vec: int, found: str,
) -> Step:  # fmt: skip
    x = views["x"]
    return norm_rows_backward.step(
        caps, views["dy"], x, weight, views.get("ds"), partials or scratch.empty((4,), "float32"),
        views["dst"], NORM="layer" if norm.mean else "rms", VEC=vec, LENGTH=found,
        workgroups=groups, has_partials=int(partials is not None), l2=int(norm.l2), eps=norm.eps,
    )  # fmt: skip


def _in_passes(
    caps: Caps, scratch: Scratch, norm: Norm, views: Mapping[str, View], weight: View | None,
    dweight: View | None, dbias: View | None, vec: int, found: str | None,
) -> list[Step]:  # fmt: skip
    """The steps: statistics first, then the sums over rows, and dst last, because dst may be dy
    itself. If registers hold a row, dst is computed from them."""
    x, dy = views["x"], views["dy"]
    last = (x.ndim - 1,)
    steps: list[Step] = []
    if found is not None:
        if dweight or dbias:
            steps, known = statistics(caps, scratch, norm, x, last)
            steps += column_sums(caps, scratch, norm, dy, x, known, dbias, dweight)
        per = WG // norm_rows_backward.CONFIGS[found].LANES
        for p in row_parts(caps, x.shape, views):
            groups = cdiv(p.views["x"].size // x.shape[-1], per)
            steps.append(_rows(caps, scratch, norm, p.views, weight, None, groups, vec, found))
        return steps
    steps, known = statistics(caps, scratch, norm, x, last)
    if dweight or dbias:
        steps += column_sums(caps, scratch, norm, dy, x, known, dbias, dweight)
    over = repeat(weight, x.shape, last) if weight else None
    own, room = row_sums(caps, scratch, norm, dy, x, known, over)
    steps += own
    sums = sums_alike(scratch, known, last)
    for which in (0, 1):
        steps += total(caps, scratch, pick(room, x.ndim - 1, which), last, sums[which])
    ds = views.get("ds")
    to = scratch.empty(x.shape, x.dtype.name) if ds else views["dst"]
    steps += apply_backward(
        caps, norm, dy, x, known, repeat(sums[0], x.shape, tuple(range(x.ndim - 1))),
        sums[0].size, over, to,
    )  # fmt: skip
    if ds is not None:
        steps.append(binary.step(caps, to, ds, views["dst"], OP="add"))
    return steps
