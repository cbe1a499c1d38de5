"""mul_mat_quant: products with quantised weights, by shapes, strides and device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pykernels._generated.bodies import (
    gemm_mma_quant,
    gemm_mma_quant_few,
    gemm_quant,
    gemv_quant,
    gemv_quant_half,
    gemv_quant_i8,
    rows_i8,
)
from pykernels._generated.ops import ACTIVATIONS
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, LimitError, ShapeError
from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.copy import cpy
from pykernels.plans.cost import split_k, tile_of
from pykernels.plans.mma import words
from pykernels.plans.parts import fits_binding, narrow
from pykernels.plans.quant import dequantize
from pykernels.plans.quant.planes import read
from pykernels.plans.quant.types import GROUP, BlockType, type_of
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Tiles, View

from . import mul_mat
from .product import Product, aligned, by_batch, check, folded, levels
from .select_quant import (
    FEW,
    GEMV,
    GEMV_HALF,
    GEMV_I8,
    HELD,
    MMA,
    MMA_FEW,
    MMA_TILES,
    TILES,
    UNPACKED,
    QuantChoice,
    QuantShape,
    choose,
    column_bits,
    columns_held,
)
from .sums import spread, summed, target

__all__ = ["choose", "plan"]

_OP = "mul_mat_quant"


@dataclass(frozen=True)
class Weights:
    """The planes of weights (M, K), as bodies bind them."""

    kind: BlockType
    low: View
    scales: View
    high: View | None
    given: tuple[View, View, View | None] | None = None  # the caller's views of b, dst and bias

    @property
    def planes(self) -> list[View]:
        return [v for v in (self.low, self.scales, self.high) if v is not None]

    def columns(self, first: int, count: int) -> Weights:
        """Some rows of the weights, in whole groups of four. The rows are columns of the
        product."""
        size = cdiv(count, 4) * 4
        if first == 0 and size == self.low.shape[3]:
            return self
        if first % 4:
            raise LimitError(f"[{_OP}] the call cannot be cut further")
        share = self.kind.share
        high = self.high and narrow(self.high, 3, first, size)
        return replace(
            self, low=narrow(self.low, 3, first, size), high=high, given=None,
            scales=narrow(self.scales, 3, first // share, size // share),
        )  # fmt: skip

    def groups(self, first: int, count: int) -> Weights:
        """The weights of some groups of k, in whole blocks."""
        each = self.kind.block // GROUP
        high = self.high and narrow(self.high, 1, first, count)
        return replace(
            self, low=narrow(self.low, 1, first, count), high=high, given=None,
            scales=narrow(self.scales, 1, first // each, count // each),
        )  # fmt: skip


def plan(
    caps: Caps,
    scratch: Scratch,
    low: View,
    scales: View,
    high: View | None,
    b: View,
    bias: View | None,
    residual: View | None,
    dst: View,
    quant: str = "q4_0",
    activation: str | None = None,
    precision: str | None = None,
) -> list[Step]:
    """The dispatches of one product."""
    kind = type_of(_OP, quant)
    if precision not in (None, "fast"):
        raise ArgumentError(f"[{_OP}] precision must be None or 'fast' but is {precision!r}")
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[{_OP}] activation must be one of {names} but is {activation!r}")
    if b.ndim < 2 or dst.ndim < 2:
        raise ShapeError(f"[{_OP}] b and dst must have two or more axes")
    cols, depth = dst.shape[-1], b.shape[-1]
    copies, own_low, own_scales, own_high = read(
        _OP, caps, scratch, kind, (cols, depth), low, scales, high
    )
    weights = Weights(kind, own_low, own_scales, own_high, (low, scales, high))
    # Stands for the weights in code that all products share; its offset is the first column.
    a = View(low.slot, DTYPES["uint8"], (cols, depth), (1, 0), 0)
    check(a, b, bias, residual, dst, _OP)
    if dst.size == 0:
        return []
    fast = precision == "fast"
    p = folded(aligned(a, b, bias, residual, dst, ACTIVATIONS[activation]))

    def steps(part: Product) -> list[Step]:
        return [
            step for one in by_batch(part) for step in _steps(caps, scratch, weights, one, fast)
        ]

    found = whole(caps, scratch, (p.b, p.bias, p.residual, p.dst), lambda: steps(p))
    if found is None:
        found = in_parts(caps, scratch, p.views, p.axes, lambda part: steps(p.of(part.views)))
    return copies + found


def _steps(caps: Caps, scratch: Scratch, weights: Weights, p: Product, fast: bool) -> list[Step]:
    s = QuantShape(*p.shape[:4])
    w = weights.columns(p.a.offset, s.cols)
    cuts = _cuts(caps, w, s.depth)
    if len(cuts) == 1:
        return _product(caps, scratch, w, p, fast)
    # For a plane that is larger than a binding: k is cut into parts, and the parts' sums are added.
    partials = scratch.empty((len(cuts), *p.dst.shape), "float32")
    steps: list[Step] = []
    for i, (first, count) in enumerate(cuts):
        out = narrow(partials, 0, i, 1)
        out = out.with_layout(out.shape[1:], out.strides[1:])
        b = narrow(p.b, p.b.ndim - 1, first * GROUP, count * GROUP)
        part = replace(p, b=b, dst=out, bias=None, residual=None, activation=0)
        steps += _product(caps, scratch, w.groups(first, count), part, fast, True)
    return [*steps, summed(caps, partials, p, len(cuts))]


def _rows(caps: Caps, scratch: Scratch, b: View, halves: bool) -> tuple[View, list[Step]]:
    """The rows of b, in vectors of 16 bytes along k."""
    steps: list[Step] = []
    name = "float16" if halves else b.dtype.name
    if b.dtype.name != name or not b.vectorizable(16 // b.dtype.itemsize):
        copy = scratch.empty(b.shape, name)
        steps = cpy.plan(caps, scratch, b, copy)
        b = copy
    return b, steps


def _cuts(caps: Caps, w: Weights, depth: int) -> list[tuple[int, int]]:
    """For each part of k, its first group and its number of groups; bindings hold all planes of a
    part."""
    each = w.kind.block // GROUP
    blocks = depth // w.kind.block
    parts = 1
    while True:
        count = cdiv(blocks, parts) * each
        if all(fits_binding(caps, v) for v in w.groups(0, count).planes):
            break
        if count == each:
            raise LimitError(f"[{_OP}] one block of all columns is larger than a binding")
        parts += 1
    return [(i, min(count, depth // GROUP - i)) for i in range(0, depth // GROUP, count)]


def _product(
    caps: Caps, scratch: Scratch, w: Weights, p: Product, fast: bool, is_part: bool = False
) -> list[Step]:
    """The steps of the product with planes that can be bound; `is_part`: the sums of other parts
    are added to its sums."""
    half = p.b.dtype.itemsize == 2
    # Matrix units store four columns at a time, and round float32 operands.
    halves = (half or (fast and caps.matrix is not None)) and p.dst.shape[-1] % 4 == 0
    is_whole, packed = w.given is not None, w.kind.halves
    s = QuantShape(*p.shape[:3], p.b.shape[-1], halves, is_whole, fast, half, packed)
    choice = choose(caps, s)
    if choice.body == UNPACKED:
        return _unpacked(caps, scratch, w, p, fast)
    matrix = choice.body.startswith(MMA)
    b, before = _rows(caps, scratch, p.b, matrix)
    if b.dtype.itemsize == 2 and choice.body != GEMV_HALF:
        b = words(b)
    splits = 1 if is_part else min(choice.splits, max(caps.max_binding // (4 * p.dst.size), 1))
    k = split_k(s.depth, 1 if levels(p) >= Tiles.LEVELS else splits, GROUP)
    if matrix and not p.dst.vectorizable(4):
        partials = scratch.empty((k.splits, *p.dst.shape), "float32")
        out, is_partial, after = partials, True, [summed(caps, partials, p, k.splits)]
    else:
        # No text has a result in f16 and an operand in f32.
        direct = matrix or half or p.dst.dtype.itemsize == 4
        out, is_partial, after = target(caps, scratch, p, k, direct=direct)
    if is_partial:
        p = replace(p, bias=None, residual=None, activation=0)
    if choice.body == GEMV_I8 and s.batches * s.rows == 1:
        steps = _gemv_i8(caps, scratch, w, b, p, out, s, is_partial or is_part)
        return [*before, *steps, *after]
    b, is_partial = spread(b, out), is_partial or is_part
    narrow = choice.body in (GEMV, GEMV_HALF, GEMV_I8)
    make = _gemv if narrow else _matrix if matrix else _tiled
    return [*before, make(caps, w, b, p, out, s, choice, k.depth, is_partial), *after]


def _unpacked(caps: Caps, scratch: Scratch, w: Weights, p: Product, fast: bool) -> list[Step]:
    """The steps that unpack the weights to floats, and the product with these floats."""
    assert w.given is not None
    wide = scratch.empty(p.a.shape[-2:], "float32")
    steps = dequantize.plan(caps, scratch, *w.given, wide, w.kind.name)
    names = {number: name for name, number in ACTIVATIONS.items()}
    return steps + mul_mat.plan(
        caps, scratch, wide, p.b, p.bias, p.residual, p.dst, names[p.activation],
        "fast" if fast else None,
    )  # fmt: skip


def _gemv(
    caps: Caps, w: Weights, b: View, p: Product, out: View, s: QuantShape, choice: QuantChoice,
    depth: int, is_partial: bool,
) -> Step:  # fmt: skip
    """The steps for up to eight rows of b; the weights are read once."""
    held = next(n for n, c in HELD.items() if c.ROWS >= s.rows)
    rounds = w.kind.rounds(depth)
    bits = column_bits(caps, s.cols, rounds, s.batches)
    if choice.body == GEMV_HALF:
        if s.rows == 1 and columns_held(bits, rounds) == 1:
            held = "row1_narrow"
        return gemv_quant_half.step(
            caps, w.low, w.scales, w.high, b, p.bias, p.residual, out,
            TYPE=w.kind.name, HELD=held, depth=s.depth, across=cdiv(s.cols, 1 << bits),
            col_bits=bits, activation=p.activation, is_partial=int(is_partial),
        )  # fmt: skip
    return gemv_quant.step(
        caps, w.low, w.scales, w.high, b, p.bias, p.residual, out,
        TYPE=w.kind.name, LV=w.kind.vec, HELD=held, depth=s.depth,
        across=cdiv(s.cols, 1 << bits), col_bits=bits, activation=p.activation,
        is_partial=int(is_partial),
    )  # fmt: skip


def _gemv_i8(
    caps: Caps, scratch: Scratch, w: Weights, b: View, p: Product, out: View, s: QuantShape,
    is_partial: bool,
) -> list[Step]:  # fmt: skip
    """The steps of the product of one row, which is quantised to bytes."""
    groups = s.depth // GROUP
    row = b.with_layout(b.shape[-2:], b.strides[-2:])
    codes, sums = scratch.empty((groups, 8), "uint32"), scratch.empty((groups, 4), "float32")
    bits = column_bits(caps, s.cols, w.kind.rounds(s.depth), s.batches)
    return [
        rows_i8.step(caps, row, codes, sums, BITS=w.kind.vec * w.kind.parts, groups_k=groups),
        gemv_quant_i8.step(
            caps, w.low, w.scales, w.high, codes, sums, p.bias, p.residual, out,
            TYPE=w.kind.name, LV=w.kind.vec, depth=s.depth, col_bits=bits,
            activation=p.activation, is_partial=int(is_partial),
        ),
    ]  # fmt: skip


def _tiled(
    caps: Caps, w: Weights, b: View, p: Product, out: View, s: QuantShape, choice: QuantChoice,
    depth: int, is_partial: bool,
) -> Step:  # fmt: skip
    tile = tile_of(choice.body)
    own = TILES[tile]
    return gemm_quant.step(
        caps, w.low, w.scales, w.high, b, p.bias, p.residual, out,
        TYPE=w.kind.name, LV=w.kind.vec, TILE=tile, depth=s.depth, split_depth=depth,
        split_batches=s.batches, across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
        activation=p.activation, is_partial=int(is_partial),
    )  # fmt: skip


def _matrix(
    caps: Caps, w: Weights, b: View, p: Product, out: View, s: QuantShape, choice: QuantChoice,
    depth: int, is_partial: bool,
) -> Step:  # fmt: skip
    """The steps of the product on matrix units."""
    tile = tile_of(choice.body)
    if choice.body.startswith(FEW):
        return gemm_mma_quant_few.step(
            caps, w.low, w.scales, w.high, b, p.bias, p.residual, out,
            MMA=caps.matrix.dialect if caps.matrix is not None else "", ROWS=tile,
            TYPE=w.kind.name, rows=s.rows, cols=s.cols, depth=s.depth, split_depth=depth,
            split_batches=s.batches, across=cdiv(s.cols, MMA_FEW[tile].BN),
            activation=p.activation, is_partial=int(is_partial),
        )  # fmt: skip
    own = MMA_TILES[tile]
    return gemm_mma_quant.step(
        caps, w.low, w.scales, w.high, b, p.bias, p.residual, out,
        MMA=caps.matrix.dialect if caps.matrix is not None else "", TILE=tile, TYPE=w.kind.name,
        LV=w.kind.vec, rows=s.rows, cols=s.cols, depth=s.depth, split_depth=depth,
        split_batches=s.batches, across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
        activation=p.activation, is_partial=int(is_partial),
    )  # fmt: skip
