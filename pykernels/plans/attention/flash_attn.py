"""flash_attn: few rows straight from q, k and v; more in tiles, from q and k turned depth first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from pykernels._generated.bodies import (
    attention_combine,
    attention_combine_tiles,
    attention_decode,
    attention_tile,
    flash_attn,
    pack_qk,
)
from pykernels.layout import View, contiguous_strides
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS

from .arguments import (
    OPEN,
    Band,
    Causal,
    Dims,
    Window,
    alibi_heads,
    band,
    dims,
    expect,
    mask_kind,
    mask_steps,
    number,
    scale_of,
)
from .select import (
    BLOCKS,
    HELD,
    Blocks,
    Choice,
    blocks_of,
    choose,
    edges,
    order,
    padded,
)

__all__ = ["BLOCKS", "Choice", "choose", "plan"]

OP = "flash_attn"
LOG2E = 1.4426950408889634
# Slices that attention_combine_tiles adds one after the other; more are for attention_combine.
FEW_SLICES = 8


@dataclass(frozen=True)
class Call:
    """One call: its tensors, sizes and rules. `lse` is scratch where nobody asked for it."""

    q: View
    k: View
    v: View
    mask: View | None
    sinks: View | None
    lse: View
    dst: View
    dims: Dims
    band: Band
    scale: float
    max_bias: float
    softcap: float

    def rules(self) -> dict[str, float]:
        """What says which keys count, and how much, as the kernels' params have it."""
        b, h, i, j = mask_steps(self.mask, self.dims)
        steps = {"mask_sb": b, "mask_sh": h, "mask_ss": i, "mask_st": j}
        return {
            **{name: step & 0xFFFFFFFF for name, step in steps.items()},
            "mask_kind": mask_kind(self.mask),
            "band_low": self.band.low,
            "band_high": self.band.high,
            "alibi_heads": alibi_heads(self.dims.heads),
            "scale": self.scale * LOG2E,
            "max_bias": self.max_bias,
            "softcap": self.softcap,
        }


def plan(
    caps: Caps,
    scratch: Scratch,
    q: View,
    k: View,
    v: View,
    mask: View | None,
    sinks: View | None,
    lse: View | None,
    dst: View,
    scale: float | None = None,
    causal: Causal = False,
    window: Window = None,
    max_bias: float = 0.0,
    softcap: float = 0.0,
) -> list[Step]:
    """The dispatches of one call."""
    d = dims(OP, q, k, v, mask, sinks)
    expect(OP, "dst", dst, (d.batch, d.heads, d.queries, d.value_depth))
    expect(OP, "lse", lse, dst.shape[:3])
    near = band(OP, d, causal, window)
    factor = scale_of(OP, d, scale)
    bias, cap = number(OP, "max_bias", max_bias), number(OP, "softcap", softcap)
    if dst.size == 0 and (lse is None or lse.size == 0):
        return []
    if d.value_depth == 0:  # lse alone: any values do
        v = k.with_layout((*k.shape[:3], 1), k.strides)
        d = d._replace(value_depth=1)
        dst = scratch.empty((*dst.shape[:3], 1), "float32")
    sums = lse or scratch.empty(dst.shape[:3], "float32")
    call = Call(q, k, v, mask, sinks, sums, dst, d, near, factor, bias, cap)
    if d.keys == 0 or d.depth == 0:
        return _empty(caps, scratch, call)
    choice = choose(caps, d, near != (-OPEN, OPEN))
    if choice.body == "rows":
        return _rows(caps, scratch, call, choice.slices)
    return _tiles(caps, scratch, call, choice)


def _merge(caps: Caps, parts: View, sums: View, c: Call) -> Step:
    """The sums of all slices as one result."""
    d = c.dims
    plain = c.dst.contiguous and c.lse.contiguous and c.sinks is None
    return attention_combine.step(
        caps, parts, sums, c.sinks, c.lse, c.dst,
        rows=d.batch * d.heads * d.queries,
        column_bits=(max(cdiv(d.value_depth, 32), 1) - 1).bit_length(),
        row_step=d.value_depth if plain else 0,
    )  # fmt: skip


def _join(caps: Caps, parts: View, sums: View, c: Call, before: int = 0) -> Step:
    """The same for few slices of many rows: those of dst from `before` on."""
    rows = c.dims.batch * c.dims.heads * c.dims.queries - before
    width = parts.shape[parts.ndim - 1]
    return attention_combine_tiles.step(
        caps, parts, sums, c.sinks, c.lse, c.dst,
        slices=parts.shape[0], rows=rows, width=width, first_row=before,
    )  # fmt: skip


def _empty(caps: Caps, scratch: Scratch, c: Call) -> list[Step]:
    """No key: zeros, as the merge of no slices."""
    parts = scratch.empty((1, 1, 1, 1, 4), "float32")
    sums = scratch.empty((1,), "float32")
    none = parts.with_layout((0, *parts.shape[1:]), parts.strides)
    return [_merge(caps, none, sums, c)]


# -- few rows -------------------------------------------------------------------------------------


def _team(caps: Caps, c: Call) -> int:
    """Lanes that read a key together in attention_decode; 0 where flash_attn has to do it."""
    deep = max(c.dims.depth, c.dims.value_depth)
    if deep > 256 or not (_in_vectors(c.k) and _in_vectors(c.v)):
        return 0
    if not caps.subgroups:
        return 16 if deep <= 128 else 0
    return next(n for n in (8, 16, 32) if 8 * n >= deep)


def _lanes(caps: Caps, team: int, keys: int, slices: int) -> int:
    """Invocations of a workgroup of attention_decode.

    256 leave half as many slices to join, which pays where slices are some and long, and need
    more workgroup memory than WebGPU promises.
    """
    large = caps.subgroups and caps.max_workgroup_bytes >= 25600
    return 256 if large and team == 16 and slices >= 4 and keys >= 128 * slices else 128


def _in_vectors(view: View, nbytes: int = 16) -> bool:
    """Are rows whole vectors of so many bytes, aligned to them?"""
    return view.vectorizable(nbytes // view.dtype.itemsize)


def _alike(caps: Caps, scratch: Scratch, c: Call) -> tuple[Call, list[Step]]:
    """k and v of one dtype: a copy stands in for the one of two bytes."""
    if c.v.dtype == c.k.dtype:
        return c, []
    half = c.k if c.k.dtype.itemsize == 2 else c.v
    copy = scratch.empty(half.shape, "float32")
    steps = cpy.plan(caps, scratch, half, copy)
    return (replace(c, k=copy) if half is c.k else replace(c, v=copy)), steps


def _rows(caps: Caps, scratch: Scratch, c: Call, slices: int) -> list[Step]:
    c, before = _alike(caps, scratch, c)
    d, item = c.dims, c.k.dtype.itemsize
    team = _team(caps, c)
    first = max(0, min(c.band.low, d.keys))
    last = max(first, min(d.keys, d.queries + c.band.high))
    # Keys that a workgroup takes at a time; blocks of so many keys are the slices' in turn, or
    # neighbours in flash_attn.
    unit, most, lanes = 32, 4, _lanes(caps, team, last - first, slices)
    if team:
        unit, most = lanes // team * 8 // item, MAX_ROUNDS
        slices = cdiv(slices * 128, lanes)
    blocks = cdiv(last - first, unit)
    if blocks == 0:
        return _empty(caps, scratch, c)
    each = min(cdiv(blocks, slices), most)
    slices = cdiv(blocks, each)
    parts = scratch.empty((slices, *c.dst.shape[:3], _whole(d)), "float32")
    sums = scratch.empty((slices, *c.dst.shape[:3]), "float32")
    sizes = {
        "kv_heads": d.kv_heads, "group": d.group, "queries": d.queries, "keys": d.keys,
        "depth": d.depth, "value_depth": d.value_depth, "matrices": d.batch * d.kv_heads,
        "row_groups": cdiv(d.group * d.queries, HELD), "slices": slices,
        "first_key": first, "last_key": last, **c.rules(),
    }  # fmt: skip
    if team:
        step = attention_decode.step(
            caps, c.q, c.k, c.v, c.mask, sums, parts, TEAM=team, NT=lanes,
            **sizes,  # type: ignore[arg-type]
        )  # fmt: skip
        return [*before, step, _merge(caps, parts, sums, c)]
    wide = _in_vectors(c.k) and _in_vectors(c.v)
    width = 8 if wide and item == 2 else 4
    step = flash_attn.step(
        caps, c.q, c.k, c.v, c.mask, None, sums, parts, WIDE=wide,
        column_bits=(cdiv(d.value_depth, width) - 1).bit_length(), slice_keys=each * unit,
        **sizes,  # type: ignore[arg-type]
    )  # fmt: skip
    return [*before, step, _merge(caps, parts, sums, c)]


# -- tiles ----------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Workgroups of a turn, from `first` on: `ranks` for each slice of the keys, the first slice of
    `long` tiles and the others of `short`. `out` and `sums` lack `rows_before` rows."""

    first: int
    ranks: int
    slices: int
    long: int
    short: int
    sums: View
    out: View
    rows_before: int = 0


def _tiles(caps: Caps, scratch: Scratch, c: Call, choice: Choice) -> list[Step]:
    d = c.dims
    rows, edge = edges(choice.body, d)
    deep = cdiv(d.depth, 16) * 16
    banded = c.band != (-OPEN, OPEN)
    where = blocks_of(d, rows, banded)
    tiles = cdiv(d.keys, edge)
    slices = max(choice.slices, cdiv(tiles * (deep // 16 + 20), MAX_ROUNDS))
    slice_tiles = cdiv(tiles, slices)
    slices = cdiv(tiles, slice_tiles)
    if slices > 1:
        out, sums, after = _parts(caps, scratch, c, slices)
    else:
        c, after = _vector_dst(caps, scratch, c)
        out, sums = c.dst, c.lse
    # Copies of q, k and v as f32, of as many KV heads at a time as one binding holds.
    largest = max(where.blocks * rows, tiles * edge) * deep * 4
    width = 0 if _direct(c.v) else _whole(d)
    some = max(1, caps.max_binding // max(largest, d.keys * width * 4))
    some = min(some // d.kv_heads * d.kv_heads or some, d.batch * d.kv_heads)
    turned_q = scratch.empty((some, deep, where.blocks * rows), "float32")
    turned_k = scratch.empty((some, deep, tiles * edge), "float32")
    values = scratch.empty((some, d.keys, width), "float32") if width else None
    steps: list[Step] = []
    for first, batches, heads in _turns(d, some):
        n = batches * heads
        qt, kt = (t.with_layout((n, *t.shape[1:]), t.strides) for t in (turned_q, turned_k))
        q, k, v = (_heads(x, d, first, batches, heads) for x in (c.q, c.k, c.v))
        copy = values and values.with_layout((n, *values.shape[1:]), values.strides)
        steps.append(_turn(caps, q, k, v, qt, kt, copy, where.pitch))
        if copy:
            v = copy.with_layout(v.shape, contiguous_strides((*v.shape[:3], width), 4))
        ranks = n * where.blocks * cdiv(d.value_depth, 128)
        parts = [_Part(0, ranks, slices, slice_tiles, slice_tiles, sums, out)]
        if choice.tail.blocks and slices == 1 and n == d.batch * d.kv_heads:
            parts, join = _with_tail(caps, scratch, c, choice, where, ranks)
            after = [join, *after]
        steps += [_tile(caps, c, choice.body, where, first, qt, kt, v, part) for part in parts]
    return [*steps, *after]


def _tile(
    caps: Caps, c: Call, tile: str, where: Blocks, first: int, q: View, k: View, v: View,
    part: _Part,
) -> Step:  # fmt: skip
    """One dispatch of blocks, from KV head `first` on."""
    d = c.dims
    banded = c.band != (-OPEN, OPEN)
    columns, run = cdiv(d.value_depth, 128), where.head_blocks if banded else 1
    spread, rest = order(tile, d, where, q.shape[0]) if banded else (1, 0)
    return attention_tile.step(
        caps, q, k, v, c.mask, c.sinks if part.slices == 1 else None, part.sums, part.out,
        TILE=tile, DVP=padded(d),
        first_batch=first // d.kv_heads, first_head=first % d.kv_heads,
        kv_heads=d.kv_heads, group=d.group, queries=d.queries, keys=d.keys,
        pitch=where.pitch, head_blocks=where.head_blocks,
        run=run, breadth=where.blocks // run * columns, spread=spread, rest=rest,
        value_depth=d.value_depth, columns=columns,
        first_rank=part.first, ranks=part.ranks,
        long_tiles=part.long, slice_tiles=part.short, rows_before=part.rows_before,
        lse_slice=part.sums.strides[0] // 4 if part.slices > 1 else 0,
        dst_slice=part.out.strides[0] // 16 if part.slices > 1 else 0,
        **c.rules(),  # type: ignore[arg-type]
    )  # fmt: skip


def _with_tail(
    caps: Caps, scratch: Scratch, c: Call, choice: Choice, where: Blocks, ranks: int
) -> tuple[list[_Part], Step]:
    """Whole blocks, and those of the tail in slices; and the step that joins these.

    The tail is a dispatch of its own that writes to scratch only, so it does not wait: its
    workgroups take the places that the last wave of whole blocks leaves free.
    """
    d, tail = c.dims, choice.tail
    rows, edge = edges(choice.body, d)
    tiles, width = cdiv(d.keys, edge), _whole(d)
    whole = ranks - tail.blocks
    block = whole // cdiv(d.value_depth, 128)
    matrix = block // where.blocks
    block -= matrix * where.blocks
    head = block // where.head_blocks if where.head_blocks > 1 else 0
    before = (matrix * d.group + head) * d.queries + (block - head * where.head_blocks) * rows
    count = d.batch * d.heads * d.queries - before
    # Rows of dst from `before` on, one after another.
    parts = scratch.empty((tail.slices, count, width), "float32")
    sums = scratch.empty((tail.slices, count), "float32")
    shape = (d.batch, d.heads, d.queries)
    steps = contiguous_strides((*shape, width), 4)
    out = parts.with_layout((tail.slices, 1, 1, count, width), (count * width * 4, *steps))
    lse = sums.with_layout((tail.slices, 1, 1, count), (count * 4, *contiguous_strides(shape, 4)))
    first = _Part(0, whole, 1, tiles, tiles, c.lse, c.dst)
    last = _Part(whole, tail.blocks, tail.slices, tail.long, tail.short, lse, out, before)
    return ([first, last] if whole else [last]), _join(caps, parts, sums, c, before)


def _turns(d: Dims, some: int) -> list[tuple[int, int, int]]:
    """First KV head, batches and heads of each of several turns of up to `some` KV heads.

    A turn is of whole batches, or inside of one.
    """
    if some >= d.kv_heads:
        each = some // d.kv_heads
        return [
            (b * d.kv_heads, min(each, d.batch - b), d.kv_heads) for b in range(0, d.batch, each)
        ]
    return [
        (b * d.kv_heads + h, 1, min(some, d.kv_heads - h))
        for b in range(d.batch) for h in range(0, d.kv_heads, some)
    ]  # fmt: skip


def _heads(x: View, d: Dims, first: int, batches: int, heads: int) -> View:
    """(batches, heads) of q, k or v from KV head `first` on."""
    group = x.shape[1] // d.kv_heads
    batch = first // d.kv_heads
    head = first - batch * d.kv_heads
    offset = x.offset + batch * x.strides[0] + head * group * x.strides[1]
    return replace(x, shape=(batches, heads * group, *x.shape[2:]), offset=offset)


def _turn(
    caps: Caps, q: View, k: View, v: View, turned_q: View, turned_k: View,
    values: View | None, pitch: int,
) -> Step:  # fmt: skip
    """q and k depth first, and a copy of v if one is wanted."""
    return pack_qk.step(
        caps, q, k, v, turned_q, turned_k, values, pitch=pitch,
        q_kind=_kind(q), k_kind=_kind(k), v_kind=_kind(v),
    )  # fmt: skip


def _direct(v: View) -> bool:
    """May tiles read v as it lies? (Eight halves a load, four of rows up to 64.)"""
    return _in_vectors(v, 8 if v.dtype.itemsize == 2 and v.shape[3] <= 64 else 16)


def _kind(view: View) -> int:
    """How pack_qk reads a tensor: bit 0 is set for f16, bit 1 for vectors of four."""
    runs = view.shape[3] % 4 == 0 and _in_vectors(view, 8)
    return int(view.dtype.itemsize == 2) + 2 * int(runs)


def _parts(caps: Caps, scratch: Scratch, c: Call, slices: int) -> tuple[View, View, list[Step]]:
    """Where the slices of the keys write results and lse, and the step that joins them."""
    parts = scratch.empty((slices, *c.dst.shape[:3], _whole(c.dims)), "float32")
    sums = scratch.empty((slices, *c.dst.shape[:3]), "float32")
    finish = _join if slices <= FEW_SLICES else _merge
    return parts, sums, [finish(caps, parts, sums, c)]


def _vector_dst(caps: Caps, scratch: Scratch, c: Call) -> tuple[Call, list[Step]]:
    """dst in rows of whole vectors: scratch stands in for one that is not, and is copied to it."""
    if _in_vectors(c.dst, 4 * c.dst.dtype.itemsize):
        return c, []
    rows = scratch.empty((*c.dst.shape[:3], _whole(c.dims)), c.dst.dtype.name)
    copy = cpy.plan(caps, scratch, rows.with_layout(c.dst.shape, rows.strides), c.dst)
    return replace(c, dst=rows), copy


def _whole(d: Dims) -> int:
    """The depth of values in whole vectors."""
    return cdiv(d.value_depth, 4) * 4
