"""Which body computes a call of flash_attn, in how many slices of the keys: pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.plan import Caps, cdiv

from .arguments import Dims

__all__ = [
    "BLOCKS", "HELD", "Blocks", "Choice", "Tail", "blocks_of", "choose", "cut", "edges", "order",
    "padded",
]  # fmt: skip

# The tiles of attention_tile.wgsl, by the depth that values are padded to: rows of a block, keys.
BLOCKS = {
    ("32", 64): (32, 32), ("32", 128): (32, 32),
    ("large", 64): (128, 64), ("large", 128): (64, 128),
}  # fmt: skip
# Rows (of the query heads that share a KV head) that the direct kernel takes.
FEW = 32
# Rows that a workgroup of the two bodies for few rows takes.
HELD = 4
# Workgroups that keep a large GPU busy: four direct ones, or so many tiles, a multiprocessor.
BUSY_ROWS = 528
BUSY_TILES = {("32", 64): 528, ("32", 128): 528, ("large", 64): 132, ("large", 128): 264}
# What the times of large calls are weighed with, measured on such a GPU: workgroups of the large
# tiles at a time (two on each of 132 multiprocessors), operations and bytes per second, seconds of
# one more dispatch.
SLOTS, RATE, BANDWIDTH, DISPATCH = 264, 45e12, 3.5e12, 4e-6
# Tiles that it takes to begin and end a slice.
ENDS = 0.25


class Tail(NamedTuple):
    """`blocks` workgroups at the end of a call whose keys are cut into `slices`.

    The first slice has `long` tiles, the others `short` ones. Long slices take the places of whole
    blocks in the last wave, short ones the places that would be left free.
    """

    blocks: int = 0
    long: int = 0
    short: int = 0
    slices: int = 1


class Choice(NamedTuple):
    """ "rows" or a tile of attention_tile.wgsl, and the number of slices of the keys: of all
    blocks, or of those at the end."""

    body: str
    slices: int = 1
    tail: Tail = Tail()


def choose(caps: Caps, d: Dims, banded: bool = False) -> Choice:
    """The body and the slices for one call. `banded`: causality or a window hides keys."""
    rows = d.group * d.queries
    matrices = d.batch * d.kv_heads
    if rows <= FEW:
        groups = matrices * cdiv(rows, HELD)
        return Choice("rows", max(1, min(BUSY_ROWS // groups, d.keys // 64)))
    tile = "large"
    if caps.max_invocations < 1024 or caps.max_workgroup_bytes < 25600:
        tile = "32"  # WebGPU's defaults: small devices and software drivers
    groups = _groups(tile, d)
    if tile != "32" and groups * cdiv(d.keys, 1024) < BUSY_TILES[tile, padded(d)] // 2:
        tile = "32"
        groups = _groups(tile, d)
    slices = max(1, min(BUSY_TILES[tile, padded(d)] // groups, d.keys // 512, 64))
    whole = tile == "32" or banded or slices > 1
    return Choice(tile, slices, Tail() if whole else _tail(d))


def _tail(d: Dims) -> Tail:
    """The tail of a call in large tiles whose blocks are equally long."""
    rows, edge = edges("large", d)
    columns = cdiv(d.value_depth, 128)
    blocks = d.batch * d.kv_heads * blocks_of(d, rows, False).blocks * columns
    seconds = 2 * rows * edge * (d.depth + padded(d)) * SLOTS / RATE
    nbytes = rows * min(d.value_depth, 128) * 4
    return cut(SLOTS, blocks, cdiv(d.keys, edge), columns, seconds, nbytes)


def _groups(tile: str, d: Dims) -> int:
    rows = edges(tile, d)[0]
    return d.batch * d.kv_heads * cdiv(d.group * d.queries, rows) * cdiv(d.value_depth, 128)


def cut(slots: int, blocks: int, tiles: int, columns: int, seconds: float, nbytes: int) -> Tail:
    """The tail that saves most time, or none.

    `blocks` of `tiles` tiles each, `columns` of them for the same rows; `seconds` of one wave of
    tiles, and bytes of one block's result.
    """
    waves, rest = divmod(blocks, slots)
    rest = cdiv(rest, columns) * columns
    best, saved = Tail(), 0.0
    if waves == 0 or rest == 0:
        return best
    least = cdiv(rest * tiles, slots)
    for short_slices in range(1, 8):
        for longer in range(8):
            long = least + longer * max(tiles // 32, 1)
            if long >= tiles:
                break
            short = cdiv(tiles - long, short_slices)
            if short > long:
                continue
            slices = 1 + cdiv(tiles - long, short)
            end = _end(slots, rest, tiles, long, slices - 1)
            # Parts are written, read, and joined.
            joined = 2 * DISPATCH + 2 * slices * rest * nbytes / BANDWIDTH
            gain = (tiles + ENDS - end) * seconds - joined
            if gain > saved:
                best, saved = Tail(rest, long, short, slices), gain
    return best


def _end(slots: int, rest: int, tiles: int, long: int, slices: int) -> float:
    """When all of a tail is done, in tiles.

    Short slices take the slots that the long ones leave free, as many each as end before the long
    ones do. What is left over begins then, on all slots.
    """
    first, then = long + ENDS, (tiles - long) / slices + ENDS
    each = int(first // then)
    over = rest * slices - (slots - rest) * each
    if over <= 0:
        return first
    return max(first, (each + cdiv(over, slots)) * then)


def padded(d: Dims) -> int:
    """The depth that a tile pads values to."""
    return 64 if d.value_depth <= 64 else 128


def edges(tile: str, d: Dims) -> tuple[int, int]:
    return BLOCKS[tile, padded(d)]


class Blocks(NamedTuple):
    """Rows of one KV head as blocks: `pitch` rows for each of its query heads.

    Heads begin at a block (`head_blocks` each), or follow each other in shared blocks (1).
    """

    pitch: int
    blocks: int
    head_blocks: int


def blocks_of(d: Dims, edge: int, banded: bool) -> Blocks:
    each = cdiv(d.queries, edge)
    shared = cdiv(d.group * d.queries, edge)
    if each == 1 or (not banded and d.group * each * 4 > shared * 5):
        return Blocks(d.queries, shared, 1)
    return Blocks(each * edge, d.group * each, each)


def order(tile: str, d: Dims, where: Blocks, heads: int) -> tuple[int, int]:
    """How blocks of unlike lengths follow each other: the KV heads whose blocks are neighbours, the
    longest first, and the shortest blocks of each run, which wait for the end: a quarter.

    Blocks of up to three waves of a large GPU, of long ones and of shorter ones, keep their keys in
    its cache; groups are alike, as a last one that is much smaller would leave the device idle.
    """
    each = where.blocks * cdiv(d.value_depth, 128)
    if tile == "32" or heads * each < 3 * SLOTS:
        return heads, 0
    most = max(3 * SLOTS // each, 1)
    alike = [n for n in range(1, most + 1) if (heads - 1) % n + 1 >= 0.85 * n]  # the last group too
    return alike[-1], where.head_blocks // 4
