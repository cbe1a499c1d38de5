"""flash_attn of many query rows, in tiles; its time is the time of the multiply-adds."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pykernels._generated.bodies import attention_tile, pack_qk
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View, contiguous_strides

from .arguments import Dims
from .blocks import partials, places, vector_dst
from .call import Call, combine_tiles, in_vectors, whole_depth
from .select import (
    CONFIGS,
    WIDEST,
    AttentionChoice,
    RowBlocks,
    blocks_of,
    padded,
    tile_sizes,
)

__all__ = ["batches_of", "heads_from", "tiles"]


class _Part(NamedTuple):
    """The workgroups of one dispatch, from `first_rank` on. Each split of the keys has `ranks`
    workgroups; the first split has `long` tiles, and the other splits have `short` tiles. `out` and
    `sums` begin at row `rows_before` of dst."""

    first_rank: int
    ranks: int
    splits: int
    long: int
    short: int
    sums: View
    out: View
    rows_before: int = 0


def tiles(caps: Caps, scratch: Scratch, c: Call, choice: AttentionChoice) -> list[Step]:
    """The dispatches of a call in tiles, from q and k packed depth first."""
    d = c.dims
    tile_rows, tile_keys = tile_sizes(choice.body, d)
    padded_depth = cdiv(d.depth, 16) * 16
    banded = c.band.hides
    blocks = blocks_of(d, tile_rows, banded)
    key_tiles = cdiv(d.keys, tile_keys)
    splits = max(choice.splits, cdiv(key_tiles * (padded_depth // 16 + 20), MAX_ROUNDS))
    split_tiles = cdiv(key_tiles, splits)
    splits = cdiv(key_tiles, split_tiles)
    if splits > 1:
        out, sums, after = partials(caps, scratch, c, splits)
    else:
        c, after = vector_dst(caps, scratch, c)
        out, sums = c.dst, c.lse
    # Copies of q, k and v as f32. A dispatch has as many KV heads as one binding holds.
    largest = max(blocks.total * tile_rows, key_tiles * tile_keys) * padded_depth * 4
    width = 0 if _direct(c.v) else whole_depth(d)
    some = max(1, caps.max_binding // max(largest, d.keys * width * 4))
    some = min(some // d.kv_heads * d.kv_heads or some, d.batch * d.kv_heads)
    packed_q = scratch.empty((some, padded_depth, blocks.total * tile_rows), "float32")
    packed_k = scratch.empty((some, padded_depth, key_tiles * tile_keys), "float32")
    values = scratch.empty((some, d.keys, width), "float32") if width else None
    steps: list[Step] = []
    for kv_head, batches, heads in batches_of(d, some):
        n = batches * heads
        qt, kt = (t.with_layout((n, *t.shape[1:]), t.strides) for t in (packed_q, packed_k))
        q, k, v = (heads_from(x, d, kv_head, batches, heads) for x in (c.q, c.k, c.v))
        copy = values and values.with_layout((n, *values.shape[1:]), values.strides)
        lengths = c.lengths and _ofbatches_of(c.lengths, kv_head // d.kv_heads, batches)
        steps.append(_pack(caps, q, k, v, lengths, qt, kt, copy, blocks.pitch))
        if copy:
            v = copy.with_layout(v.shape, contiguous_strides((*v.shape[:3], width), 4))
        ranks = n * blocks.total * cdiv(d.value_depth, WIDEST)
        parts = [_Part(0, ranks, splits, split_tiles, split_tiles, sums, out)]
        if choice.tail.blocks and splits == 1 and n == d.batch * d.kv_heads:
            parts, last = _with_tail(caps, scratch, c, choice, blocks, ranks)
            after = [last, *after]
        steps += [_tile(caps, c, choice, blocks, kv_head, qt, kt, v, part) for part in parts]
    return [*steps, *after]


def _tile(
    caps: Caps, c: Call, choice: AttentionChoice, blocks: RowBlocks, kv_head: int, q: View, k: View,
    v: View, part: _Part,
) -> Step:  # fmt: skip
    """One dispatch of blocks, from KV head `kv_head` on."""
    d = c.dims
    columns = cdiv(d.value_depth, WIDEST)
    return attention_tile.step(
        caps, q, k, v, c.mask, c.sinks if part.splits == 1 else None, c.lengths,
        part.sums.as_rank(4), part.out.as_rank(5), TILE=CONFIGS[choice.body, padded(d)],
        first_batch=kv_head // d.kv_heads, first_head=kv_head % d.kv_heads,
        head_blocks=blocks.head_blocks, first_rank=part.first_rank, ranks=part.ranks,
        long_tiles=part.long, split_tiles=part.short, rows_before=part.rows_before,
        **places(caps, c, choice, blocks, q.shape[0], columns), **c.rules(),  # type: ignore[arg-type]
    )  # fmt: skip


def _with_tail(
    caps: Caps, scratch: Scratch, c: Call, choice: AttentionChoice, blocks: RowBlocks, ranks: int
) -> tuple[list[_Part], Step]:
    """Steps for whole blocks, for the blocks of the tail in splits, and for combining the splits.

    The tail is a dispatch of its own that writes to scratch only, so it does not wait: its
    workgroups fill the last wave of the whole blocks.
    """
    d, tail = c.dims, choice.tail
    tile_rows, tile_keys = tile_sizes(choice.body, d)
    tiles, width = cdiv(d.keys, tile_keys), whole_depth(d)
    whole = ranks - tail.blocks
    block = whole // cdiv(d.value_depth, WIDEST)
    matrix = block // blocks.total
    block -= matrix * blocks.total
    head = block // blocks.head_blocks if blocks.head_blocks > 1 else 0
    before = (matrix * d.group + head) * d.queries + (block - head * blocks.head_blocks) * tile_rows
    count = d.batch * d.heads * d.queries - before
    # The rows of dst from `before` on, one after another.
    partials = scratch.empty((tail.splits, count, width), "float32")
    sums = scratch.empty((tail.splits, count), "float32")
    shape = (d.batch, d.heads, d.queries)
    steps = contiguous_strides((*shape, width), 4)
    out = partials.with_layout((tail.splits, 1, 1, count, width), (count * width * 4, *steps))
    lse = sums.with_layout((tail.splits, 1, 1, count), (count * 4, *contiguous_strides(shape, 4)))
    main = _Part(0, whole, 1, tiles, tiles, c.lse, c.dst)
    rest = _Part(whole, tail.blocks, tail.splits, tail.long, tail.short, lse, out, before)
    return ([main, rest] if whole else [rest]), combine_tiles(caps, partials, sums, c, before)


def batches_of(d: Dims, some: int) -> list[tuple[int, int, int]]:
    """For each dispatch, its first KV head, its number of batches, and its number of KV heads in
    each batch.

    A dispatch has up to `some` KV heads: whole batches, or heads of one batch.
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


def heads_from(x: View, d: Dims, kv_head: int, batches: int, heads: int) -> View:
    """The (batches, heads) of q, k or v, starting at KV head `kv_head`."""
    group = x.shape[1] // d.kv_heads
    batch = kv_head // d.kv_heads
    head = kv_head - batch * d.kv_heads
    offset = x.offset + batch * x.strides[0] + head * group * x.strides[1]
    return replace(x, shape=(batches, heads * group, *x.shape[2:]), offset=offset)


def _ofbatches_of(lengths: View, first: int, count: int) -> View:
    """The lengths of `count` batches."""
    return replace(lengths, shape=(count,), offset=lengths.offset + first * lengths.strides[0])


def _pack(
    caps: Caps, q: View, k: View, v: View, lengths: View | None, packed_q: View, packed_k: View,
    values: View | None, pitch: int,
) -> Step:  # fmt: skip
    """The step that packs q and k depth first, and copies v if asked."""
    return pack_qk.step(
        caps, q, k, v, lengths, packed_q, packed_k, values, pitch=pitch,
        q_kind=_kind(q), k_kind=_kind(k), v_kind=_kind(v),
    )  # fmt: skip


def _direct(v: View) -> bool:
    """True if tiles may read v where it is, in loads of eight halves, or of four halves for rows of
    up to 64."""
    return in_vectors(v, 8 if v.dtype.itemsize == 2 and v.shape[3] <= 64 else 16)


def _kind(view: View) -> int:
    """The code by which pack_qk reads a tensor: bit 0 is set for f16, bit 1 for vectors of four."""
    runs = view.shape[3] % 4 == 0 and in_vectors(view, 8)
    return int(view.dtype.itemsize == 2) + 2 * int(runs)
