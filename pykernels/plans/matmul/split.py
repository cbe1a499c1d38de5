"""Products of f32 operands on matrix units, each operand as two planes of halves."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels._generated.bodies import gemm_split, split_halves
from pykernels.plans.cost import split_k, tile_of
from pykernels.plans.mma import UNIT
from pykernels.plans.reduce import reduction
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Tiles, View

from .matrix import halves
from .product import Product, by_batch, levels, transposed, unique
from .select import GemmChoice
from .select_mma import SPLIT_TILES
from .sums import spread, summed

__all__ = ["product"]

PACK = split_halves.CONFIGS["32x64"]
GROUP = 16  # how many k of one plane lie together


class _Planes(NamedTuple):
    """An operand as planes: words of two halves, the largest magnitude of each row, and the steps
    that make both."""

    view: View
    top: View | None
    steps: list[Step]


def product(
    caps: Caps, scratch: Scratch, p: Product, choice: GemmChoice, longest: int
) -> list[Step]:
    """The steps of a product of f32 operands, or of f16 (a) and f32 (b), in slices of at most
    `longest` k."""
    assert caps.matrix is not None
    if levels(p) >= Tiles.LEVELS:  # splits would need one more axis
        parts = by_batch(p, Tiles.LEVELS - 1)
        return [step for part in parts for step in product(caps, scratch, part, choice, longest)]
    tile = tile_of(choice.body)
    s, own = p.shape, SPLIT_TILES[tile]
    if p.a.dtype.itemsize == 4:
        a = _planes(caps, scratch, p.a, k_rows=True)
    else:
        half = halves(caps, scratch, p.a, k_rows=True)
        a = _Planes(half.view, None, half.steps)
    b = _planes(caps, scratch, p.b, k_rows=False)
    assert b.top is not None
    k = split_k(s.depth, choice.splits, own.BK)
    partials = scratch.empty((k.splits, *p.dst.shape), "float32")
    step = gemm_split.step(
        caps, spread(a.view, partials), spread(b.view, partials),
        a.top and spread(a.top, partials), spread(b.top, partials), partials,
        MMA=caps.matrix.dialect, TILE=tile, rows=s.rows, cols=s.cols, depth=s.depth,
        split_depth=k.depth, split_batches=s.batches, slice=longest,
        across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
    )  # fmt: skip
    return [*a.steps, *b.steps, step, summed(caps, partials, p, k.splits)]


def _planes(caps: Caps, scratch: Scratch, v: View, k_rows: bool) -> _Planes:
    """Both planes of an f32 operand; k is its last axis or the axis of its rows."""
    once = unique(v)
    *lead, rows, depth = once.shape
    top = scratch.empty((*lead, rows, 1), "float32")
    steps = reduction.plan(caps, scratch, once, top, -1, math.inf, name="norm")
    padded = cdiv(depth, GROUP) * GROUP
    if k_rows:
        once, top = transposed(once), transposed(top)
        height, width = padded, cdiv(rows, UNIT) * UNIT
        packed = scratch.empty((*lead, 2 * height, width // 2), "uint32")
    else:
        height, width = rows, padded
        packed = scratch.empty((*lead, height, width), "uint32")
    step = split_halves.step(
        caps, once, top.broadcast_to(once.shape), packed, rows=height,
        across=cdiv(width, PACK.BN), down=cdiv(height, PACK.BM), k_rows=int(k_rows),
        flip=int(abs(once.strides[-2]) < abs(once.strides[-1])),
    )  # fmt: skip
    return _Planes(_like(packed, v), _like(top, v), [*steps, step])


def _like(packed: View, v: View) -> View:
    """The matrices of a temporary, repeated to the batch axes of v."""
    return packed.broadcast_to((*v.shape[:-2], *packed.shape[-2:]))
