"""Cuts elementwise calls into tiles if they read a tensor across its memory.

One level of the index space runs along the output's memory, another level runs along an input's
memory. In tiles over both levels, whole sectors of memory are read and written. If each tensor has
whole vectors of four along one of the levels, a tile consists of blocks of 4 x 4 elements.
Otherwise it consists of single elements, and caches keep a sector until the next row needs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pykernels.steps import cdiv
from pykernels.tensors.layout import Ints, Nd, View

__all__ = ["TILE", "Tiling", "tiling"]

TILE = {4: 64, 1: 32}  # elements of a tile along each level, by the side of its blocks
MIN = 16  # shortest level for tiles; over a shorter level, tiles would be mostly empty
# How a block of 4 x 4 is read: vectors along the output ("row"), vectors along the other level
# ("col"), one element for the whole block ("one"); "" if it cannot be read in one of these ways.
Reads = Literal["row", "col", "one", ""]


@dataclass(frozen=True, slots=True)
class Tiling:
    """Blocks of `block` x `block` elements over two levels."""

    block: int
    reads: dict[str, Reads]  # how each tensor is read; empty for blocks of one element
    # the sizes of the two levels and of the levels between them, then the steps of the other level
    sizes: Ints
    steps: Ints  # the step of each tensor along the other level, in elements
    groups: int


def tiling(it: Nd, views: Mapping[str, View]) -> Tiling | None:
    """The tiles of a call, or None if it needs no tiles. The output is the last of `views`."""
    if it.levels < 2 or it.dims[0] < MIN:
        return None
    other = next(
        (j for n in views for j in range(1, it.levels) if it.strides[n][j] == 1 != it.dims[j]), 0
    )
    if not other or it.dims[other] < MIN or not _worth(it, other):
        return None
    inner, outer = it.dims[0], it.dims[other]
    span = math.prod(it.dims[:other])
    reads: dict[str, Reads] = {n: _reads(it, n, v, other) for n, v in views.items()}
    whole = all(reads.values()) and list(reads.values())[-1] == "row" and not (inner | outer) % 4
    block = 4 if whole else 1
    rest = it.total // (inner * outer)
    groups = cdiv(inner, TILE[block]) * cdiv(outer, TILE[block]) * rest
    steps = tuple([it.strides[n][other] for n in views])
    sizes = (inner, outer, span // inner, span)
    if not whole:
        reads = {}
    return Tiling(block, reads, sizes, steps, groups)


def _worth(it: Nd, other: int) -> bool:
    """True if a tensor's elements are neighbours along the other level, and not along the first."""
    return any(s[other] == 1 and abs(s[0]) > 1 for s in it.strides.values())


def _reads(it: Nd, name: str, view: View, other: int) -> Reads:
    steps = it.strides[name]
    if steps[0] == 0 == steps[other]:
        return "one"
    aligned = view.offset % (4 * view.dtype.itemsize) == 0
    for along, how in ((0, "row"), (other, "col")):
        rest = (s for i, s in enumerate(steps[: it.levels]) if i != along)
        if steps[along] == 1 and aligned and not any(s % 4 for s in rest):
            return how  # type: ignore[return-value]
    return ""
