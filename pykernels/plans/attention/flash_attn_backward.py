"""flash_attn_backward: five products over windows of queries x keys, each computed in tiles.

The inputs are first copied to panels of f32. Then, window by window, `scores` writes the weights P
and the gradients of the scores dS, and `sums` adds their products with do, q and k to dv, dk, dq.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from pykernels._generated.bodies import (
    flash_attn_backward_delta,
    flash_attn_backward_group,
    flash_attn_backward_pack,
    flash_attn_backward_scores,
    flash_attn_backward_sums,
)
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View, contiguous_strides

from .arguments import (
    Band,
    Causal,
    Dims,
    Window,
    alibi_heads,
    band,
    dims,
    expect,
    number,
    scale_of,
)
from .select_backward import LARGE, AttentionGradChoice, choose

__all__ = ["choose", "plan"]

OP = "flash_attn_backward"
SCORES = flash_attn_backward_scores.CONFIGS
SUMS = flash_attn_backward_sums.CONFIGS
# The depth of one stage of a tile; the depths of panels are padded to its multiples.
DEEP = SCORES["tile32"].BK
# The rows that a workgroup of `scores` computes, by the side of its tile.
SCORE_ROWS = {c.BN: c.BM for c in SCORES.values()}


def plan(
    caps: Caps, scratch: Scratch, q: View, k: View, v: View, o: View, lse: View, do: View,
    mask: View | None, sinks: View | None, dq: View, dk: View, dv: View,
    scale: float | None = None, causal: Causal = False, window: Window = None,
    max_bias: float = 0.0, softcap: float = 0.0,
) -> list[Step]:  # fmt: skip
    """The dispatches of one call."""
    d = dims(OP, q, k, v, mask, sinks)
    expect(OP, "o", o, (d.batch, d.heads, d.queries, d.value_depth))
    expect(OP, "lse", lse, (d.batch, d.heads, d.queries))
    options = _Options(
        band(OP, d, causal, window), scale_of(OP, d, scale),
        number(OP, "max_bias", max_bias), number(OP, "softcap", softcap),
    )  # fmt: skip
    outputs = [t for t in (dq, dk, dv) if t.size]
    if not outputs or min(d.queries, d.keys, d.value_depth) == 0:
        return [_zeros(caps, scratch, t) for t in outputs]
    if mask is not None:
        mask = mask.broadcast_to((d.batch, d.heads, d.queries, d.keys))
    room = _Room(scratch, {})
    steps: list[Step] = []
    batches, kv_heads = _fitting(caps, d)
    part = d._replace(batch=batches, heads=kv_heads * d.group, kv_heads=kv_heads)
    choice = choose(caps, part, options.near)
    for batch, kv in itertools.product(range(0, d.batch, batches), range(0, d.kv_heads, kv_heads)):
        call = _Call(caps, room, part, choice, options, d.heads, kv * d.group)
        of_heads = [_cut(x, batch, batches, kv * d.group, part.heads) for x in (q, o, lse, do, dq)]
        of_kv_heads = [_cut(x, batch, batches, kv, kv_heads) for x in (k, v, dk, dv)]
        seen = None if mask is None else _cut(mask, batch, batches, kv * d.group, part.heads)
        steps += _part(call, of_heads, of_kv_heads, seen)
    return steps


def _fitting(caps: Caps, d: Dims) -> tuple[int, int]:
    """The numbers of batches and KV heads for one part, so that each panel fits one binding if
    possible."""
    lengths = max(d.queries * d.group, d.keys) + LARGE * d.group
    rows = (d.depth + d.value_depth + 2 * DEEP) * lengths
    parts = (max(d.depth, d.value_depth) + 4) * d.keys * d.group
    most = (caps.max_binding // 4 - 64) // max(rows, parts)
    if d.kv_heads > most:
        return 1, max(
            n for n in range(1, d.kv_heads + 1) if d.kv_heads % n == 0 and n <= max(most, 1)
        )
    return max(
        n for n in range(1, d.batch + 1) if d.batch % n == 0 and n * d.kv_heads <= most
    ), d.kv_heads


def _cut(v: View, batch: int, batches: int, head: int, heads: int) -> View:
    """These batches and heads of a view."""
    return replace(
        v, shape=(batches, heads, *v.shape[2:]),
        offset=v.offset + batch * v.strides[0] + head * v.strides[1],
    )  # fmt: skip


def _part(
    call: _Call, of_heads: list[View], of_kv_heads: list[View], mask: View | None
) -> Iterator[Step]:
    q, o, lse, do, dq = of_heads
    k, v, dk, dv = of_kv_heads
    panels = _Panels.empty(call)
    targets = _targets(call, panels, dq, dk, dv)
    yield from panels.steps(call.caps, q, k, v, o, lse, do)
    yield from _windows(call, panels, mask, targets)
    for target in targets:
        yield from target.finish(call.caps)


def _zeros(caps: Caps, scratch: Scratch, dst: View) -> Step:
    nothing = scratch.empty((1,), "float32")
    return flash_attn_backward_group.step(caps, nothing, dst, group=0, width=0)


class _Options(NamedTuple):
    near: Band
    scale: float
    max_bias: float
    softcap: float


@dataclass(frozen=True)
class _Room:
    """Temporaries by name; the parts of a call have the same size and share them."""

    scratch: Scratch
    found: dict[str, View]

    def empty(self, name: str, *shape: int) -> View:
        if name not in self.found:
            self.found[name] = self.scratch.empty(shape, "float32")
        return self.found[name]


@dataclass(frozen=True)
class _Call:
    """The facts about one part of a call that its plan needs."""

    caps: Caps
    room: _Room
    d: Dims
    choice: AttentionGradChoice
    options: _Options
    heads: int  # heads of the whole call
    first_head: int


@dataclass(frozen=True)
class _Panels:
    """The inputs as f32, padded with zeros: the numbers of queries and keys to whole tiles, depths
    to multiples of 16."""

    stats: View  # (B * H, S, 2): the log-sum-exp of each row, and delta
    queries: View  # (B * H, D + Dv, S): q over do
    keys: View  # (B * Hkv, D + Dv, T): k over v
    q: View  # (B * H, S, D)
    k: View  # (B * Hkv, T, D)
    do: View  # (B * H, S, Dv)

    @staticmethod
    def empty(call: _Call) -> _Panels:
        d, tile, room = call.d, call.choice.tile, call.room
        heads, kv_heads = d.batch * d.heads, d.batch * d.kv_heads
        queries, keys = cdiv(d.queries, tile) * tile, cdiv(d.keys, tile) * tile
        depth, value_depth = cdiv(d.depth, DEEP) * DEEP, cdiv(d.value_depth, DEEP) * DEEP
        return _Panels(
            room.empty("stats", heads, queries, 2),
            room.empty("queries", heads, depth + value_depth, queries),
            room.empty("keys", kv_heads, depth + value_depth, keys),
            room.empty("q", heads, queries, depth),
            room.empty("k", kv_heads, keys, depth),
            room.empty("do", heads, queries, value_depth),
        )

    def steps(
        self, caps: Caps, q: View, k: View, v: View, o: View, lse: View, do: View
    ) -> list[Step]:
        """Fill the panels."""
        depth = self.q.shape[2]
        lse_of_depth = lse.with_layout((*lse.shape, 1), (*lse.strides, 0)).broadcast_to(do.shape)
        found = [
            flash_attn_backward_delta.step(
                caps, o, do, lse_of_depth, self.stats, padded=self.stats.shape[1]
            ),
            self._pack(caps, do, self.queries, depth, self.do),
            self._pack(caps, v, self.keys, depth, None),
        ]
        if depth:
            found.append(self._pack(caps, q, self.queries, 0, self.q))
            found.append(self._pack(caps, k, self.keys, 0, self.k))
        return found

    def _pack(
        self, caps: Caps, x: View, transposed: View, first_row: int, plain: View | None
    ) -> Step:
        _, panel_rows, rows = transposed.shape
        gradient = plain is self.do
        return flash_attn_backward_pack.step(
            caps, x, self.stats, transposed, plain, padded_rows=rows,
            padded_cols=cdiv(x.shape[3], DEEP) * DEEP, panel_rows=panel_rows, first_row=first_row,
            skip_empty=int(gradient), finite=int(not gradient),
        )  # fmt: skip


@dataclass(frozen=True)
class _Window:
    """The part of a panel that begins at this head, query and key; its sizes are whole tiles."""

    head: int
    query: int
    key: int
    heads: int
    queries: int
    keys: int

    def hidden(self, near: Band) -> bool:
        """True if no query may see a key."""
        ahead = self.key - self.query
        return ahead + self.keys - 1 < near.low or ahead - self.queries + 1 > near.highest


@dataclass(frozen=True)
class _Target:
    """The destination of one gradient's sums, and the panel whose rows are summed."""

    dst: View  # the caller's output, (B, heads, rows, cols)
    partials: View  # (B, H, rows, cols in whole vectors), f32: dst itself if possible
    rows: View
    matrix: str  # name of the window's matrix that multiplies the rows
    started: set[tuple[int, int]]  # heads and rows to which a first sum was written

    @property
    def over_queries(self) -> bool:
        """True if the sums are over queries, with a row for each key; False if they are over keys,
        with a row for each query."""
        return self.matrix != "grads_t"

    def finish(self, caps: Caps) -> list[Step]:
        """Make dst: add the partial results of the query heads that share a KV head."""
        if self.partials.slot == self.dst.slot:
            return []
        group = self.partials.shape[1] // self.dst.shape[1]
        return [
            flash_attn_backward_group.step(
                caps, self.partials, self.dst, group=group, width=self.partials.shape[3]
            )
        ]


def _targets(call: _Call, panels: _Panels, dq: View, dk: View, dv: View) -> list[_Target]:
    """The targets of the gradients dv, dk and dq; a gradient without elements has no target."""
    d = call.d
    found = []
    sources = ((dv, panels.do, "weights"), (dk, panels.q, "grads"), (dq, panels.k, "grads_t"))
    for dst, rows, matrix in sources:
        if dst.size == 0:
            continue
        shape = (d.batch, d.heads, dst.shape[2], cdiv(dst.shape[3], 4) * 4)
        direct = dst.shape == shape and dst.dtype.name == "float32" and dst.vectorizable(4)
        partials = dst if direct else call.room.empty(f"partials of {matrix}", *shape)
        found.append(_Target(dst, partials, rows, matrix, set()))
    return found


def _windows(
    call: _Call, panels: _Panels, mask: View | None, targets: list[_Target]
) -> Iterator[Step]:
    """The steps of scores and sums, window by window. Keys that no query sees get zeros."""
    choice, near = call.choice, call.options.near
    heads, _, queries = panels.queries.shape
    keys = panels.keys.shape[2]
    shape = (choice.heads, choice.queries, choice.keys)
    room = {name: call.room.empty(name, *shape) for name in ("weights", "grads", "grads_t")}
    for head, key, query in itertools.product(
        range(0, heads, choice.heads), range(0, keys, choice.keys),
        range(0, queries, choice.queries),
    ):  # fmt: skip
        w = _Window(
            head, query, key, min(choice.heads, heads - head),
            min(choice.queries, queries - query), min(choice.keys, keys - key),
        )  # fmt: skip
        hidden = w.hidden(near)
        if not hidden:
            yield _scores(call, panels, mask, w, room)
        for target in targets:
            done = (head, key if target.over_queries else query)
            if not hidden or done not in target.started:
                yield _sums(call, w, room, target, add=done in target.started)
                target.started.add(done)


def _shaped(room: View, *shape: int) -> View:
    return room.with_layout(shape, contiguous_strides(shape, room.dtype.itemsize))


def _scores(
    call: _Call, panels: _Panels, mask: View | None, w: _Window, room: dict[str, View]
) -> Step:
    d, tile, options = call.d, call.choice.tile, call.options
    depth = panels.q.shape[2] // DEEP
    return flash_attn_backward_scores.step(
        call.caps, panels.keys, panels.queries, panels.stats, mask,
        _shaped(room["weights"], w.heads, w.queries, w.keys),
        _shaped(room["grads"], w.heads, w.queries, w.keys),
        _shaped(room["grads_t"], w.heads, w.keys, w.queries),
        VEC=4, TILE=f"tile{tile}",
        a_rs=panels.keys.shape[2] // 4, b_rs=panels.queries.shape[2] // 4,
        depth=depth, value_depth=panels.queries.shape[1] // DEEP - depth,
        down=w.queries // SCORE_ROWS[tile], across=w.keys // tile,
        first_head=w.head, first_query=w.query, first_key=w.key, queries=d.queries,
        keys=d.keys, heads=call.heads, group=d.group,
        lowest=options.near.low, highest=options.near.highest,
        alibi_heads=alibi_heads(call.heads), alibi_first=call.first_head,
        max_bias=options.max_bias, scale=options.scale, softcap=options.softcap,
    )  # fmt: skip


def _sums(call: _Call, w: _Window, room: dict[str, View], t: _Target, *, add: bool) -> Step:
    tile, near = call.choice.tile, call.options.near
    row, rows, k, depth = (
        (w.key, w.keys, w.query, w.queries)
        if t.over_queries
        else (w.query, w.queries, w.key, w.keys)
    )
    heads, panel_rows, width = t.rows.shape
    cols = t.partials.shape[3]
    groups = w.heads * (rows // tile) * cdiv(cols, tile)
    least = call.caps.tuning.attention.flash_attn_backward.narrow_groups
    narrow = SUMS["tile128x64"].BN
    config = f"tile{tile}"
    if tile == LARGE and (cdiv(cols, narrow) % 2 == 1 or groups < least):
        config = "tile128x64"
    return flash_attn_backward_sums.step(
        call.caps, t.rows, _shaped(room[t.matrix], w.heads, depth, rows), t.partials,
        VEC=4, TILE=config, a_rs=width // 4, a_rows=panel_rows,
        b_rs=rows // 4, k_tiles=depth // tile, across=cdiv(cols, SUMS[config].BN),
        down=rows // tile, first_head=w.head, first_row=row, first_k=k,
        rows=t.partials.shape[2], cols=cols // 4, heads=call.d.heads,
        sharing=call.d.batch * call.d.heads // heads,
        lowest=-near.highest if t.over_queries else near.low,
        highest=-near.low if t.over_queries else near.highest,
        add=int(add),
    )  # fmt: skip
