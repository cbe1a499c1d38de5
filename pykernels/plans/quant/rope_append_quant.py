"""rope_append_quant: one dispatch; if bindings are too small, dispatches for queries, then for keys
and values."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import rope_append_quant as body
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.parts import Part, fits_binding, in_levels, narrow, parts
from pykernels.plans.rope.rope import LIMIT, heads_first
from pykernels.plans.rope.rope import check as check_angles
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Rows, View, contiguous_strides
from pykernels.wgsl.watch import Watch

from .planes import changed
from .types import BlockType, type_of

__all__ = ["KEPT", "plan"]

KEPT = ("q8_0", "q4_0")  # the types that a cache may have


class _Call(NamedTuple):
    kind: BlockType
    table: View | None
    style: str
    limit: int


def plan(
    caps: Caps, scratch: Scratch, x: View, positions: View, table: View | None, scales: View,
    low: View, dst: View, style: str = "normal", quant: str = "q8_0", room: int = 0,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """One dispatch, more if bindings are too small; none without tokens."""
    kind = kept("rope_append_quant", quant)
    _check_shapes(x, positions, table, dst, style)
    lead, tokens, width = x.shape[:-3], x.shape[-2], x.shape[-1]
    heads = x.shape[-3] - dst.shape[-3]
    before, copies, low, scales, _ = changed(
        "rope_append_quant", caps, scratch, kind, (*lead, heads, room, width), low, scales, None
    )
    if x.size == 0:
        return []
    over = (*lead, tokens)
    call = _Call(kind, table, style, min(room, LIMIT) if table else room)
    rest = {"x": heads_first(x), "positions": positions.broadcast_to(over)}
    low, scales = (_heads_first(v, (*lead, heads)) for v in (low, scales))
    outputs = {"scales": scales, "low": low, "dst": heads_first(dst)}
    queries = dst.shape[-3]
    turned = queries + heads // 2 if table else 0
    name = "positions" if table else "index"
    watch = Watch(name, call.limit, positions.shape, over) if check else None
    views = {**rest, **{name: v for name, v in outputs.items() if v.size}}
    axes = _axes(views, len(over))
    near = len(in_levels(Part(views, (0,) * len(axes)), axes, Rows.LEVELS)) == 1
    if near and all(fits_binding(caps, v) for v in views.values()):
        return [*before, _step(caps, scratch, call, views, (queries, turned), watch), *copies]
    steps = before
    number = 0
    for names, first, count in ((("dst",), 0, queries), (("scales", "low"), queries, heads)):
        own = {**rest, "x": narrow(rest["x"], 0, first, count)} | {n: outputs[n] for n in names}
        if count == 0 or any(v.size == 0 for v in own.values()):
            continue
        axes = _axes(own, len(over))
        for part in parts(caps, own, [*axes, {name: 0 for name in ("x", *names)}]):
            for piece in in_levels(part, axes, Rows.LEVELS):
                *at, head = piece.first
                told = None
                # so that each position is reported once
                if watch and first == queries and head == 0:
                    told = watch.part(number, tuple(at), piece.views["positions"].shape, over)
                    number += 1
                some = piece.views["x"].shape[0]
                sizes = 0 if first == queries else some, min(max(turned - first - head, 0), some)
                steps.append(_step(caps, scratch, call, piece.views, sizes, told))
    return steps + copies


def kept(op: str, name: object) -> BlockType:
    """The type of a cache; ArgumentError for other types."""
    kind = type_of(op, name)
    if kind.name not in KEPT:
        raise ArgumentError(f"[{op}] rows are written in {' or '.join(KEPT)}, not in {kind.name}")
    return kind


def _check_shapes(x: View, positions: View, table: View | None, dst: View, style: str) -> None:
    op = "rope_append_quant"
    angles = table or positions.with_layout((2, 1024, 2, 1), (0, 0, 0, 0))
    check_angles(op, x, positions, angles, style)
    shape = (*x.shape[:-3], dst.shape[-3] if dst.ndim == x.ndim else 0, *x.shape[-2:])
    heads = x.shape[-3] - shape[-3]
    if dst.shape != shape or heads < 1 or (table and heads % 2):
        raise ShapeError(
            f"[{op}] dst must be {(*x.shape[:-3], 'heads of queries', *x.shape[-2:])}, and leave "
            f"as many heads of keys as of values, but has shape {dst.shape}"
        )


def _heads_first(view: View, batches: tuple[int, ...]) -> View:
    """A plane as (heads, ..., groups, parts or words, rows); its first axis combines `batches`."""
    lead = contiguous_strides(batches, view.strides[0] if view.ndim else 0)
    shape, steps = (*batches, *view.shape[1:]), (*lead, *view.strides[1:])
    at = len(batches) - 1
    return view.with_layout(
        (shape[at], *shape[:at], *shape[at + 1 :]), (steps[at], *steps[:at], *steps[at + 1 :])
    )


def _axes(views: dict[str, View], count: int) -> list[dict[str, int]]:
    """The axes of tokens in each view; planes have no axis for the last axis of tokens."""
    return [
        {"positions": a}
        | {n: a + 1 for n in ("x", "dst") if n in views}
        | {n: a + 1 for n in ("low", "scales") if n in views and a < count - 1}
        for a in range(count)
    ]  # fmt: skip


def _step(
    caps: Caps, scratch: Scratch, call: _Call, views: dict[str, View], sizes: tuple[int, int],
    watch: Watch | None,
) -> Step:  # fmt: skip
    """One dispatch; an output that is not in `views` is not written."""
    x, table = views["x"], call.table
    lead = (1,) * (x.ndim - 2)
    pairs = 0 if table is None else table.shape[-1]
    dst = views.get("dst")
    if dst is None:
        dst = scratch.empty(x.shape[-1:], x.dtype.name)
        dst = dst.with_layout((*lead, 1, x.shape[-1]), (*(0 for _ in lead), 0, x.dtype.itemsize))
    given = [v for v in (x, dst, table) if v is not None]
    vec = 4 if pairs % 4 == 0 and all(v.vectorizable(4) for v in given) else 1
    if table is not None and vec == 4:
        table = table.with_layout((*table.shape[:-1], pairs // 4), (*table.strides[:-1], 16))
    low, scales = views.get("low"), views.get("scales")
    if low is None or scales is None:
        low, scales = (
            scratch.empty((4,), "uint32").with_layout((*lead, 1, 1, 1), (0,) * (len(lead) + 3))
            for _ in range(2)
        )
    queries, turned = sizes
    return body.step(
        caps, x, views["positions"], table, scales, low, dst, TYPE=call.kind.name, V=vec,
        pairs=pairs // vec, halves=int(call.style == "neox"), queries=queries, turned=turned,
        limit=call.limit, watch=watch,
    )  # fmt: skip
