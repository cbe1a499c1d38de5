"""Rows in order: in workgroup memory where they fit, else by radix, four bits a pass."""

from __future__ import annotations

from pykernels._generated.bodies import sort_count, sort_keys, sort_rows, sort_scatter
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.scan import running as scan
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View

__all__ = ["check", "front", "ordered", "radix", "short_rows", "words"]

BLOCK = sort_rows.CONFIGS["block2048"].SIZE
TILE = sort_scatter.CONFIGS["tile2048"].PER * sort_scatter.CONFIGS["tile2048"].threads
DIGITS = 16


def check(op: str, x: View) -> None:
    """Rows are along the last axis."""
    if x.ndim == 0:
        raise ShapeError(f"[{op}] x must have at least one axis but has none")


def ordered(
    caps: Caps, scratch: Scratch, x: View, values: View | None, index: View | None, descending: bool
) -> list[Step]:
    """Sort all elements of each row. The result is either their values or their positions."""
    if x.size == 0:
        return []
    if x.shape[-1] <= BLOCK:
        return short_rows(caps, scratch, x, None, values, index, x.shape[-1], descending)
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


def words(scratch: Scratch, x: View) -> View:
    """A word for each element of rows that are filled up to whole tiles."""
    return scratch.empty((*x.shape[:-1], cdiv(x.shape[-1], TILE) * TILE), "uint32")


def front(items: View, shape: tuple[int, ...], like: View) -> View:
    """The first columns of each row of words, in the dtype of another view: its bits come first."""
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
    """Rows that fit a workgroup, or the first `keep` elements of each piece of longer rows."""
    before: list[Step] = []
    if _apart(x):
        near = scratch.empty(x.shape, x.dtype.name)
        before = cpy.plan(caps, scratch, x, near)
        x = near
    after: list[Step] = []
    if values is not None and _apart(values):
        far = values
        values = scratch.empty(far.shape, far.dtype.name)
        after += cpy.plan(caps, scratch, values, far)
    if index is not None and _apart(index):
        far = index
        index = scratch.empty(far.shape, far.dtype.name)
        after += cpy.plan(caps, scratch, index, far)
    cols = x.shape[-1]
    bits = (min(cols, BLOCK) - 1).bit_length()
    step = sort_rows.step(
        caps, x, positions, values, index, bits=bits, keep_bits=min(bits, (keep - 1).bit_length()),
        pieces=cdiv(cols, BLOCK), keep=keep, descending=int(descending),
    )  # fmt: skip
    return [*before, step, *after]


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
    """Positions, or bits, of the elements of each row in order: `items`, and their `keys` if asked
    for. `last`: words that the last pass writes to in place of `items`."""
    steps: list[Step] = []
    if _apart(x):
        near = scratch.empty(x.shape, x.dtype.name)
        steps += cpy.plan(caps, scratch, x, near)
        x = near
    length = items.shape[-1]
    rows = items.size // length
    tiles = length // TILE
    keys_out, items_out = words(scratch, x), words(scratch, x)
    table = scratch.empty((rows, DIGITS * tiles), "uint32")
    running = scratch.empty((rows, DIGITS * tiles), "uint32")
    counted = scan.steps(caps, scratch, table, running)
    steps.append(
        sort_keys.step(
            caps, x, keys, items, padded=length, of_bits=int(of_bits), descending=int(descending)
        )
    )
    passes = 2 * x.dtype.itemsize  # an even number: the last one writes to `items` again
    for n in range(passes):
        if n == passes - 1 and last is not None:
            items_out = last
        steps.append(sort_count.step(caps, keys, table, tiles=tiles, shift=4 * n))
        steps += counted
        steps.append(
            sort_scatter.step(
                caps, keys, items, running, keys_out, items_out, tiles=tiles, shift=4 * n,
                by_place=int(n == 0 and not of_bits),
                last=int(n == passes - 1 and not keep_keys),
            )
        )  # fmt: skip
        keys, keys_out = keys_out, keys
        items, items_out = items_out, items
    return steps
