"""Sums over windows on matrix units: which tile, in how many splits, and what that costs."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import conv_weight_mma, implicit_gemm_mma
from pykernels.plan import Caps, cdiv
from pykernels.plans.cost import copy_seconds
from pykernels.plans.matmul.select_mma import may
from pykernels.plans.mma import Tile, longest_sum, seconds, splits_of

__all__ = ["TILES", "TILES_WEIGHT", "MmaCost", "MmaShape", "costs"]

# BM output channels x BN pixels, or where channels lie next to each other in dst BM pixels x BN
# output channels; of gradients by weights BM output channels x BN taps and channels. The tiles are
# those of gemm_mma.
TILES = {f"implicit_gemm_mma/{name}": tile for name, tile in implicit_gemm_mma.CONFIGS.items()}
TILES_WEIGHT = {f"conv_weight_mma/{name}": tile for name, tile in conv_weight_mma.CONFIGS.items()}
BK = implicit_gemm_mma.CONFIGS["32x32"].BK  # as of the others


class MmaShape(NamedTuple):
    """A product for each group, of operands that are packed first: dst is groups x rows x cols."""

    groups: int
    rows: int
    cols: int
    depth: int  # products in a sum
    packed_depth: int  # and with the zeros that pad channels
    packed: int  # bytes
    sums: int  # weights or elements of dst


class MmaCost(NamedTuple):
    """Seconds, splits of K, and the body with its tile."""

    seconds: float
    splits: int
    body: str


def costs(caps: Caps, s: MmaShape, by_weight: bool) -> list[MmaCost]:
    """What each tile and number of splits is expected to take, packing included."""
    t = caps.tuning
    bodies = TILES_WEIGHT if by_weight else TILES
    tables = t.conv.conv_weight_mma if by_weight else t.conv.implicit_gemm_mma
    packing = copy_seconds(s.packed, 2 * t.conv.dispatch, t.device.copy)
    fewest = cdiv(s.packed_depth, longest_sum(s.depth, BK))
    nbytes = 4 * s.sums
    found = []
    for body, own in bodies.items():
        tile = body.split("/")[1]
        if may(caps, tile):
            tiles = s.groups * cdiv(s.rows, own.BM) * cdiv(s.cols, own.BN)
            for n in splits_of(tables[tile], s.packed_depth, fewest):
                if n == 1 or n * nbytes <= caps.max_binding:
                    size = Tile(tile, own.BM, own.BN)
                    work = seconds(t, tables[tile], size, tiles, s.packed_depth, n, nbytes)
                    found.append(MmaCost(packing + work, n, body))
    return found
