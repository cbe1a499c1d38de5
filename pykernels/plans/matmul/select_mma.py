"""Which tile multiplies on matrix units, and in how many splits of K."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykernels._generated.bodies import gemm_mma, gemm_mma_i8, gemm_split
from pykernels.plan import Caps, cdiv
from pykernels.plans.cost import product_seconds, splitk_seconds, waves
from pykernels.plans.limits import fits
from pykernels.tuning import Tuning

if TYPE_CHECKING:
    from pykernels.tuning.schema import GemmMma

__all__ = [
    "SHAPE", "SPLIT_TILES", "SPLIT_UNASKED", "TILES", "TILES_I8", "UNIT", "UNIT_I8", "Tile", "best",
    "fewest_splits", "longest_split", "may", "may_i8", "may_split", "seconds", "splits_of",
]  # fmt: skip

SHAPE = ("f16", "f32", 16, 16, 16)
TILES = gemm_mma.CONFIGS
TILES_I8 = gemm_mma_i8.CONFIGS
SPLIT_TILES = gemm_split.CONFIGS
UNIT = 8  # halves of one load
UNIT_I8 = 16  # bytes
# Matrix units cut what they add to a few bits below the sum's last place, so that errors grow with
# the length of a sum: to 4.9e-9 of sum|a||b| for each k of data of one sign, measured, and to twice
# that where the first products outweigh all others. The gate of docs/design/tests.md is
# (sqrt(K) + 4) 2^-23: a split of K that is not longer than LONGEST times (sqrt(K) + 4) stays within
# 0.66 of it.
LONGEST = 8.0
# With f32 operands as two planes of halves: as exact as plain f32 products on random data.
LONGEST_SPLIT = 8.0
# Are products of f32, or of f16 and f32, split without precision="split"? Their bound has a term in
# the largest magnitudes of rows, which that of plain f32 has not.
SPLIT_UNASKED = False


class Tile(NamedTuple):
    """What its costs depend on."""

    name: str
    BM: int
    BN: int


def may(caps: Caps, tile: str) -> bool:
    """Does the device multiply halves by this tile?"""
    own = TILES[tile]
    operands = max((own.BM + own.BN) * (own.BK // UNIT + 1), own.BK * (own.BM + own.BN) // UNIT)
    return _may(caps, SHAPE, own.threads, own.WN, operands)


def may_i8(caps: Caps, tile: str, signed: bool) -> bool:
    """Does it multiply bytes by this one?"""
    own = TILES_I8[tile]
    shape = ("i8", "i32", 16, 16, 32) if signed else ("u8", "u32", 16, 16, 32)
    return _may(caps, shape, own.threads, own.WN, (own.BM + own.BN) * (own.BK // UNIT_I8 + 1))


def may_split(caps: Caps, tile: str) -> bool:
    """Does it multiply planes of halves by this one?"""
    own = SPLIT_TILES[tile]
    operands = own.BM * (2 * own.BK // UNIT + 1) + 2 * own.BK * (own.BN // UNIT + 1)
    results = own.threads // 32 * 2 * 16 * 5  # two fragments of each subgroup
    return _may(caps, SHAPE, own.threads, 0, max(operands, results))


def _may(
    caps: Caps, shape: tuple[str, str, int, int, int], threads: int, across: int, units: int
) -> bool:
    """Are there matrix units of this shape, and room for the operands or the results in units?"""
    results = threads // 32 * 16 * (across // 4 + 1)
    return (
        caps.matrix is not None
        and shape in caps.matrix.shapes
        and fits(caps, threads, 16 * max(units, results) + 1024)
    )


def longest_split(depth: int, split: bool = False) -> int:
    """The length up to which a split of K is as exact as plain f32 sums of K must be.

    `split`: of planes of halves.
    """
    longest = (LONGEST_SPLIT if split else LONGEST) * (math.sqrt(depth) + 4)
    return max(int(longest) // 32 * 32, 32)


def fewest_splits(depth: int, split: bool = False) -> int:
    """Splits of K whose sums, added in plain f32, are as exact as plain f32 ones must be."""
    return cdiv(depth, longest_split(depth, split))


def best(
    t: Tuning, tables: Mapping[str, GemmMma], tiles: Sequence[Tile], batches: int, rows: int,
    cols: int, depth: int, fewest: int = 1,
) -> tuple[float, str, int]:  # fmt: skip
    """The seconds, tile and splits, `fewest` at the least, that are expected to take least."""
    choices = []
    for tile in tiles:
        own = tables[tile.name]
        count = batches * cdiv(rows, tile.BM) * cdiv(cols, tile.BN)
        for splits in splits_of(own, depth, fewest):
            expected = seconds(t, own, tile, count, depth, splits, 4 * batches * rows * cols)
            choices.append((expected, tile.name, splits))
    return min(choices)


def splits_of(own: GemmMma, depth: int, fewest: int) -> range:
    """Numbers of splits to choose from."""
    return range(fewest, max(min(depth // own.shortest, own.most), fewest) + 1)


def seconds(
    t: Tuning, own: GemmMma, tile: Tile, tiles: int, depth: int, splits: int, nbytes: int
) -> float:
    """Seconds that so many tiles of dst and the sum over splits are expected to take."""
    units, resident = t.device.units, len(own.partial_wave) - 1
    each = product_seconds(tile.BM, tile.BN, 1, resident, units, own.rate)
    full = waves(tiles * splits, units, own.partial_wave)
    product = full * (cdiv(depth, splits) + own.start_k) * each
    if splits == 1:
        return product
    return product + splitk_seconds(nbytes, splits, t.matmul.dispatch, t.device.copy, nbytes)
