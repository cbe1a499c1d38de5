"""softmax: short rows are held in registers, longer rows are cut into pieces, and rows whose
columns lie far apart are transposed first."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels._generated.bodies import softmax, softmax_apply, softmax_combine, softmax_partial
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import Part, narrow, row_parts
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View

from .close import close

__all__ = ["config", "plan"]

# The different pieces into which softmax_partial and softmax_apply cut a long row.
READ = softmax_partial.CONFIGS["piece1024"]
WRITTEN = softmax_apply.CONFIGS["piece1024"]


def config(cols: int, vec: int) -> str | None:
    """The first configuration that holds a row in registers."""
    rows = softmax.CONFIGS
    return next((name for name, c in rows.items() if c.LANES * c.N * vec >= cols), None)


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
) -> list[Step]:
    """The dispatches of one softmax, part by part if it is cut."""
    heads = x.shape[-3] if x.ndim >= 3 else 1
    if sinks is not None and sinks.shape != (heads,):
        raise ShapeError(f"[softmax] sinks must have shape ({heads},) but has {sinks.shape}")
    if x.size == 0:
        return []
    if x.ndim == 0:  # x is a row of one element
        x, dst = x.as_rank(1), dst.as_rank(1)
    head = _Heads(heads, x.shape[-2] if x.ndim >= 3 else x.size, 0, 1 << (heads.bit_length() - 1))
    given = {"x": x, "dst": dst} if mask is None else {"x": x, "mask": mask, "dst": dst}
    views, before, after = close(caps, scratch, given)
    own = [
        step
        for part, of in _parts(caps, views, head)
        for step in _part(caps, scratch, part["x"], part.get("mask"), sinks, part["dst"], of)
    ]
    return [*before, *own, *after]


class _Heads(NamedTuple):
    """How rows map to heads: row r belongs to head first + r / head_rows % heads (axis -3)."""

    heads: int
    head_rows: int
    first: int
    alibi_heads: int  # the largest power of two that is not above the number of all heads


def _parts(
    caps: Caps, views: dict[str, View], head: _Heads
) -> list[tuple[dict[str, View], _Heads]]:
    """The views and heads of each part."""
    shape = views["dst"].shape
    found = row_parts(caps, shape, views, ("mask",))
    if len(found) == 1:
        return [(views, head)]
    mask = views.get("mask")
    own = mask.shape[-3] if mask is not None and mask.ndim >= 3 else 1
    if 1 < own < head.heads:  # the mask repeats by modulo: heads of a part must be consecutive
        axis = len(shape) - 3
        return [
            part
            for first in range(0, head.heads, own)
            for part in _parts(
                caps,
                {n: v if n == "mask" else narrow(v, axis, first, own) for n, v in views.items()},
                _Heads(own, head.head_rows, first, head.alibi_heads),
            )
        ]
    in_two = mask is not None and mask.ndim >= 2 and 1 < mask.shape[-2] < head.head_rows
    return [(part.views, _heads_of(part, head, 2 if in_two else 1)) for part in found]


def _heads_of(part: Part, head: _Heads, row_axes: int) -> _Heads:
    """The heads of a part; the last axes of the part are the axis of heads, the `row_axes`, and the
    columns."""
    if head.heads == 1:
        return head
    shape = part.views["dst"].shape
    axis = len(shape) - row_axes - 2
    rows = math.prod(shape[axis + 1 : -1])
    return _Heads(shape[axis], rows, head.first + part.first[axis], head.alibi_heads)


def _part(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
    head: _Heads,
) -> list[Step]:
    """The steps for rows in registers or in pieces, with transposes if columns lie far apart."""
    it = Rows(dst.shape, {"x": x, "mask": mask, "dst": dst}, ("mask",))
    found = config(it.cols, 4 if it.vec(4) else 1)
    most = caps.tuning.softmax.transpose_lanes
    if (found is None or softmax.CONFIGS[found].LANES > most) and it.columns_apart("x"):
        return _transposed(caps, scratch, x, mask, sinks, dst, head)
    return _rows(caps, scratch, it, x, mask, sinks, dst, head)


def _rows(
    caps: Caps,
    scratch: Scratch,
    it: Rows,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
    head: _Heads,
) -> list[Step]:
    """The steps for rows in registers, or in pieces if rows are too long for registers."""
    vec = 4 if it.vec(4) else 1
    named = {"head_rows": head.head_rows, "heads": head.heads, "first_head": head.first}
    alibi = {**named, "alibi_heads": head.alibi_heads}
    found = config(it.cols, vec)
    if found is not None:
        return [softmax.step(caps, x, mask, sinks, dst, LENGTH=found, **alibi)]
    pieces = cdiv(it.cols, READ.threads * READ.N * vec)
    written = cdiv(it.cols, WRITTEN.threads * WRITTEN.N * vec)
    partials = scratch.empty((it.rows, pieces, 2), "float32")
    stats = scratch.empty((it.rows, 3), "float32")
    return [
        softmax_partial.step(caps, x, mask, partials, VEC=vec, pieces=pieces, **alibi),
        softmax_combine.step(caps, partials, sinks, stats, pieces=pieces, **named),
        softmax_apply.step(caps, x, mask, stats, dst, VEC=vec, pieces=written, **alibi),
    ]


def _transposed(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
    head: _Heads,
) -> list[Step]:
    """The steps for columns that lie far apart: three passes with coalesced access are faster than
    one pass without."""
    given = scratch.empty(x.shape, x.dtype.name)
    result = scratch.empty(x.shape, x.dtype.name)
    it = Rows(dst.shape, {"x": given, "mask": mask, "dst": result}, ("mask",))
    return [
        *cpy.plan(caps, scratch, x, given),
        *_rows(caps, scratch, it, given, mask, sinks, result, head),
        *cpy.plan(caps, scratch, result, dst),
    ]
