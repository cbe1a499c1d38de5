"""Matrix units for the plans of all families: the shapes of a device, the lengths of sums, and
costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pykernels.dtypes import DTYPES
from pykernels.steps import Caps, cdiv
from pykernels.tensors.layout import View
from pykernels.tuning import Tuning

from .cost import product_seconds, splitk_seconds, waves
from .limits import fits

if TYPE_CHECKING:
    from pykernels._generated.bodies import conv_weight_mma, gemm_mma, implicit_gemm_mma
    from pykernels.tuning.schema import GemmMma

    HalvesTile = gemm_mma.Config | implicit_gemm_mma.Config | conv_weight_mma.Config

__all__ = [
    "HALVES", "UNIT", "Tile", "has_tile", "has_units", "longest_sum", "seconds", "splits_of",
    "strips", "words",
]  # fmt: skip

HALVES = ("f16", "f32", 16, 16, 16)  # types, M, N and K of the product that texts for halves need
UNIT = 8  # halves of one load, which is 16 bytes
# Matrix units truncate addends to 2 bits below the sum's last place, so errors grow with the length
# of a sum (docs/design/matrix-units.md): by 0.16 of its last place for each term if the first
# products outweigh all others. The bound of tests is (sqrt(K) + 4) 2^-23 for K terms; a sum of at
# most LONGEST sqrt(K) terms stays within it.
LONGEST = 6.0


class Tile(NamedTuple):
    """The facts about a tile that its costs depend on."""

    name: str
    BM: int
    BN: int


def has_units(caps: Caps, shape: tuple[str, str, int, int, int], threads: int, units: int) -> bool:
    """True if the device multiplies this shape, and has workgroup memory for these 16-byte
    units."""
    return (
        caps.matrix is not None
        and shape in caps.matrix.shapes
        and fits(caps, threads, 16 * units + 1024)
    )


def has_tile(caps: Caps, own: HalvesTile) -> bool:
    """True if the device multiplies halves with this tile."""
    operands = max((own.BM + own.BN) * (own.BK // UNIT + 1), own.BK * (own.BM + own.BN) // UNIT)
    return has_units(caps, HALVES, own.threads, max(operands, strips(own.threads, own.WN)))


def strips(threads: int, columns: int) -> int:
    """The 16-byte units of the strips through which results are stored, for subgroups of `columns`
    columns."""
    return threads // 32 * 16 * (columns // 4 + 1)


def longest_sum(terms: int, multiple: int) -> int:
    """The largest number of terms that matrix units may add in one piece, for a sum of `terms`
    terms. The pieces are added in plain f32, and the result stays within the bound of plain f32."""
    return max(int(LONGEST * math.sqrt(terms)) // multiple, 1) * multiple


def words(v: View) -> View:
    """A view of halves as a view of words, each of two halves."""
    return replace(
        v, dtype=DTYPES["uint32"], shape=(*v.shape[:-1], v.shape[-1] // 2),
        strides=(*v.strides[:-1], 4),
    )  # fmt: skip


def splits_of(own: GemmMma, depth: int) -> range:
    """The numbers of splits to choose from."""
    return range(1, max(min(depth // own.shortest, own.most), 1) + 1)


def seconds(
    t: Tuning, own: GemmMma, tile: Tile, tiles: int, depth: int, splits: int, nbytes: int,
    longest: int = 0,
) -> float:  # fmt: skip
    """The expected seconds of `tiles` tiles of dst, computed in slices of `longest` k (0: one
    slice), and of the sum over splits."""
    units, resident = t.device.units, len(own.partial_wave) - 1
    each = product_seconds(tile.BM, tile.BN, 1, resident, units, own.rate)
    full = waves(tiles * splits, units, own.partial_wave)
    k = cdiv(depth, splits)
    slices = cdiv(k, longest or k)
    product = full * (k + own.start_k + (slices - 1) * own.slice_k) * each
    if splits == 1:
        return product
    return product + splitk_seconds(nbytes, splits, t.matmul.mma_sum, t.device.copy, nbytes)
