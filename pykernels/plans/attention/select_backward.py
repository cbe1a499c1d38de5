"""Chooses the tile of flash_attn_backward and the sizes of its windows, by pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import flash_attn_backward_sums
from pykernels.plans.limits import fits_tile
from pykernels.steps import Caps, cdiv, forced

from .arguments import Band, Dims

__all__ = ["LARGE", "AttentionGradChoice", "choose"]

# The tiles; a choice names a tile by its side.
_SMALL = flash_attn_backward_sums.CONFIGS["tile32"]
_LARGE = flash_attn_backward_sums.CONFIGS["tile128"]
SMALL, LARGE = _SMALL.BM, _LARGE.BM


class AttentionGradChoice(NamedTuple):
    """The tile (SMALL or LARGE) and a window, whose queries and keys are multiples of `tile`."""

    tile: int
    heads: int
    queries: int
    keys: int


def choose(caps: Caps, d: Dims, near: Band) -> AttentionGradChoice:
    """The tile and the window for one call."""
    given = forced(caps, AttentionGradChoice, d, near)
    if given is not None:
        return given
    own = caps.tuning.attention.flash_attn_backward
    fits = fits_tile(caps, _LARGE.threads, _LARGE.BM, _LARGE.BN, _LARGE.BK)
    large = f"{LARGE}" in own.bodies and fits
    heads = d.batch * d.heads
    tiles = heads * cdiv(d.queries, LARGE) * cdiv(d.keys, LARGE)
    large = large and min(d.queries, d.keys) > own.least_side and tiles >= own.least_tiles
    tile = LARGE if large else SMALL
    room = min(own.room, caps.max_binding // 4 - 64)
    # from here on, sizes are counted in tiles
    queries, keys = cdiv(d.queries, tile), cdiv(d.keys, tile)
    room //= tile * tile
    banded = near.low > 1 - d.queries or near.highest < d.keys - 1
    side = (own.band_side if banded else own.side) // tile
    heads = min(heads, max(room // (min(queries, side) * min(keys, side)), 1))
    room //= heads
    across = min(keys, max(int(room**0.5), 1))
    down = min(queries, max(room // across, 1))
    across = min(keys, max(room // down, 1))
    return AttentionGradChoice(tile, _even(d.batch * d.heads, heads), _even(queries, down) * tile,
                  _even(keys, across) * tile)  # fmt: skip


def _even(count: int, most: int) -> int:
    """The size of the pieces when `count` is cut into as few equal pieces as possible, none larger
    than `most`."""
    return cdiv(count, cdiv(count, most))
