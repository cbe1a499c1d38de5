"""Chooses the body for the gradient of weights and the number of splits, by pure functions."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels._generated.bodies import conv2d_backward_weight as tile_body
from pykernels._generated.bodies import conv_weight_direct
from pykernels.plans.cost import product_seconds, splitk_seconds
from pykernels.plans.limits import fits_tile
from pykernels.steps import Caps, cdiv, forced
from pykernels.tuning import Tuning

from .select_mma import MmaShape, costs

__all__ = ["BK", "CHUNK", "DIRECT", "TILES", "WeightGradChoice", "WeightGradShape", "choose"]

DIRECT = "conv_weight_direct"
TILES = tile_body.CONFIGS  # BM output channels, and BN weights of each channel
SMALLEST = "32x32"
BK = TILES[SMALLEST].BK  # all tiles have this BK
CHUNK = conv_weight_direct.CONFIGS["taps9"]


class WeightGradShape(NamedTuple):
    """The numbers that a choice depends on, apart from the device."""

    groups: int
    rows: int  # output channels of a group
    channels: int  # input channels of a group
    taps: int
    pixels: int  # pixels of dy in all images
    mma: MmaShape | None = None  # the size of the product, if matrix units can compute it

    @property
    def cols(self) -> int:
        return self.channels * self.taps


class WeightGradChoice(NamedTuple):
    """The choice of a body and of the number of splits of the pixels. The body is DIRECT, one of
    TILES or one of TILES_WEIGHT."""

    body: str
    splits: int = 1


def choose(caps: Caps, s: WeightGradShape) -> WeightGradChoice:
    """The body and the splits for one call."""
    given = forced(caps, WeightGradChoice, s)
    if given is not None:
        return given
    own, units = caps.tuning.conv.conv2d_backward_weight, caps.tuning.device.units
    least = TILES[SMALLEST]
    whole = cdiv(s.rows, least.BM) * cdiv(s.cols, least.BN) * least.BM * least.BN
    filled = s.rows * s.cols / whole
    if filled * own.rates[SMALLEST] < own.direct_rate:
        sums = s.groups * s.rows * s.channels * cdiv(s.taps, CHUNK.TAPS)
        splits = min(cdiv(own.direct_waves * units, sums), s.pixels // (4 * CHUNK.threads))
        return WeightGradChoice(DIRECT, max(1, splits))
    found = [
        (_seconds(caps.tuning, s, tile, splits), splits, tile)
        for tile in TILES
        if _may(caps, s, tile)
        for splits in sorted({_splits(caps.tuning, s, tile, n) for n in range(1, own.waves + 1)})
    ]
    if s.mma is not None:
        found += costs(caps, s.mma, True)
    _, splits, tile = min(found)
    return WeightGradChoice(tile, splits)


def _may(caps: Caps, s: WeightGradShape, tile: str) -> bool:
    if tile == SMALLEST:
        return True
    if tile == "64x128" and s.channels % 4:
        return False
    bodies = caps.tuning.conv.conv2d_backward_weight.bodies
    own = TILES[tile]
    fits = fits_tile(caps, own.threads, own.BM + own.PAD, own.BN + own.PAD, BK)
    return tile in bodies and fits


def _tiles(s: WeightGradShape, tile: str) -> int:
    return s.groups * cdiv(s.rows, TILES[tile].BM) * cdiv(s.cols, TILES[tile].BN)


def _splits(t: Tuning, s: WeightGradShape, tile: str, each: int) -> int:
    """The number of splits that gives each multiprocessor up to `each` workgroups."""
    shortest = t.conv.conv2d_backward_weight.shortest
    return max(1, min(each * t.device.units // _tiles(s, tile), s.pixels // shortest))


def _seconds(t: Tuning, s: WeightGradShape, tile: str, splits: int) -> float:
    """The estimated seconds. The busiest multiprocessor decides; it computes at a lower rate if it
    has few workgroups."""
    shape = TILES[tile]
    own, units = t.conv.conv2d_backward_weight, t.device.units
    each = cdiv(_tiles(s, tile) * splits, units)
    depth = cdiv(cdiv(s.pixels, splits), BK) * BK + own.start_k
    idle = max(1.0, math.sqrt(own.busy_invocations / (each * shape.threads)))
    work = product_seconds(shape.BM, shape.BN, depth, each, units, own.rates[tile]) * idle
    if splits == 1:
        return work
    nbytes = s.groups * s.rows * s.cols * 4
    return work + splitk_seconds(nbytes, splits, t.conv.dispatch, t.device.copy)
