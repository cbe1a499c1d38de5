"""Sums over windows on matrix units: chooses the tile and the number of splits, by the expected
time."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import conv_weight_mma, implicit_gemm_mma
from pykernels.plans.cost import copy_seconds, splitk_seconds, tile_of
from pykernels.plans.mma import Tile, has_tile, seconds, splits_of
from pykernels.steps import Caps, cdiv

__all__ = ["TILES", "TILES_WEIGHT", "MmaCost", "MmaShape", "costs"]

# A tile has BM output channels x BN pixels, or BM pixels x BN output channels if channels lie next
# to each other in dst. For gradients of weights it has BM output channels x BN pairs of a tap and
# an input channel.
TILES = {f"implicit_gemm_mma/{name}": tile for name, tile in implicit_gemm_mma.CONFIGS.items()}
TILES_WEIGHT = {f"conv_weight_mma/{name}": tile for name, tile in conv_weight_mma.CONFIGS.items()}


class MmaShape(NamedTuple):
    """The product of each group; its operands are packed first. dst is groups x rows x cols."""

    groups: int
    rows: int
    cols: int
    depth: int  # including the zeros that pad channels
    packed: int  # bytes of the packed operands
    sums: int  # weights or elements of dst


class MmaCost(NamedTuple):
    """The expected seconds, the splits of K, and the body with its tile."""

    seconds: float
    splits: int
    body: str


def costs(caps: Caps, s: MmaShape, by_weight: bool) -> list[MmaCost]:
    """The expected time of each tile and number of splits, packing included."""
    t = caps.tuning
    bodies = TILES_WEIGHT if by_weight else TILES
    tables = t.conv.conv_weight_mma if by_weight else t.conv.implicit_gemm_mma
    packing = copy_seconds(s.packed, t.conv.dispatch, t.device.copy)
    nbytes, copy = 4 * s.sums, t.device.copy
    found = []
    for body, own in bodies.items():
        tile = tile_of(body)
        if has_tile(caps, own):
            table, size = tables[tile], Tile(tile, own.BM, own.BN)
            tiles = s.groups * cdiv(s.rows, own.BM) * cdiv(s.cols, own.BN)
            for n in splits_of(table, s.depth):
                if n > 1 and n * nbytes > caps.max_binding:
                    continue
                if by_weight:  # the sum over splits runs even if there is one split
                    work = seconds(t, table, size, tiles * n, cdiv(s.depth, n), 1, nbytes)
                    work += splitk_seconds(nbytes, n, t.conv.dispatch, copy)
                else:
                    work = seconds(t, table, size, tiles, s.depth, n, nbytes)
                found.append(MmaCost(packing + work, n, body))
    return found
