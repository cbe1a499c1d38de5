"""Chooses the body of a call of flash_attn and the number of splits of the keys, by pure
functions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pykernels._generated.bodies import attention_decode, attention_tile
from pykernels.plans.cost import product_seconds, splitk_seconds
from pykernels.plans.limits import fits
from pykernels.steps import Candidate, Caps, cdiv, forced
from pykernels.tuning import Tuning

from . import select_mma as mma
from .arguments import Dims
from .select_products import products_cost

__all__ = [
    "BLOCKS",
    "BODIES",
    "CONFIGS",
    "DECODE",
    "HELD",
    "LARGE",
    "MMA",
    "PRODUCTS",
    "SMALL",
    "WIDEST",
    "AttentionChoice",
    "AttentionTail",
    "RowBlocks",
    "blocks_of",
    "candidates",
    "choose",
    "order",
    "padded",
    "tail_of",
    "tile_sizes",
]  # fmt: skip

DECODE, SMALL, LARGE = "decode", "attention_tile/32", "attention_tile/large"
MMA, PRODUCTS = "attention_mma", "products"
# The configurations of attention_tile, by the depth that values are padded to.
CONFIGS = {
    (tile, attention_tile.CONFIGS[name].DVP): name
    for tile, names in ((SMALL, ("small64", "small128")), (LARGE, ("large64", "large128")))
    for name in names
}
DEPTHS = sorted({depth for _, depth in CONFIGS})
WIDEST = DEPTHS[-1]
# Query rows of a block and keys of a tile.
BLOCKS = {
    key: (attention_tile.CONFIGS[name].BR, attention_tile.CONFIGS[name].BC)
    for key, name in CONFIGS.items()
}
# The invocations of a workgroup of the large tiles, and its bytes of workgroup memory.
_LARGE = attention_tile.CONFIGS["large64"]
LARGE_NEEDS = (_LARGE.threads, _LARGE.workgroup_bytes)
# Query rows of a workgroup of attention_decode; the number of workgroups of a call follows from it.
HELD = attention_decode.CONFIGS["lanes8"].ROWS

# The bodies that a choice names.
BODIES = (DECODE, SMALL, LARGE, PRODUCTS, *(f"{MMA}/{tile}" for tile in mma.TILES))


class AttentionTail(NamedTuple):
    """The tail: `blocks` workgroups at the end of a call, whose keys are cut into `splits`.

    The first split of a block has `long` tiles of keys, the other splits have `short` tiles. In the
    last wave, long splits take the places of whole blocks, and short splits fill the rest.
    """

    blocks: int = 0
    long: int = 0
    short: int = 0
    splits: int = 1


class AttentionChoice(NamedTuple):
    """The choice of a body and of the number of splits of the keys. The body is DECODE, a tile, a
    tile of matrix units (MMA), or PRODUCTS. The splits are for all blocks, or only for the blocks
    at the end.

    `order`: the order of blocks that differ in length; None stands for the function `order`.
    `queries`: the queries of a chunk of PRODUCTS; 0 means all queries.
    """

    body: str
    splits: int = 1
    tail: AttentionTail = AttentionTail()
    order: tuple[int, int] | None = None
    queries: int = 0


def choose(
    caps: Caps, d: Dims, banded: bool = False, halves: bool = False, hidden: bool = False
) -> AttentionChoice:
    """The body and the splits for one call. `banded`: causality, a window or lengths hide keys;
    `halves`: q, k and v are float16; `hidden`: a mask or lengths hide keys, so PRODUCTS is
    excluded, because it would also multiply hidden values."""
    given = forced(caps, AttentionChoice, d, banded, halves, hidden)
    if given is not None and not (hidden and given.body == PRODUCTS):
        return given
    t, units = caps.tuning.attention, caps.tuning.device.units
    rows = d.group * d.queries
    matrices = d.batch * d.kv_heads
    if rows <= t.decode.rows:
        splits = t.decode.waves * units // (matrices * cdiv(rows, HELD))
        return AttentionChoice(DECODE, max(1, min(splits, d.keys // t.decode.shortest)))
    units_tile = mma.tile_of(caps, d) if halves else ""
    if units_tile:
        return AttentionChoice(f"{MMA}/{units_tile}", mma.splits_of(caps.tuning, units_tile, d))
    own = t.attention_tile
    tile = LARGE if LARGE in t.bodies and fits(caps, *LARGE_NEEDS) else SMALL
    if tile == LARGE and (
        _groups(LARGE, d) * cdiv(d.keys, own.large_keys) < _busy(caps.tuning, LARGE, d) // 2
    ):
        tile = SMALL
    splits = _busy(caps.tuning, tile, d) // _groups(tile, d)
    splits = max(1, min(splits, d.keys // own.shortest, own.most))
    gain = t.products.gain
    if gain > 0 and not hidden and d.value_depth > WIDEST:
        by_products = products_cost(caps, d, banded, halves)
        limit = gain * _tile_seconds(caps.tuning, tile, d, splits, banded)
        if by_products is not None and by_products.seconds < limit:
            return AttentionChoice(PRODUCTS, queries=by_products.queries)
    whole = tile == SMALL or banded or splits > 1
    return AttentionChoice(tile, splits, AttentionTail() if whole else _tail(caps.tuning, d))


def candidates(
    caps: Caps, d: Dims, banded: bool = False, halves: bool = False, hidden: bool = False
) -> list[Candidate]:
    """All bodies, each with the reason if it is excluded. Only PRODUCTS has a model of its time."""
    chosen = choose(replace(caps, asked=None, forced=()), d, banded, halves, hidden)
    whys = {DECODE: "", SMALL: "", LARGE: ""}
    if LARGE not in caps.tuning.attention.bodies or not fits(caps, *LARGE_NEEDS):
        whys[LARGE] = "not in the tuning table, or too large for a workgroup"
    for tile in mma.TILES:
        if tile != mma.EMULATED:
            ruled_out = "" if mma.may(caps, tile) else "no such matrix units"
            whys[f"{MMA}/{tile}"] = ruled_out if halves else "operands are not float16"
    found = [
        Candidate(chosen if chosen.body == body else AttentionChoice(body), None, why)
        for body, why in whys.items()
    ]
    cost = products_cost(caps, d, banded, halves)
    why = "a mask or lengths hide keys" if hidden else ""
    if cost is None or caps.tuning.attention.products.gain == 0:
        why = "not in the tuning table, or no room for scores"
    choice = AttentionChoice(PRODUCTS, queries=cost.queries if cost else 0)
    return [*found, Candidate(choice, cost and cost.seconds, why)]


def _tile_seconds(t: Tuning, tile: str, d: Dims, splits: int, banded: bool) -> float:
    """The expected seconds of a call in this tile, computed with the rate of the large tile. The
    scores count once for each block of columns, because each block computes them again. The
    estimate assumes that a band hides half of the keys."""
    own = t.attention.attention_tile
    depth = cdiv(d.depth, 16) * 16 + padded(d)
    operations = 2 * d.batch * d.heads * d.queries * d.keys * depth * cdiv(d.value_depth, WIDEST)
    resident = _resident_workgroups(t) if tile == LARGE else _busy(t, tile, d)
    full = min(_groups(tile, d) * splits / resident, 1.0)
    return operations * (0.5 if banded else 1.0) / (own.rate * full)


def _busy(t: Tuning, tile: str, d: Dims) -> int:
    """The number of workgroups that keep the device busy."""
    each = t.attention.attention_tile.waves[f"{tile.split('/')[1]}/{padded(d)}"]
    return each * t.device.units


def _tail(t: Tuning, d: Dims) -> AttentionTail:
    """The tail of a call in large tiles, if all blocks of the call are equally long."""
    tile_rows, tile_keys = tile_sizes(LARGE, d)
    columns = cdiv(d.value_depth, WIDEST)
    blocks = d.batch * d.kv_heads * blocks_of(d, tile_rows, False).total * columns
    own, units = t.attention.attention_tile, t.device.units
    depth = d.depth + padded(d)
    seconds = product_seconds(tile_rows, tile_keys, depth, own.resident, units, own.rate)
    nbytes = tile_rows * min(d.value_depth, WIDEST) * 4
    return tail_of(t, blocks, cdiv(d.keys, tile_keys), columns, seconds, nbytes)


def _groups(tile: str, d: Dims) -> int:
    rows = tile_sizes(tile, d)[0]
    return d.batch * d.kv_heads * cdiv(d.group * d.queries, rows) * cdiv(d.value_depth, WIDEST)


def _resident_workgroups(t: Tuning) -> int:
    """The number of workgroups of the large tiles that the device runs at a time."""
    return t.attention.attention_tile.resident * t.device.units


def tail_of(
    t: Tuning, blocks: int, tiles: int, columns: int, seconds: float, nbytes: int
) -> AttentionTail:
    """The tail that saves the most time; no tail if none saves time.

    The call has `blocks` blocks of `tiles` tiles each, and `columns` blocks for the same rows.
    `seconds` is the time of one wave of tiles, `nbytes` the size of one block's result.
    """
    resident, ends = _resident_workgroups(t), t.attention.attention_tile.ends
    waves, rest = divmod(blocks, resident)
    rest = cdiv(rest, columns) * columns
    best, saved = AttentionTail(), 0.0
    if waves == 0 or rest == 0:
        return best
    least = cdiv(rest * tiles, resident)
    for short_splits in range(1, 8):
        for longer in range(8):
            long = least + longer * max(tiles // 32, 1)
            if long >= tiles:
                break
            short = cdiv(tiles - long, short_splits)
            if short > long:
                continue
            splits = 1 + cdiv(tiles - long, short)
            end = _end(resident, ends, rest, tiles, long, splits - 1)
            # Partial results are written, read, and combined.
            dispatches = 2 * t.attention.dispatch
            combined = splitk_seconds(rest * nbytes, splits, dispatches, t.device.copy)
            gain = (tiles + ends - end) * seconds - combined
            if gain > saved:
                best, saved = AttentionTail(rest, long, short, splits), gain
    return best


def _end(resident: int, ends: float, rest: int, tiles: int, long: int, splits: int) -> float:
    """The time until a tail is done, in tiles.

    Short splits run beside the long splits if they can end before them. The other short splits
    begin afterwards, on the whole device.
    """
    long_end, short_end = long + ends, (tiles - long) / splits + ends
    each = int(long_end // short_end)
    over = rest * splits - (resident - rest) * each
    if over <= 0:
        return long_end
    return max(long_end, (each + cdiv(over, resident)) * short_end)


def padded(d: Dims) -> int:
    """The depth that a tile pads values to."""
    return next((depth for depth in DEPTHS if d.value_depth <= depth), WIDEST)


def tile_sizes(tile: str, d: Dims) -> tuple[int, int]:
    return BLOCKS[tile, padded(d)]


class RowBlocks(NamedTuple):
    """Assigns the rows of one KV head to blocks; each of its query heads has `pitch` rows.

    Each query head has `head_blocks` blocks of its own, or all query heads share blocks
    (`head_blocks` is 1).
    """

    pitch: int
    total: int
    head_blocks: int


def blocks_of(d: Dims, block_rows: int, banded: bool) -> RowBlocks:
    each = cdiv(d.queries, block_rows)
    shared = cdiv(d.group * d.queries, block_rows)
    if each == 1 or (not banded and d.group * each * 4 > shared * 5):
        return RowBlocks(d.queries, shared, 1)
    return RowBlocks(each * block_rows, d.group * each, each)


def order(t: Tuning, tile: str, d: Dims, blocks: RowBlocks, heads: int) -> tuple[int, int]:
    """The order of blocks that differ in length, as two numbers.

    The first is the number of KV heads whose blocks form a group; in a group, the longest blocks
    come first. The second is the number of blocks of each head that come last: a quarter of the
    blocks, the shortest.

    A group of up to three waves of blocks keeps its keys in the cache of a large GPU. All groups
    have about the same size, because a much smaller last group would leave the device idle.
    """
    each = blocks.total * cdiv(d.value_depth, WIDEST)
    own = t.attention.attention_tile
    cached = own.cache_waves * _resident_workgroups(t)
    if tile == SMALL or heads * each < cached:
        return heads, 0
    most = max(cached // each, 1)
    # The last group has at least `alike` times the size of the others.
    alike = [n for n in range(1, most + 1) if (heads - 1) % n + 1 >= own.alike * n]
    return alike[-1], blocks.head_blocks // 4
