"""Chooses the tile of attention_mma for float16 on matrix units, and the length of its sums."""

from __future__ import annotations

import math

from pykernels._generated.bodies import attention_mma
from pykernels.plans.mma import HALVES, UNIT, has_units
from pykernels.steps import Caps, cdiv
from pykernels.tuning import Tuning

from .arguments import Dims

__all__ = ["TILES", "longest", "may", "splits_of", "tile_of"]

TILES = attention_mma.CONFIGS
# A sum of T weighted values has at most LONGEST (sqrt(T) + 4) terms. These are more terms than
# `longest_sum` allows, because the bound is larger: weights are rounded to halves, which adds 2^-11
# to it (docs/design/attention.md).
LONGEST = 8.0
EMULATED = "emulated"  # this tile is only for tests on software drivers, which need small tiles


def tile_of(caps: Caps, d: Dims) -> str:
    """The tile for a call; "" if no tile can compute it."""
    depth = max(d.depth, d.value_depth)
    tiles = [tile for tile in TILES if tile != EMULATED and may(caps, tile)]
    return next((tile for tile in tiles if depth <= TILES[tile].DEPTH), "")


def may(caps: Caps, tile: str) -> bool:
    """True if the device has the features that this tile needs."""
    own = TILES[tile]
    keys, scores = max(own.BC, own.BR) * (own.DEPTH // UNIT + 1), own.BR * (own.BC // 4 + 1)
    return has_units(caps, HALVES, own.threads, max(keys, scores))


def splits_of(t: Tuning, tile: str, d: Dims) -> int:
    """Splits of the keys that keep the device busy."""
    own, table = TILES[tile], t.attention.attention_mma[tile]
    blocks = d.batch * d.kv_heads * cdiv(d.group * d.queries, own.BR)
    busy = table.waves * t.device.units
    return max(1, min(busy // blocks, d.keys // table.shortest, table.most))


def longest(tile: str, keys: int) -> int:
    """The number of tiles of keys whose terms fragments may add up. Then the sums in fragments are
    added to sums in f32, and start again from 0."""
    return max(int(LONGEST * (math.sqrt(keys) + 4)) // TILES[tile].BC, 1)
