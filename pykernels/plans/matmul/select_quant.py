"""Which body multiplies with quantised weights, and in how many splits of K: pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import gemm_quant, gemv_quant
from pykernels.steps import Candidate, Caps, cdiv, forced

from .select import k_splits

__all__ = [
    "BODIES", "GEMV", "HELD", "NARROW", "TILES", "QuantChoice", "QuantShape", "candidates", "choose",
    "column_bits",
]  # fmt: skip

GEMV = "gemv_quant"
TILE = "gemm_quant"
HELD = gemv_quant.CONFIGS
TILES = gemm_quant.CONFIGS
NARROW = max(c.ROWS for c in HELD.values())
BODIES = (GEMV, *(f"{TILE}/{tile}" for tile in TILES))
MOST_BITS, LEAST_BITS = 5, 2  # columns of a workgroup of gemv_quant, as powers of two


class QuantShape(NamedTuple):
    """The shape that a choice depends on: dst is batches x rows x cols."""

    batches: int
    rows: int
    cols: int
    depth: int


class QuantChoice(NamedTuple):
    """A body (gemv_quant, or a tile of gemm_quant), and splits of K of a tile."""

    body: str
    splits: int = 1


def choose(caps: Caps, s: QuantShape) -> QuantChoice:
    """The body and the splits for one product with quantised weights."""
    found = forced(caps, QuantChoice, s)
    if found is not None:
        return found
    if s.rows <= NARROW:
        return QuantChoice(GEMV)
    tile = next((name for name, own in TILES.items() if s.rows <= own.BM), max(TILES))
    return _tiled(caps, s, tile)


def candidates(caps: Caps, s: QuantShape) -> list[Candidate]:
    """All bodies, or why they are excluded."""
    narrow = "" if s.rows <= NARROW else f"{s.rows} rows: more than {NARROW}"
    found = [Candidate(QuantChoice(GEMV), None, narrow)]
    return found + [Candidate(_tiled(caps, s, tile)) for tile in TILES]


def column_bits(caps: Caps, s: QuantShape) -> int:
    """The columns of a workgroup of gemv_quant, as a power of two: fewer, with more runs of k, where
    there would be fewer than two workgroups for each multiprocessor."""
    units, bits = caps.tuning.device.units, MOST_BITS
    while bits > LEAST_BITS and s.batches * cdiv(s.cols, 1 << bits) < 2 * units:
        bits -= 1
    return bits


def _tiled(caps: Caps, s: QuantShape, tile: str) -> QuantChoice:
    own, table = TILES[tile], caps.tuning.matmul.mul_mat["64"]
    groups = s.batches * cdiv(s.rows, own.BM) * cdiv(s.cols, own.BN)
    return QuantChoice(f"{TILE}/{tile}", k_splits(groups, s.depth, table.shortest, table.busy))
