"""Chooses the body of a product of bytes, the number of splits of K and the loads of operands, by
pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import gemv_i8, mul_mat_i8
from pykernels.plans.cost import copy_seconds
from pykernels.plans.limits import fits_tile
from pykernels.plans.mma import Tile
from pykernels.steps import Candidate, Caps, cdiv, forced
from pykernels.tensors.layout import View
from pykernels.tuning import Tuning

from . import select_mma as mma
from .product import contiguous_rows, transposed
from .select import GemmShape, gemv_splits, k_splits, lane_bits

__all__ = [
    "BYTES", "GEMV", "HELD", "MMA", "NARROW", "PACKED", "ROWS_RUN", "TILES", "VECTOR", "WORDS",
    "Int8Choice", "candidates", "choose", "gemv_load", "in_words", "lanes", "tile_load",
]  # fmt: skip

GEMV = "gemv_i8"
MMA = "gemm_mma_i8"
TILES: dict[str, mul_mat_i8.Config] = {
    "mul_mat_i8/32": mul_mat_i8.CONFIGS["32"],
    "mul_mat_i8/64": mul_mat_i8.CONFIGS["64"],
}
HELD = gemv_i8.CONFIGS
NARROW = max(c.ROWS for c in HELD.values())
# How an operand is loaded: byte by byte, in words along k, or in words of rows that are contiguous
# in memory. PACKED: the operand is copied first, so that words lie along k.
BYTES, WORDS, ROWS_RUN, PACKED = "bytes", "words", "rows", "packed"
VECTOR = 16  # bytes of one vector of gemv_i8, along k


class Int8Choice(NamedTuple):
    """The choice of a body and of the number of splits of K. The body is "gemv_i8", one of TILES,
    or a tile of gemm_mma_i8."""

    body: str
    splits: int = 1


def choose(caps: Caps, s: GemmShape, signed: bool = True) -> Int8Choice:
    """The body and the splits for one product."""
    found = forced(caps, Int8Choice, s, signed)
    if found is not None:
        return found
    t = caps.tuning.matmul
    if min(s.rows, s.cols) <= NARROW:
        return Int8Choice(GEMV, gemv_splits(t.gemv_i8, s))
    known = [
        Tile(tile, config.BM, config.BN)
        for tile, config in mma.TILES_I8.items()
        if mma.may_i8(caps, tile, signed)
    ]
    if known:
        _, tile, splits = mma.best(
            caps.tuning, t.gemm_mma_i8, known, s.batches, s.rows, s.cols, s.depth
        )
        return Int8Choice(f"{MMA}/{tile}", splits)
    own = t.mul_mat_i8.tiles
    if _may_large(caps):
        splits = _splits(caps.tuning, s, "64")
        if splits * _groups(s, "64") >= own["64"].least:
            return Int8Choice("mul_mat_i8/64", splits)
    return Int8Choice("mul_mat_i8/32", _splits(caps.tuning, s, "32"))


def candidates(caps: Caps, s: GemmShape, signed: bool = True) -> list[Candidate]:
    """All bodies with the splits that the tuning table gives them, each with the reason if it is
    excluded. Only bodies on matrix units have a model of their times."""
    t, few = caps.tuning, min(s.rows, s.cols)
    narrow = "" if few <= NARROW else f"{few} rows: more than {NARROW}"
    large = "" if _may_large(caps) else "not in the tuning table, or too large"
    found = [
        Candidate(Int8Choice(GEMV, gemv_splits(t.matmul.gemv_i8, s)), None, narrow),
        Candidate(Int8Choice("mul_mat_i8/32", _splits(t, s, "32"))),
        Candidate(Int8Choice("mul_mat_i8/64", _splits(t, s, "64")), None, large),
    ]
    for tile, own in mma.TILES_I8.items():
        if not mma.may_i8(caps, tile, signed):
            why = "the device was not opened with such matrix units"
            found.append(Candidate(Int8Choice(f"{MMA}/{tile}"), None, why))
            continue
        known = [Tile(tile, own.BM, own.BN)]
        seconds, _, splits = mma.best(t, t.matmul.gemm_mma_i8, known, *s[:4])
        found.append(Candidate(Int8Choice(f"{MMA}/{tile}", splits), seconds))
    return found


def _may_large(caps: Caps) -> bool:
    tile = TILES["mul_mat_i8/64"]
    fits = fits_tile(caps, tile.threads, tile.BM, tile.BN, tile.BK)
    return "mul_mat_i8/64" in caps.tuning.matmul.bodies and fits


def _groups(s: GemmShape, name: str) -> int:
    tile = TILES[f"mul_mat_i8/{name}"]
    return s.batches * cdiv(s.rows, tile.BM) * cdiv(s.cols, tile.BN)


def _splits(t: Tuning, s: GemmShape, name: str) -> int:
    own = t.matmul.mul_mat_i8.tiles[name]
    return k_splits(_groups(s, name), s.depth, own.shortest, own.busy)


def tile_load(t: Tuning, s: GemmShape, body: str, v: View) -> str:
    """How a tile of this body loads an operand."""
    own = t.matmul.mul_mat_i8
    if in_words(v):
        return WORDS
    large = body == "mul_mat_i8/64"
    if large and not transposed(v).vectorizable(4):
        return PACKED
    seconds = 2 * s.batches * s.rows * s.cols * s.depth / own.rate
    slower = seconds * (own.rows_run if large else own.bytes)
    copy = copy_seconds(v.nbytes, t.matmul.dispatch, t.device.copy)
    return PACKED if copy < slower else ROWS_RUN if large else BYTES


def gemv_load(v: View) -> str:
    """How gemv_i8 loads the large operand; WORDS means whole vectors of words."""
    if v.vectorizable(VECTOR):
        return WORDS
    return ROWS_RUN if transposed(v).vectorizable(4) else BYTES


def in_words(v: View) -> bool:
    """True if words along k may be read; the last word may have fewer than four k."""
    return contiguous_rows(v) and v.aligned(4, range(v.ndim - 1))


def lanes(t: Tuning, s: GemmShape) -> int:
    """The number of invocations of gemv_i8 that split k, as a power of two."""
    return lane_bits(t.matmul.gemv_i8, s)
