"""Which tile of attention_mma takes halves on matrix units, and how long its sums may be."""

from __future__ import annotations

import math

from pykernels._generated.bodies import attention_mma
from pykernels.plan import Caps, cdiv
from pykernels.plans.limits import fits
from pykernels.tuning import Tuning

from .arguments import Dims

__all__ = ["SHAPE", "TILES", "UNIT", "longest", "may", "splits_of", "tile_of"]

SHAPE = ("f16", "f32", 16, 16, 16)
TILES = attention_mma.CONFIGS
EMULATED = "emulated"  # small enough for tests on software drivers, and for nothing else
UNIT = 8  # halves of one load
# Matrix units cut what they add to a few bits below the sum's last place, twice for 16 keys: so up
# to 2^-23 of the sum is lost each time. The gate of docs/design/tests.md allows (sqrt(T) + 4) 2^-23
# for the sum over T keys: one of LONGEST times (sqrt(T) + 4) keys keeps to it even if the first key
# weighs more than all others.
LONGEST = 8.0


def tile_of(caps: Caps, d: Dims) -> str:
    """The tile for a call, "" where there is none."""
    depth = max(d.depth, d.value_depth)
    tiles = [tile for tile in TILES if tile != EMULATED and may(caps, tile)]
    return next((tile for tile in tiles if depth <= TILES[tile].DEPTH), "")


def may(caps: Caps, tile: str) -> bool:
    """Does the device have what this tile needs?"""
    own = TILES[tile]
    units = max(own.BC, own.BR) * (own.DEPTH // UNIT + 1), own.BR * (own.BC // 4 + 1)
    return (
        caps.matrix is not None
        and SHAPE in caps.matrix.shapes
        and fits(caps, own.threads, 16 * max(units) + 1024)
    )


def splits_of(t: Tuning, tile: str, d: Dims) -> int:
    """Splits of the keys that keep the device busy."""
    own, table = TILES[tile], t.attention.attention_mma[tile]
    blocks = d.batch * d.kv_heads * cdiv(d.group * d.queries, own.BR)
    busy = table.waves * t.device.units
    return max(1, min(busy // blocks, d.keys // table.shortest, table.most))


def longest(tile: str, keys: int) -> int:
    """Tiles of keys that fragments may sum up before they start again."""
    return max(int(LONGEST * (math.sqrt(keys) + 4)) // TILES[tile].BC, 1)
