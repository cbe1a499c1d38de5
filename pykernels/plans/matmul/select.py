"""Chooses the body of a matrix product and the number of splits of K, by pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pykernels._generated.bodies import gemm_tile, gemv, mul_mat, splitk_reduce
from pykernels.plans.cost import product_seconds, splitk_seconds, waves
from pykernels.plans.limits import fits_tile
from pykernels.plans.mma import Tile
from pykernels.steps import Candidate, Caps, cdiv, forced
from pykernels.tuning import Gemv, Matmul, Tuning

from . import select_mma as mma

__all__ = [
    "BODIES",
    "FEW", "GEMM", "HELD", "MMA", "NARROW", "SPLIT", "TILES", "GemmChoice", "GemmShape", "GemmTail",
    "candidates", "choose", "few_columns", "gemm_seconds", "gemv_splits", "k_splits", "lane_bits",
    "reduce_bits", "units_seconds",
]  # fmt: skip

# The tiles of mul_mat.wgsl and gemm_tile.wgsl.
TILES: dict[str, mul_mat.Config | gemm_tile.Config] = {
    "mul_mat/32": mul_mat.CONFIGS["32"],
    "mul_mat/64": mul_mat.CONFIGS["64"],
    "mul_mat/16x64": mul_mat.CONFIGS["16x64"],
    "mul_mat/32x128": mul_mat.CONFIGS["32x128"],
    "gemm_tile": gemm_tile.CONFIGS["64x128"],
}
GEMM = "gemm_tile"
MMA = "gemm_mma"
SPLIT = "gemm_split"
FEW_ROWS = ("16x64", "32x128")  # tiles of mul_mat for products with few rows
FEW = {f"mul_mat/{tile}" for tile in FEW_ROWS}
# The configurations of gemv, one for each number of rows of the smaller operand that it can hold.
# NARROW is the largest of these numbers. COLUMNS is the number of columns of a workgroup whose
# invocations do not split k.
HELD = gemv.CONFIGS
NARROW = max(c.ROWS for c in HELD.values())
COLUMNS = HELD["rows1"].threads * HELD["rows1"].COLS
SUM_THREADS = splitk_reduce.CONFIGS["sum256"].threads

# The bodies that a choice names.
BODIES = (
    "gemv", *TILES, *(f"{MMA}/{tile}" for tile in mma.TILES),
    *(f"{SPLIT}/{tile}" for tile in mma.SPLIT_TILES),
)  # fmt: skip


class GemmShape(NamedTuple):
    """The shape that a choice depends on: dst is batches x rows x cols."""

    batches: int
    rows: int
    cols: int
    depth: int
    along_k: bool = True  # True if the larger operand's step along k is smaller than its other step
    halves: bool = False  # both operands are f16, or may be rounded to it
    split: bool = False  # f32 operands may be split into planes of halves
    longest: int = 0  # most k that stay within f32's bound in one sum of matrix units; 0: all


class GemmTail(NamedTuple):
    """The tail of a large product: the number of rows of tiles at its end whose K is cut, and the
    number of splits."""

    rows: int = 0
    splits: int = 1


class GemmChoice(NamedTuple):
    """The choice of a body, of the number of splits of K and, for gemm_tile, of the tail. The body
    is "gemv", one of TILES, or a tile of gemm_mma or gemm_split.

    `each`: the k of each split, except the last, which is shorter; 0: equal splits.
    """

    body: str
    splits: int = 1
    tail: GemmTail = GemmTail()
    each: int = 0


def choose(caps: Caps, s: GemmShape) -> GemmChoice:
    """The body and the splits for one product."""
    found = forced(caps, GemmChoice, s)
    if found is not None:
        return found
    t = caps.tuning.matmul
    if _takes_gemv(t, s):
        return GemmChoice("gemv", gemv_splits(t.gemv, s))
    if s.halves and (tiles := [x for x in mma.TILES if mma.may(caps, x)]):
        return _mma_choice(caps.tuning, s, tiles)
    for tile in FEW_ROWS:
        body = f"mul_mat/{tile}"
        if s.rows <= TILES[body].BM and s.cols >= TILES[body].BN and _may(caps, body):
            splits = _tile_splits(caps.tuning, s, tile)
            if splits * _tiles(s, body) >= t.mul_mat[tile].least:
                return GemmChoice(body, splits)
    if min(s.rows, s.cols) > t.gemm_tile.side:
        large = _large_choice(caps, s)
        if large is not None:
            return large
    splits = _tile_splits(caps.tuning, s, "64")
    if _may(caps, "mul_mat/64") and splits * _tiles(s, "mul_mat/64") >= t.mul_mat["64"].least:
        return GemmChoice("mul_mat/64", splits)
    return GemmChoice("mul_mat/32", _tile_splits(caps.tuning, s, "32"))


def few_columns(caps: Caps, s: GemmShape) -> bool:
    """True for a product with few columns: a tile for few rows computes it with the operands
    exchanged. Other tiles would compute many columns that do not exist."""
    units = s.halves and any(mma.may(caps, tile) for tile in mma.TILES)
    fits = any(s.cols <= TILES[body].BM and _may(caps, body) for body in FEW)
    return fits and s.rows > s.cols and not units


def candidates(caps: Caps, s: GemmShape) -> list[Candidate]:
    """All bodies, each with the expected seconds for its best number of splits, or with the reason
    why it is excluded."""
    t = caps.tuning
    few = min(s.rows, s.cols)
    narrow = "" if few <= NARROW else f"{few} rows: more than {NARROW}"
    found = [Candidate(GemmChoice("gemv", gemv_splits(t.matmul.gemv, s)), None, narrow)]
    for tile in t.matmul.mul_mat:
        body = f"mul_mat/{tile}"
        why = "" if tile == "32" or _may(caps, body) else "not in the tuning table, or too large"
        if not why and tile in FEW_ROWS and s.rows > TILES[body].BM:
            why = f"{s.rows} rows: more than {TILES[body].BM}"
        found.append(Candidate(GemmChoice(body, _tile_splits(t, s, tile)), None, why))
    if _may(caps, GEMM):
        best = min(_gemm_choices(t, s), key=lambda c: _gemm_seconds(t, s, c))
        found.append(Candidate(best, _gemm_seconds(t, s, best)))
    else:
        found.append(Candidate(GemmChoice(GEMM), None, "not in the tuning table, or too large"))
    for body, tiles, asked, may in (
        (MMA, mma.TILES, s.halves, mma.may), (SPLIT, mma.SPLIT_TILES, s.split, mma.may_split),
    ):  # fmt: skip
        for tile in tiles:
            why = "" if may(caps, tile) else "the device was not opened with such matrix units"
            if not asked:
                why = "operands are not float16" if body == MMA else "not asked for by precision"
            choice, seconds = GemmChoice(f"{body}/{tile}"), None
            if not why and body == MMA:
                choice = _mma_choice(t, s, [tile])
            elif not why:
                choice, seconds = _split_choice(t, s, [tile])
            found.append(Candidate(choice, seconds, why))
    return found


def _takes_gemv(t: Matmul, s: GemmShape) -> bool:
    """True for few rows with enough work in each row. With less work a tile is faster, because its
    rows share loads and it has fewer barriers."""
    few, many = min(s.rows, s.cols), max(s.rows, s.cols)
    enough = s.depth > t.gemv_depth * (few - 1) and max(many, 32) * s.depth >= t.gemv_area * few
    return few <= min(NARROW, t.gemv_rows) and enough


def _may(caps: Caps, body: str) -> bool:
    return body in caps.tuning.matmul.bodies and _fits(caps, body)


def _fits(caps: Caps, body: str) -> bool:
    tile = TILES[body]
    stages = 2 if body == GEMM else 1
    return fits_tile(caps, tile.threads, tile.BM, tile.BN, stages * tile.BK)


def _tiles(s: GemmShape, body: str) -> int:
    tile = TILES[body]
    return s.batches * cdiv(s.rows, tile.BM) * cdiv(s.cols, tile.BN)


# -- large products -------------------------------------------------------------------------------


def _large_choice(caps: Caps, s: GemmShape) -> GemmChoice | None:
    """gemm_tile, or gemm_split if that is faster; None if a smaller tile is to be used."""
    t = caps.tuning
    plain, least = None, math.inf
    if _may(caps, GEMM):
        plain = min(_gemm_choices(t, s), key=lambda c: _gemm_seconds(t, s, c))
        least = _gemm_seconds(t, s, plain)
    if s.split and (tiles := [x for x in mma.SPLIT_TILES if mma.may_split(caps, x)]):
        choice, seconds = _split_choice(t, s, tiles)
        if seconds < least:
            return choice
    many = plain is not None and plain.splits * _tiles(s, GEMM) >= t.matmul.gemm_tile.least
    return plain if many else None


def gemm_seconds(caps: Caps, s: GemmShape) -> float | None:
    """The expected seconds of gemm_tile with its best splits; None if the device cannot run
    gemm_tile."""
    if not _may(caps, GEMM):
        return None
    return min(_gemm_seconds(caps.tuning, s, c) for c in _gemm_choices(caps.tuning, s))


def units_seconds(caps: Caps, s: GemmShape) -> float | None:
    """The expected seconds of a product of halves on matrix units; None if the device cannot run
    it."""
    tiles = [tile for tile in mma.TILES if mma.may(caps, tile)]
    if not tiles:
        return None
    known = [Tile(tile, mma.TILES[tile].BM, mma.TILES[tile].BN) for tile in tiles]
    return mma.best(caps.tuning, caps.tuning.matmul.gemm_mma, known, *s[:4], s.longest)[0]


def _resident_workgroups(t: Tuning) -> int:
    """The number of workgroups of gemm_tile that run at the same time."""
    return (len(t.matmul.gemm_tile.partial_wave) - 1) * t.device.units


def _gemm_choices(t: Tuning, s: GemmShape) -> list[GemmChoice]:
    """The candidates: whole tiles; all tiles in equal splits; whole tiles in whole waves and a tail
    in splits; and all tiles in long splits and one short split each.

    In the last of these, the long splits start first and fill whole waves, except for the places
    that the short splits need.
    """
    resident, own = _resident_workgroups(t), t.matmul.gemm_tile
    most = max(min(s.depth // own.shortest, own.most), 1)
    choices = [GemmChoice(GEMM, n) for n in range(1, most + 1)]
    tiles, across = _tiles(s, GEMM), cdiv(s.cols, TILES[GEMM].BN)
    if tiles >= 2 * resident:
        choices = choices[:1]
    for long in range(1, most):
        each = s.depth * tiles // (cdiv(tiles * long, resident) * resident) // 16 * 16
        if each * long + own.short <= s.depth < each * (long + 1):
            choices.append(GemmChoice(GEMM, long + 1, each=each))
    if s.batches == 1 and tiles > resident:
        rows = (tiles - tiles // resident * resident + across - 1) // across
        choices += [GemmChoice(GEMM, 1, GemmTail(rows, n)) for n in range(2, most + 1) if rows]
    return choices


def _gemm_seconds(t: Tuning, s: GemmShape, choice: GemmChoice) -> float:
    """The expected seconds of gemm_tile and the sum over its splits."""
    (rows, cols), (_, splits, tail, long) = TILES[GEMM][:2], choice
    own, units, resident = t.matmul.gemm_tile, t.device.units, _resident_workgroups(t)
    tiles = _tiles(s, GEMM)
    # A wave of workgroups takes `each` seconds for each k; its start takes as long as `start_k` k.
    each = product_seconds(rows, cols, 1, resident // units, units, own.rate)
    if tail.rows:  # the tail's splits fill the free places of the wave; the other tiles follow
        in_tail = tail.rows * cdiv(s.cols, cols)
        whole = cdiv(tiles - in_tail, resident)
        later = max(tiles - whole * resident, 0) * tail.splits
        late = waves(later, units, own.partial_wave)
        k = whole * (s.depth + own.start_k) + late * cdiv(s.depth, tail.splits)
        return k * each + _sum_seconds(t, s, tail.splits, tail.rows * rows)
    if long:
        idle = own.uneven * (1.0 - long * (splits - 1) / s.depth)
        k = (tiles / resident + idle) * (s.depth + splits * own.start_k)
        return k * each + _sum_seconds(t, s, splits, s.rows)
    full = waves(tiles * splits, units, own.partial_wave)
    product = full * (cdiv(s.depth, splits) + own.start_k) * each
    return product + (_sum_seconds(t, s, splits, s.rows) if splits > 1 else 0.0)


def _sum_seconds(t: Tuning, s: GemmShape, splits: int, rows: int) -> float:
    nbytes = 4 * s.batches * rows * s.cols
    return splitk_seconds(nbytes, splits, t.matmul.dispatch, t.device.copy, nbytes)


# -- matrix units ---------------------------------------------------------------------------------


def _mma_choice(t: Tuning, s: GemmShape, tiles: Sequence[str]) -> GemmChoice:
    """The tile of matrix units and the splits with the least expected time."""
    known = [Tile(tile, mma.TILES[tile].BM, mma.TILES[tile].BN) for tile in tiles]
    _, tile, splits = mma.best(t, t.matmul.gemm_mma, known, *s[:4], s.longest)
    return GemmChoice(f"{MMA}/{tile}", splits)


def _split_choice(t: Tuning, s: GemmShape, tiles: Sequence[str]) -> tuple[GemmChoice, float]:
    """Like `_mma_choice`, but for f32 operands as planes of halves. The seconds include the
    packing, which reads both operands twice and writes them once."""
    known = [Tile(tile, mma.SPLIT_TILES[tile].BM, mma.SPLIT_TILES[tile].BN) for tile in tiles]
    seconds, tile, splits = mma.best(t, t.matmul.gemm_split, known, *s[:4], s.longest)
    nbytes = 12 * s.batches * (s.rows + s.cols) * s.depth
    packing = 4 * t.matmul.dispatch + nbytes / t.device.copy
    return GemmChoice(f"{SPLIT}/{tile}", splits), seconds + packing


# -- splits of K ----------------------------------------------------------------------------------


def gemv_splits(own: Gemv, s: GemmShape) -> int:
    """The number of splits of K for few rows of one operand."""
    groups = s.batches * cdiv(max(s.rows, s.cols), COLUMNS >> lane_bits(own, s))
    # Several rows hold more sums, so each split writes and sums more.
    busy = own.busy if s.along_k or min(s.rows, s.cols) == 1 else own.busy_rows
    shortest = own.shortest if s.along_k else own.shortest_rows
    return k_splits(groups, s.depth, shortest, busy, own.most)


def _tile_splits(t: Tuning, s: GemmShape, tile: str) -> int:
    own = t.matmul.mul_mat[tile]
    # fill one wave only: the product waits for memory, and a second wave would start late
    if tile in FEW_ROWS:
        return max(1, min(own.busy // _tiles(s, f"mul_mat/{tile}"), s.depth // own.shortest, 64))
    return k_splits(_tiles(s, f"mul_mat/{tile}"), s.depth, own.shortest, own.busy)


def k_splits(groups: int, depth: int, shortest: int, busy: int, most: int = 64) -> int:
    """The number of splits of K that keeps the device busy, each at least `shortest` deep; 1 if the
    device is busy without splits.

    The number is 1.5 times what is needed, so that a last wave is not nearly empty.
    """
    wanted = 1 if groups >= busy else cdiv(busy * 3 // 2, max(groups, 1))
    return max(1, min(wanted, depth // shortest, most))


def lane_bits(own: Gemv, s: GemmShape) -> int:
    """The number of invocations of gemv that split k, as a power of two: enough to fill the
    device, at most k."""
    if not s.along_k:
        return 3 if s.depth >= own.lane_k_rows else 0
    bits = 4
    length = max(s.rows, s.cols)
    while (
        bits < 8
        and (s.depth >> bits) >= own.lane_k
        and s.batches * cdiv(length << bits, COLUMNS) < own.lane_groups
    ):
        bits += 1
    return bits


def reduce_bits(t: Tuning, splits: int, size: int) -> int:
    """The number of invocations of splitk_reduce that share the splits of one element, as a power
    of two."""
    own = t.matmul.splitk_reduce
    bits = 0
    while bits < 8 and splits >> bits > own.lane_splits and size << bits < SUM_THREADS * own.busy:
        bits += 1
    return bits
