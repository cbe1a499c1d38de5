"""Which tile of gemm_mma multiplies halves on matrix units, and in how many splits of K."""

from __future__ import annotations

import math

from pykernels._generated.bodies import gemm_mma
from pykernels.plan import Caps, cdiv
from pykernels.plans.cost import product_seconds, splitk_seconds, waves
from pykernels.plans.limits import fits
from pykernels.tuning import Tuning

__all__ = ["SHAPE", "TILES", "UNIT", "fewest_splits", "may", "seconds", "splits_of"]

SHAPE = ("f16", "f32", 16, 16, 16)
TILES = gemm_mma.CONFIGS
UNIT = 8  # halves of one load
# Matrix units cut what they add to a few bits below the sum's last place, so that errors grow with
# the length of a sum: to 4.9e-9 of sum|a||b| for each k, measured on data of one sign. The gate of
# docs/design/tests.md is (sqrt(K) + 4) 2^-23: a split of K that is not longer than LONGEST times
# (sqrt(K) + 4) stays within 0.65 of it.
LONGEST = 16.0


def may(caps: Caps, tile: str) -> bool:
    """Does the device multiply halves by this tile?"""
    own = TILES[tile]
    operands = max((own.BM + own.BN) * (own.BK // UNIT + 1), own.BK * (own.BM + own.BN) // UNIT)
    results = own.threads // 32 * 16 * (own.WN // 4 + 1)
    return (
        caps.matrix is not None
        and SHAPE in caps.matrix.shapes
        and fits(caps, own.threads, 16 * max(operands, results) + 1024)
    )


def fewest_splits(depth: int) -> int:
    """Splits of K whose sums, added in plain f32, are as exact as plain f32 ones must be."""
    return cdiv(depth, max(int(LONGEST * (math.sqrt(depth) + 4)) // 32 * 32, 32))


def splits_of(t: Tuning, tile: str, depth: int, fewest: int) -> range:
    """Numbers of splits to choose from."""
    own = t.matmul.gemm_mma[tile]
    return range(fewest, max(min(depth // own.shortest, own.most), fewest) + 1)


def seconds(t: Tuning, tile: str, tiles: int, depth: int, splits: int, nbytes: int) -> float:
    """Seconds that so many tiles of dst and the sum over splits are expected to take."""
    own, table, units = TILES[tile], t.matmul.gemm_mma[tile], t.device.units
    resident = len(table.partial_wave) - 1
    each = product_seconds(own.BM, own.BN, 1, resident, units, table.rate)
    full = waves(tiles * splits, units, table.partial_wave)
    product = full * (cdiv(depth, splits) + table.start_k) * each
    if splits == 1:
        return product
    return product + splitk_seconds(nbytes, splits, t.matmul.dispatch, t.device.copy, nbytes)
