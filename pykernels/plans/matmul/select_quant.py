"""Chooses the body of a product with quantised weights and the number of splits of K, by pure
functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import (
    gemm_mma_quant,
    gemm_mma_quant_few,
    gemm_quant,
    gemv_quant,
)
from pykernels.plans.mma import HALVES, UNIT, Tile, has_units, strips
from pykernels.steps import Candidate, Caps, cdiv, forced

from .select import k_splits
from .select_mma import best

__all__ = [
    "BODIES", "FEW", "GEMV", "GEMV_HALF", "GEMV_I8", "HELD", "MMA", "MMA_FEW", "MMA_TILES",
    "NARROW", "TILES", "UNPACKED", "QuantChoice", "QuantShape", "candidates", "choose",
    "column_bits", "columns_held", "may", "may_few",
]  # fmt: skip

GEMV = "gemv_quant"
GEMV_HALF = "gemv_quant_half"  # the body for rows of halves, with packed products
GEMV_I8 = "gemv_quant_i8"  # the body for a row of bytes, for precision="fast"
TILE = "gemm_quant"
MMA = "gemm_mma_quant"
FEW = "gemm_mma_quant_few"  # the body for few rows on matrix units
UNPACKED = "mul_mat"  # weights become float32 in scratch, and mul_mat multiplies floats
HELD = gemv_quant.CONFIGS
TILES = gemm_quant.CONFIGS
MMA_TILES = gemm_mma_quant.CONFIGS
MMA_FEW = gemm_mma_quant_few.CONFIGS
NARROW = max(c.ROWS for c in HELD.values())
BODIES = (
    GEMV, GEMV_HALF, GEMV_I8, *(f"{TILE}/{tile}" for tile in TILES),
    *(f"{MMA}/{tile}" for tile in MMA_TILES), *(f"{FEW}/{rows}" for rows in MMA_FEW), UNPACKED,
)  # fmt: skip
MOST_UNPACKED = 1 << 29  # most bytes of scratch for unpacked weights
THREADS = 256  # invocations of a workgroup of gemv_quant
# Workgroups of gemv_quant that are enough for each multiprocessor: on an H200, 256 workgroups for
# 2,048 columns are faster than 512.
WORKGROUPS = 1.5
MOST_BITS, LEAST_BITS = 5, 2  # columns of a workgroup of gemv_quant, as powers of two


class QuantShape(NamedTuple):
    """The shape that a choice depends on: dst is batches x rows x cols."""

    batches: int
    rows: int
    cols: int
    depth: int
    halves: bool = False  # b is f16, or may be rounded to it
    whole: bool = False  # each plane fits a binding, so no plane is cut
    fast: bool = False  # a single row may be rounded to bytes
    half: bool = False  # b is f16
    # gemv_quant_half and gemm_mma_quant_few have texts for the type of the weights
    packed: bool = False


class QuantChoice(NamedTuple):
    """The choice of a body, which is one of BODIES, and for a tile of the number of splits of K.
    The body mul_mat reads the weights as floats from scratch memory."""

    body: str
    splits: int = 1


def choose(caps: Caps, s: QuantShape) -> QuantChoice:
    """The body and the splits for one product with quantised weights."""
    found = forced(caps, QuantChoice, s)
    if found is not None:
        return found
    own = caps.tuning.matmul.quant
    if s.fast and s.batches * s.rows == 1 and s.cols * s.depth >= own.fast_weights:
        return QuantChoice(GEMV_I8)
    few = [name for name, rows in MMA_FEW.items() if s.rows <= rows.BM and may_few(caps, s, name)]
    if s.rows <= NARROW and _is_packed(caps, s):
        return QuantChoice(GEMV_HALF)
    if few and own.few_least <= s.rows <= own.few_most:
        return _few_choice(caps, s, few[0])
    if s.rows <= NARROW:
        return QuantChoice(GEMV)
    if s.halves and (tiles := [x for x in MMA_TILES if may(caps, x)]):
        return _mma_choice(caps, s, tiles)
    if s.whole and s.rows >= own.unpacked_rows and 4 * s.cols * s.depth <= _most_unpacked(caps):
        return QuantChoice(UNPACKED)
    tile = next((name for name, rows in TILES.items() if s.rows <= rows.BM), max(TILES))
    return _tiled(caps, s, tile)


def may(caps: Caps, tile: str) -> bool:
    """True if the device can multiply with this tile of gemm_mma_quant."""
    own = MMA_TILES[tile]
    emulated = caps.matrix is not None and caps.matrix.dialect == "emulated"
    operands = (own.BM + own.BN) * (own.BK // UNIT + 1)
    units = max(operands, strips(own.threads, own.WN))
    return emulated == (own.BN == 32) and has_units(caps, HALVES, own.threads, units)


def may_few(caps: Caps, s: QuantShape, name: str) -> bool:
    """True if the device can multiply with these rows of gemm_mma_quant_few."""
    own = MMA_FEW[name]
    is_emulated = caps.matrix is not None and caps.matrix.dialect == "emulated"
    if is_emulated != (name == "emulated"):
        return False
    units = own.threads // 32 * (own.BN + own.BM) * 5
    return s.halves and s.packed and has_units(caps, HALVES, own.threads, units)


def _is_packed(caps: Caps, s: QuantShape) -> bool:
    return s.half and s.packed and caps.f16


def _few_choice(caps: Caps, s: QuantShape, name: str) -> QuantChoice:
    """A tile of gemm_mma_quant_few, with splits of K if the columns are too few for the device."""
    groups = s.batches * cdiv(s.cols, MMA_FEW[name].BN)
    own = caps.tuning.matmul.quant
    splits = k_splits(groups, s.depth, own.few_shortest, _busy(caps), own.most)
    return QuantChoice(f"{FEW}/{name}", splits)


def _busy(caps: Caps) -> int:
    """Workgroups that keep the device busy."""
    return caps.tuning.matmul.quant.waves * caps.tuning.device.units


def _most_unpacked(caps: Caps) -> int:
    return min(caps.max_binding, MOST_UNPACKED)


def _mma_choice(caps: Caps, s: QuantShape, tiles: list[str]) -> QuantChoice:
    """The smallest tile for few rows, with splits that fill the device; otherwise the largest
    tile."""
    few = tiles[0]
    if s.rows <= MMA_TILES[few].BM:
        table = caps.tuning.matmul.quant
        groups = s.batches * cdiv(s.cols, MMA_TILES[few].BN)
        splits = k_splits(groups, s.depth, table.mma_shortest, _busy(caps), table.most)
        return QuantChoice(f"{MMA}/{few}", splits)
    tile = tiles[-1]
    own, tables = MMA_TILES[tile], caps.tuning.matmul.gemm_mma
    known = Tile("128x128" if "128x128" in tables else min(tables), own.BM, own.BN)
    _, _, splits = best(caps.tuning, tables, [known], s.batches, s.rows, s.cols, s.depth)
    return QuantChoice(f"{MMA}/{tile}", splits)


def candidates(caps: Caps, s: QuantShape) -> list[Candidate]:
    """All bodies, each with the reason if it is excluded."""
    narrow = "" if s.rows <= NARROW else f"{s.rows} rows: more than {NARROW}"
    found = [Candidate(QuantChoice(GEMV), None, narrow)]
    if not _is_packed(caps, s):
        narrow = "b is not float16, or there are no packed products of the type"
    found.append(Candidate(QuantChoice(GEMV_HALF), None, narrow))
    why = "" if s.fast and s.batches * s.rows == 1 else "for one row, if precision asks for it"
    found.append(Candidate(QuantChoice(GEMV_I8), None, why))
    found += [Candidate(_tiled(caps, s, tile)) for tile in TILES]
    for tile in MMA_TILES:
        why = "" if may(caps, tile) else "the device was not opened with such matrix units"
        if not s.halves:
            why = "b is not float16"
        choice = QuantChoice(f"{MMA}/{tile}") if why else _mma_choice(caps, s, [tile])
        found.append(Candidate(choice, None, why))
    for name, rows in MMA_FEW.items():
        why = "" if may_few(caps, s, name) else "no matrix units, or no such texts for the type"
        if s.rows > rows.BM:
            why = f"{s.rows} rows: more than {rows.BM}"
        choice = QuantChoice(f"{FEW}/{name}") if why else _few_choice(caps, s, name)
        found.append(Candidate(choice, None, why))
    large = s.whole and 4 * s.cols * s.depth <= _most_unpacked(caps)
    why = "" if large else "the weights as floats are too large"
    return [*found, Candidate(QuantChoice(UNPACKED), None, why)]


def column_bits(caps: Caps, cols: int, rounds: int, batches: int = 1, most: int = MOST_BITS) -> int:
    """The columns of a workgroup of gemv_quant, as a power of two. If there would be too few
    workgroups for the device, a workgroup has fewer columns and more runs of k, as long as each run
    has a round of groups."""
    least, bits = int(WORKGROUPS * caps.tuning.device.units), most
    while (
        bits > LEAST_BITS
        and batches * cdiv(cols, 1 << bits) < least
        and THREADS >> (bits - 1) <= rounds
    ):
        bits -= 1
    return bits


def columns_held(bits: int, rounds: int) -> int:
    """The columns of an invocation with packed products: two if each run of k then still has a
    round of groups, else one."""
    return 2 if (2 * THREADS) >> bits <= rounds else 1


def _tiled(caps: Caps, s: QuantShape, tile: str) -> QuantChoice:
    own, table = TILES[tile], caps.tuning.matmul.mul_mat["64"]
    groups = s.batches * cdiv(s.rows, own.BM) * cdiv(s.cols, own.BN)
    return QuantChoice(f"{TILE}/{tile}", k_splits(groups, s.depth, table.shortest, table.busy))
