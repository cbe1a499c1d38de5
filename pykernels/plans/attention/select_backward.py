"""Which tile flash_attn_backward takes, and the sizes of its windows: pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.plan import Caps, cdiv, forced
from pykernels.plans.limits import fits

from .arguments import Band, Dims

__all__ = ["AttentionGradChoice", "choose"]

# Invocations and bytes of a workgroup of the large tiles.
LARGE_NEEDS = (256, 16384)


class AttentionGradChoice(NamedTuple):
    """The tile (32 or 128), and the sizes of a window: heads, queries, keys (multiples of it)."""

    tile: int
    heads: int
    queries: int
    keys: int


def choose(caps: Caps, d: Dims, near: Band) -> AttentionGradChoice:
    """The tile and the window for one call."""
    given = forced(caps, AttentionGradChoice)
    if given is not None:
        return given
    own = caps.tuning.attention.flash_attn_backward
    large = "128" in own.bodies and fits(caps, *LARGE_NEEDS)
    heads = d.batch * d.heads
    tiles = heads * cdiv(d.queries, 128) * cdiv(d.keys, 128)
    large = large and min(d.queries, d.keys) > own.least_side and tiles >= own.least_tiles
    tile = 128 if large else 32
    room = min(own.room, caps.max_binding // 4 - 64)
    queries, keys = cdiv(d.queries, tile), cdiv(d.keys, tile)  # in tiles from here on
    room //= tile * tile
    banded = near.low > 1 - d.queries or near.high < d.keys - 1
    side = (own.band_side if banded else own.side) // tile
    heads = min(heads, max(room // (min(queries, side) * min(keys, side)), 1))
    room //= heads
    wide = min(keys, max(int(room**0.5), 1))
    high = min(queries, max(room // wide, 1))
    wide = min(keys, max(room // high, 1))
    return AttentionGradChoice(tile, _even(d.batch * d.heads, heads), _even(queries, high) * tile,
                  _even(keys, wide) * tile)  # fmt: skip


def _even(count: int, most: int) -> int:
    """The size of the pieces, at most `most`, of `count` cut into as few equal ones as possible."""
    return cdiv(count, cdiv(count, most))
