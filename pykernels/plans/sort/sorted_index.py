"""Sorts an index for the plans that add elements with equal indices, by as many bits as its numbers
need."""

from __future__ import annotations

import math

from pykernels._generated.bodies import scatter_keys
from pykernels.dtypes import DTYPES
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .order import BLOCK, merged, merges, passes, short_rows, tiled

__all__ = ["moved", "sorted_index"]


def sorted_index(
    caps: Caps, scratch: Scratch, index: View, at: int, limit: int, watch: Watch | None,
) -> tuple[list[Step], View, View]:  # fmt: skip
    """The index with its axis `at` moved to the end and sorted along this axis, and the old
    positions of its elements. Numbers outside [0, limit) become `limit`. The sort is stable."""
    shape = moved(index.shape, at)
    length = shape[-1]
    whole = index.with_layout(shape, moved(index.strides, at))
    short = length <= BLOCK or merges(whole)
    keys = scratch.empty((*shape[:-1], length if short else tiled(length)), "uint32")
    inner = math.prod(index.shape[at + 1 :])
    steps = [
        scatter_keys.step(
            caps, index, keys, limit=limit, inner=inner, length=length, padded=keys.shape[-1],
            watch=watch,
        )
    ]  # fmt: skip
    if limit == 0:  # every number is out of range
        return steps, keys, keys
    if short:
        ascending, order = scratch.empty(shape, "uint32"), scratch.empty(shape, "int32")
        if length <= BLOCK:
            steps += short_rows(caps, scratch, keys, None, ascending, order, length, False)
        else:
            steps += merged(caps, scratch, keys, ascending, order, length, False)
        return steps, ascending, order
    items = scratch.empty(keys.shape, "uint32")
    more, keys, items = passes(
        caps, scratch, keys, items, limit.bit_length(), has_items=False, keep_keys=True
    )
    order = items.with_layout(shape, items.strides, DTYPES["int32"])
    return [*steps, *more], keys.with_layout(shape, keys.strides), order


def moved(items: tuple[int, ...], at: int) -> tuple[int, ...]:
    """The entries of a shape, with the entry of axis `at` moved to the end."""
    return (*items[:at], *items[at + 1 :], items[at])
