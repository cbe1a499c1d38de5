"""Chooses the tile on matrix units and the number of splits of K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pykernels._generated.bodies import gemm_mma, gemm_mma_i8, gemm_split
from pykernels.plans.mma import (
    HALVES,
    UNIT,
    Tile,
    has_tile,
    has_units,
    longest_sum,
    seconds,
    splits_of,
    strips,
)
from pykernels.steps import Caps, cdiv
from pykernels.tuning import Tuning

if TYPE_CHECKING:
    from pykernels.tuning.schema import GemmMma

__all__ = [
    "SPLIT_TILES", "SPLIT_UNASKED", "TILES", "TILES_I8", "best", "longest_slice", "may", "may_i8",
    "may_split",
]  # fmt: skip

TILES = gemm_mma.CONFIGS
TILES_I8 = gemm_mma_i8.CONFIGS
SPLIT_TILES = gemm_split.CONFIGS
UNIT_I8 = 16  # the number of k in one load, which has 16 bytes
BK = TILES["32x32"].BK  # all tiles have the same BK
# True: products of f32, or of f16 and f32, use split precision even without precision="split". The
# error bound of split precision has a term in the largest magnitudes of rows, which the bound of
# plain f32 does not have.
SPLIT_UNASKED = False


def may(caps: Caps, tile: str) -> bool:
    """True if the device can multiply halves with this tile."""
    return has_tile(caps, TILES[tile])


def may_i8(caps: Caps, tile: str, signed: bool) -> bool:
    """True if the device can multiply bytes with this tile."""
    own = TILES_I8[tile]
    shape = ("i8", "i32", 16, 16, 32) if signed else ("u8", "u32", 16, 16, 32)
    operands = (own.BM + own.BN) * (own.BK // UNIT_I8 + 1)
    return has_units(caps, shape, own.threads, max(operands, strips(own.threads, own.WN)))


def may_split(caps: Caps, tile: str) -> bool:
    """True if the device can multiply planes of halves with this tile."""
    own = SPLIT_TILES[tile]
    operands = own.BM * (2 * own.BK // UNIT + 1) + 2 * own.BK * (own.BN // UNIT + 1)
    results = own.threads // 32 * 2 * 16 * 5  # 16-byte units of two fragments for each subgroup
    return has_units(caps, HALVES, own.threads, max(operands, results))


def longest_slice(depth: int) -> int:
    """The largest number of k in a slice for which the sum of slices, added in plain f32, stays
    within the bound of f32."""
    return longest_sum(depth, BK)


def best(
    t: Tuning, tables: Mapping[str, GemmMma], tiles: Sequence[Tile], batches: int, rows: int,
    cols: int, depth: int, longest: int = 0,
) -> tuple[float, str, int]:  # fmt: skip
    """The least expected seconds of a product in slices of `longest` k (0: one slice), and the tile
    and the number of splits that reach them."""
    choices = []
    for tile in tiles:
        own = tables[tile.name]
        count = batches * cdiv(rows, tile.BM) * cdiv(cols, tile.BN)
        for splits in splits_of(own, depth):
            nbytes = 4 * batches * rows * cols
            expected = seconds(t, own, tile, count, depth, splits, nbytes, longest)
            choices.append((expected, tile.name, splits))
    return min(choices)
