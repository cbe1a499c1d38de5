"""Sorts rows: in workgroup memory if they fit, by merging a few pieces, or else by radix, four bits
a pass."""

from __future__ import annotations

from pykernels._generated.bodies import sort_count, sort_keys, sort_merge, sort_rows, sort_scatter
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.scan import running as scan
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View

__all__ = [
    "check", "front", "merged", "merges", "ordered", "passes", "radix", "short_rows", "tiled",
    "words",
]  # fmt: skip

BLOCK = sort_rows.CONFIGS["block2048"].SIZE
TILE = sort_scatter.CONFIGS["tile2048"].PER * sort_scatter.CONFIGS["tile2048"].threads
DIGITS = 16
DIGIT_BITS = 4
# The number of pieces of a row that one dispatch merges. Merging searches all pieces for each
# element. If elements times pieces are more than MOST_MERGED, sorting by radix is faster.
PIECES, MOST_MERGED = 16, 1 << 22
# Each workgroup of sort_scatter adds up the counts of up to this many tiles of a row, in less
# time than the dispatches of a scan need.
ADDED_TILES = 1024


def check(op: str, x: View) -> None:
    """ShapeError if x has no axes, and so no rows."""
    if x.ndim == 0:
        raise ShapeError(f"[{op}] x must have at least one axis but has none")


def ordered(
    caps: Caps, scratch: Scratch, x: View, values: View | None, index: View | None, descending: bool
) -> list[Step]:
    """The steps that sort all elements of each row. The result is either values or positions."""
    if x.size == 0:
        return []
    if x.shape[-1] <= BLOCK:
        return short_rows(caps, scratch, x, None, values, index, x.shape[-1], descending)
    if merges(x):
        return merged(caps, scratch, x, values, index, x.shape[-1], descending)
    items, last = words(scratch, x), values or index
    assert last is not None
    near = items
    if last.shape == items.shape and last.contiguous and last.dtype.itemsize == 4:
        near = last.with_layout(items.shape, items.strides, items.dtype)
    keys, of_bits = words(scratch, x), values is not None
    steps = radix(caps, scratch, x, keys, items, of_bits, descending, last=near)
    if near is items:
        steps += cpy.plan(caps, scratch, front(items, x.shape, last), last)
    return steps


def merges(x: View) -> bool:
    """True if rows longer than a block are merged from pieces."""
    pieces = cdiv(x.shape[-1], BLOCK)
    return 1 < pieces <= PIECES and x.size * pieces <= MOST_MERGED


def merged(
    caps: Caps, scratch: Scratch, x: View, values: View | None, index: View | None, keep: int,
    descending: bool,
) -> list[Step]:  # fmt: skip
    """The steps that find the first `keep` elements of each row in order: their values, their
    positions, or both."""
    pieces = scratch.empty(x.shape, x.dtype.name)
    places = scratch.empty(x.shape, "int32") if index is not None else None
    steps = short_rows(caps, scratch, x, None, pieces, places, BLOCK, descending)
    values, index, after = _near(caps, scratch, values, index)
    return [
        *steps,
        sort_merge.step(
            caps, pieces, places, values, index, keep=keep, piece_bits=BLOCK.bit_length() - 1,
            descending=int(descending),
        ),
        *after,
    ]  # fmt: skip


def words(scratch: Scratch, x: View) -> View:
    """Scratch with a word for each element of rows that are filled up to whole tiles."""
    return scratch.empty((*x.shape[:-1], tiled(x.shape[-1])), "uint32")


def tiled(length: int) -> int:
    """The length of rows that are filled up to whole tiles."""
    return cdiv(length, TILE) * TILE


def front(items: View, shape: tuple[int, ...], like: View) -> View:
    """The first columns of each row of words, as a view with the dtype of `like`; its elements are
    the lowest bits of the words."""
    return items.with_layout(shape, items.strides, like.dtype)


def short_rows(
    caps: Caps,
    scratch: Scratch,
    x: View,
    positions: View | None,
    values: View | None,
    index: View | None,
    keep: int,
    descending: bool,
) -> list[Step]:
    """The steps for rows that fit a workgroup, or for the first `keep` elements of each piece of
    longer rows."""
    before: list[Step] = []
    if _apart(x):
        near = scratch.empty(x.shape, x.dtype.name)
        before = cpy.plan(caps, scratch, x, near)
        x = near
    values, index, after = _near(caps, scratch, values, index)
    cols = x.shape[-1]
    bits = (min(cols, BLOCK) - 1).bit_length()
    step = sort_rows.step(
        caps, x, positions, values, index, bits=bits, keep_bits=min(bits, (keep - 1).bit_length()),
        pieces=cdiv(cols, BLOCK), keep=keep, descending=int(descending),
    )  # fmt: skip
    return [*before, step, *after]


def _near(
    caps: Caps, scratch: Scratch, values: View | None, index: View | None
) -> tuple[View | None, View | None, list[Step]]:
    """Temporaries for the sorted keys and items, and the steps that copy them to the caller's
    views."""
    after: list[Step] = []
    if values is not None and _apart(values):
        far = values
        values = scratch.empty(far.shape, far.dtype.name)
        after += cpy.plan(caps, scratch, values, far)
    if index is not None and _apart(index):
        far = index
        index = scratch.empty(far.shape, far.dtype.name)
        after += cpy.plan(caps, scratch, index, far)
    return values, index, after


def _apart(v: View) -> bool:
    return Rows(v.shape, {"v": v}).columns_apart("v")


def radix(
    caps: Caps,
    scratch: Scratch,
    x: View,
    keys: View,
    items: View,
    of_bits: bool,
    descending: bool,
    keep_keys: bool = False,
    last: View | None = None,
) -> list[Step]:
    """The steps that sort by radix. `items` gets the positions or the bits of each row's elements
    in order; `keys` gets their keys if `keep_keys`. `last`: words that the last pass writes to in
    place of `items`."""
    steps: list[Step] = []
    if _apart(x):
        near = scratch.empty(x.shape, x.dtype.name)
        steps += cpy.plan(caps, scratch, x, near)
        x = near
    steps.append(
        sort_keys.step(
            caps, x, keys, items, padded=items.shape[-1], of_bits=int(of_bits),
            descending=int(descending),
        )
    )  # fmt: skip
    # The number of passes is even, so the last pass writes to `items` again.
    return [
        *steps,
        *passes(
            caps, scratch, keys, items, 8 * x.dtype.itemsize, of_bits, keep_keys, last
        )[0],
    ]  # fmt: skip


def passes(
    caps: Caps,
    scratch: Scratch,
    keys: View,
    items: View,
    bits: int,
    has_items: bool,
    keep_keys: bool = False,
    last: View | None = None,
) -> tuple[list[Step], View, View]:
    """Sort rows of keys, filled up to whole tiles, by their lowest bits. Returns the steps, and the
    views that hold the keys and the items afterwards. `has_items`: the caller's items are sorted
    with the keys; otherwise the items are positions."""
    steps: list[Step] = []
    length = items.shape[-1]
    rows, tiles = items.size // length, length // TILE
    keys_out, items_out = (scratch.empty(keys.shape, "uint32") for _ in range(2))
    table = scratch.empty((rows, DIGITS * tiles), "uint32")
    adds = tiles <= ADDED_TILES
    running = table if adds else scratch.empty((rows, DIGITS * tiles), "uint32")
    counted = [] if adds else scan.steps(caps, scratch, table, running)
    count = cdiv(bits, DIGIT_BITS)
    for n in range(count):
        if n == count - 1 and last is not None:
            items_out = last
        steps.append(sort_count.step(caps, keys, table, tiles=tiles, shift=DIGIT_BITS * n))
        steps += counted
        steps.append(
            sort_scatter.step(
                caps, keys, items, running, keys_out, items_out, ADDS=adds, tiles=tiles,
                shift=DIGIT_BITS * n, by_place=int(n == 0 and not has_items),
                last=int(n == count - 1 and not keep_keys),
            )
        )  # fmt: skip
        keys, keys_out = keys_out, keys
        items, items_out = items_out, items
    return steps, keys, items
