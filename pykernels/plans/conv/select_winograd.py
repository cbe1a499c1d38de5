"""Winograd's convolutions of 3 x 3 taps: the calls that they can serve, and the expected time."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.plans.matmul.select import GemmShape, gemm_seconds
from pykernels.steps import Caps, cdiv

__all__ = ["TILES", "WinogradCost", "WinogradShape", "costs", "fits", "sizes"]

# Pixels on each side of a tile of the output.
TILES = {"winograd/2": 2, "winograd/4": 4}


class WinogradShape(NamedTuple):
    """A convolution of 3 x 3 taps with steps of 1 and one group."""

    images: int
    channels: int
    rows: int  # output channels
    height: int  # rows of dst
    width: int
    nbytes: int  # bytes of x, w and dst
    channels_last: bool  # True if channels lie closer in dst than pixels
    asked: bool  # True if the call accepts the errors of the transforms


class WinogradSizes(NamedTuple):
    """The products of a call, and the bytes of the tensors that these products read and write."""

    products: int
    tiles: int  # number of tiles of M x M pixels
    padded_tiles: int
    padded_rows: int
    image: int
    weights: int
    sums: int


class WinogradCost(NamedTuple):
    """The expected seconds, the number of splits (always 1), and the body with its tile."""

    seconds: float
    splits: int
    body: str


def sizes(s: WinogradShape, body: str) -> WinogradSizes:
    """The sizes of the transformed tensors, padded to whole vectors of four."""
    m = TILES[body]
    count = (m + 2) * (m + 2)
    tiles = s.images * cdiv(s.height, m) * cdiv(s.width, m)
    cols, rows = cdiv(tiles, 4) * 4, cdiv(s.rows, 4) * 4
    image, weights = 4 * count * s.channels * cols, 4 * count * s.channels * rows
    return WinogradSizes(count, tiles, cols, rows, image, weights, 4 * count * rows * cols)


def fits(caps: Caps, s: WinogradShape, body: str) -> bool:
    """True if each transformed tensor fits a binding, and all of them fit the room of the table."""
    own = sizes(s, body)
    largest = max(own.image, own.weights, own.sums)
    room = caps.tuning.conv.winograd.room
    return largest + caps.alignment <= caps.max_binding and (
        own.image + own.weights + own.sums <= room
    )


def costs(caps: Caps, s: WinogradShape) -> list[WinogradCost]:
    """The expected time of each tile: the time to move the bytes of the transforms, plus the time
    of the product's operations, or the time to move its bytes if that is longer."""
    t = caps.tuning
    found = []
    for body in TILES:
        if not fits(caps, s, body):
            continue
        own = sizes(s, body)
        rows, cols = own.padded_rows, own.padded_tiles
        if s.channels_last:
            rows, cols = cols, rows
        shape = GemmShape(own.products, rows, cols, s.channels, False)
        work = gemm_seconds(caps, shape)
        if work is None:
            continue
        between = own.image + own.weights + own.sums
        product = max(work, between / t.device.copy)
        transforms = 2 * t.conv.dispatch + (s.nbytes + between) / t.device.copy
        found.append(WinogradCost(transforms + product, 1, body))
    return found
