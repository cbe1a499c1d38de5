"""mul_mat: tiles, vectors or splits of K, by shapes, strides and device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pykernels._generated.bodies import (
    gemm_f16acc,
    gemm_mma,
    gemm_tile,
    gemv,
    mul_mat,
)
from pykernels._generated.ops import ACTIVATIONS
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError
from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.copy import cpy
from pykernels.plans.copy.padded import padded
from pykernels.plans.cost import copy_seconds, split_k, tile_of
from pykernels.plans.mma import words
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Tiles, View

from .matrix import halves
from .product import (
    Product,
    aligned,
    by_batch,
    check,
    contiguous_rows,
    folded,
    levels,
    rows_of,
    runs_along_k,
    transposed,
    unique,
)
from .select import (
    FEW,
    GEMM,
    HELD,
    MMA,
    NARROW,
    SPLIT,
    TILES,
    GemmChoice,
    choose,
    few_columns,
    lane_bits,
)
from .select_mma import SPLIT_UNASKED, longest_slice
from .select_mma import TILES as MMA_TILES
from .split import product as split_product
from .sums import spread, summed, target

__all__ = ["choose", "plan"]

ALONG_K = 2  # the number of k in one vector of an operand whose last axis is k
# the BK of all mul_mat tiles; gemm_tile alternates between two smaller stages
BK = TILES["mul_mat/32"].BK
# For precision="fast", pairs (least, n): if K >= least, 16 n products at a time are summed in f16.
# The more of these sums a result has, the smaller is the effect of their errors.
BLOCKS = ((4096, 16), (1024, 8), (256, 4), (0, 2))


def plan(
    caps: Caps,
    scratch: Scratch,
    a: View,
    b: View,
    bias: View | None,
    residual: View | None,
    dst: View,
    activation: str | None = None,
    precision: str | None = None,
) -> list[Step]:
    """The dispatches of one product."""
    if precision not in (None, "fast", "high", "split"):
        raise ArgumentError(
            f"[mul_mat] precision must be None, 'fast', 'high' or 'split' but is {precision!r}"
        )
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[mul_mat] activation must be one of {names} but is {activation!r}")
    check(a, b, bias, residual, dst)
    if dst.size == 0:
        return []
    p = aligned(a, b, bias, residual, dst, ACTIVATIONS[activation])
    if p.shape.depth == 0:
        return _bound(
            caps, scratch, p, lambda part: [summed(caps, scratch.empty((1,), "float32"), part, 0)]
        )
    # Operands may be exchanged, so texts exist for one order only: f16 comes first, and dst is
    # contiguous along its last axis.
    mixed = p.a.dtype != p.b.dtype
    if (p.a.dtype.itemsize > p.b.dtype.itemsize) if mixed else contiguous_rows(transposed(p.dst)):
        p = p.swapped()
    p = folded(folded(p).swapped()).swapped()
    if not (caps.matrix is not None or (caps.f16 and precision == "fast")):
        precision = None

    def steps(part: Product) -> list[Step]:
        return [step for one in by_batch(part) for step in _steps(caps, scratch, one, precision)]

    return _bound(caps, scratch, p, steps)


def _bound(
    caps: Caps, scratch: Scratch, p: Product, steps: Callable[[Product], list[Step]]
) -> list[Step]:
    """The steps of a product, in parts if a tensor or a temporary is larger than one binding."""
    tensors = (p.a, p.b, p.bias, p.residual, p.dst)
    found = whole(caps, scratch, tensors, lambda: steps(p))
    if found is not None:
        return found
    return in_parts(caps, scratch, p.views, p.axes, lambda part: steps(p.of(part.views)))


def _steps(caps: Caps, scratch: Scratch, p: Product, precision: str | None) -> list[Step]:
    usual, alike = p, p.a.dtype == p.b.dtype  # all tiles have texts for the usual order
    fast = precision == "fast"
    half = fast or {p.a.dtype.name, p.b.dtype.name} == {"float16"}
    narrow = min(p.shape[1:3]) <= NARROW and p.shape.rows > p.shape.cols
    if narrow or (alike and few_columns(caps, p.shape._replace(halves=half))):
        p = p.swapped()
    split = not half and (precision == "split" or SPLIT_UNASKED)
    # Rounding a result to float16 costs more accuracy than adding the sum in one piece.
    whole_sums = fast or (half and precision is None and p.dst.dtype.name == "float16")
    longest = 0 if whole_sums else longest_slice(p.shape.depth)
    shape = p.shape._replace(along_k=runs_along_k(p.a), halves=half, split=split, longest=longest)
    choice = choose(caps, shape)
    if choice.body.startswith(MMA):
        return _gemm_mma(caps, scratch, p, choice, longest)
    if choice.body.startswith(SPLIT):
        return split_product(caps, scratch, p, choice, longest)
    splits = min(choice.splits, max(caps.max_binding // (4 * p.dst.size), 1))
    if levels(p) >= Tiles.LEVELS:
        splits = 1  # splits would need one more axis
    if splits != choice.splits:
        choice = choice._replace(splits=splits, each=0)
    if choice.body == "gemv":
        return _gemv(caps, scratch, p, choice.splits)
    if choice.body == GEMM and fast:
        return _gemm_f16acc(caps, scratch, usual, choice)
    if choice.body == GEMM:
        return _gemm_tile(caps, scratch, usual, choice)
    few = alike and choice.body in FEW
    return _tiled(caps, scratch, p if few else usual, choice.body, choice.splits)


def _load(v: View) -> tuple[View, int, bool]:
    """How a tile loads an operand: the view, its vector width, and True if k is the axis of its
    rows."""
    if v.vectorizable(ALONG_K):
        return v, ALONG_K, False
    if transposed(v).vectorizable(4):
        return transposed(v), 4, True
    return v, 1, False


def _gemv(caps: Caps, scratch: Scratch, p: Product, splits: int) -> list[Step]:
    """The steps for up to eight rows of one operand; the other operand is read once."""
    before: list[Step] = []
    if p.a.dtype.itemsize > p.b.dtype.itemsize:  # few f16 rows are converted to f32
        p, before = _small_copy(caps, scratch, p, "float32")
    along_k = runs_along_k(p.a)
    s = p.shape._replace(along_k=along_k)
    a = p.a if along_k else transposed(p.a)
    a, words = _vectors(a)
    av = 4 if words or (a.dtype.itemsize == 4 and a.vectorizable(4)) else 1
    b = p.b
    if along_k and av == 4:
        if not b.vectorizable(4 if b.dtype.itemsize == 4 else 8):
            p, copied = _small_copy(caps, scratch, p, b.dtype.name)
            before += copied
        b = _vectors(p.b)[0]
    bits = lane_bits(caps.tuning.matmul.gemv, s)
    held = next(n for n, c in HELD.items() if c.ROWS >= s.rows and (av == 4 or not c.VECTORS))
    own = HELD[held]
    k = split_k(s.depth, splits, ((8 if words else av) if along_k else 1) << bits)
    out, is_partial, after = target(caps, scratch, p, k)
    columns = own.threads * own.COLS * (2 if words and not along_k else 1) >> bits
    return [
        *before,
        gemv.step(
            caps, spread(a, out), spread(b, out), None if is_partial else p.bias,
            None if is_partial else p.residual, out,
            AT=not along_k, AV=av, BV=av if along_k else 1, HELD=held, depth=s.depth,
            split_depth=k.depth, split_batches=s.batches, across=cdiv(s.cols, columns),
            lane_bits=bits, activation=0 if is_partial else p.activation,
            is_partial=int(is_partial),
        ),
        *after,
    ]  # fmt: skip


def _vectors(v: View) -> tuple[View, bool]:
    """A view of f16 as words, and True, if eight halves along the last axis can be read as one
    vector; otherwise the view itself, and False."""
    if v.dtype.itemsize != 2 or not v.vectorizable(8):
        return v, False
    return words(v), True


def _small_copy(
    caps: Caps, scratch: Scratch, p: Product, name: DTypeName
) -> tuple[Product, list[Step]]:
    """The product with b replaced by a contiguous copy."""
    copy = scratch.empty(p.b.shape, name)
    return replace(p, b=copy), cpy.plan(caps, scratch, p.b, copy)


def _tiled(caps: Caps, scratch: Scratch, p: Product, body: str, splits: int) -> list[Step]:
    s, own = p.shape, TILES[body]
    tile = tile_of(body)
    (a, av, at), (b, bv, bt) = (_load(v) for v in (p.a, p.b))
    k = split_k(s.depth, splits, BK)
    out, is_partial, after = target(caps, scratch, p, k)
    step = mul_mat.step(
        caps, spread(a, out), spread(b, out), None if is_partial else p.bias,
        None if is_partial else p.residual, out,
        TILE=tile, AV=av, AT=at, BV=bv, BT=bt,
        DV=4 if tile == "64" and min(av, bv) > 1 and out.vectorizable(4) else 1,
        depth=s.depth, split_depth=k.depth, split_batches=s.batches,
        across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
        activation=0 if is_partial else p.activation, is_partial=int(is_partial),
    )  # fmt: skip
    return [step, *after]


def _gemm_tile(caps: Caps, scratch: Scratch, p: Product, choice: GemmChoice) -> list[Step]:
    """A large product. Its first operand must have k as the axis of rows; in its second operand, k
    may also be the last axis. Other operands are copied; the second operand is copied only if that
    costs little."""
    s, t = p.shape, caps.tuning
    own = t.matmul.gemm_tile
    seconds = 2 * s.batches * s.rows * s.cols * s.depth / own.rate

    def copying(v: View) -> float:
        """The seconds of a copy; inf if no copy can be bound."""
        nbytes = unique(v).size // v.shape[-2] * cdiv(v.shape[-2], 8) * 8 * v.dtype.itemsize
        if nbytes > caps.max_binding:
            return math.inf
        return copy_seconds(nbytes, t.matmul.dispatch, t.device.copy)

    def cost_of_a(v: View) -> float:
        return 0.0 if transposed(v).vectorizable(_first_vector(v)) else copying(v)

    def cost_of_b(v: View) -> float:
        if transposed(v).vectorizable(4):
            return 0.0
        loss = own.k_last[v.dtype.short] if v.vectorizable(4) else own.scalars
        return min(copying(v), loss * seconds)

    def cost(p: Product) -> float:
        return cost_of_a(p.a) + cost_of_b(p.b)

    if p.a.dtype == p.b.dtype and cost(p.swapped()) < cost(p):
        p = p.swapped()
        # here the operands are exchanged, and the tail was counted in rows of the other operand
        if choice.tail.rows:
            choice = choose(caps, p.shape)
    if cost_of_a(p.a) == math.inf:
        return _tiled(caps, scratch, p, "mul_mat/64", choice.splits)
    before: list[Step] = []
    a = transposed(p.a)
    if cost_of_a(p.a) > 0.0:
        a, before = _packed(caps, scratch, p.a)
    if a.dtype.itemsize == 2:
        a, _ = _vectors(a)
    if copying(p.b) <= cost_of_b(p.b):
        copy, copied = _packed(caps, scratch, p.b)
        p = replace(p, b=transposed(copy))
        before += copied
    packed = transposed(p.b).vectorizable(4)

    def step(part: Product, out: View, is_partial: bool, depth: int) -> Step:
        flip = not out.vectorizable(4) and transposed(out).vectorizable(4)
        b = transposed(part.b) if packed else part.b
        return gemm_tile.step(
            caps, spread(a, out), spread(b, out), None if is_partial else part.bias,
            None if is_partial else part.residual, transposed(out) if flip else out,
            AV=4, BV=4 if b.vectorizable(4) else 1, BT=packed,
            DV=4 if flip or out.vectorizable(4) else 1, DT=flip,
            depth=s.depth, split_depth=depth, **_tiling(part, is_partial),
        )  # fmt: skip

    return before + _in_parts(caps, scratch, p, choice, step, flips=True)


def _first_vector(v: View) -> int:
    """The columns in one 16-byte vector of a large product's first operand."""
    return 16 // v.dtype.itemsize


def _gemm_f16acc(caps: Caps, scratch: Scratch, p: Product, choice: GemmChoice) -> list[Step]:
    """The steps of a large product in packed f16. An operand is copied first unless it is f16 and
    has k as the axis of its rows."""
    a, before = _halves(caps, scratch, p.a, 8)
    b, more = _halves(caps, scratch, p.b, 4)
    words, _ = _vectors(a)
    p = replace(p, b=transposed(b))
    blocks = next(n for least, n in BLOCKS if p.shape.depth >= least)

    def step(part: Product, out: View, is_partial: bool, depth: int) -> Step:
        return gemm_f16acc.step(
            caps, spread(words, out), spread(transposed(part.b), out),
            None if is_partial else part.bias, None if is_partial else part.residual, out,
            AV=4, BV=4, DV=4 if out.vectorizable(4) else 1, depth=p.shape.depth, split_depth=depth,
            blocks=blocks, **_tiling(part, is_partial),
        )  # fmt: skip

    return before + more + _in_parts(caps, scratch, p, choice, step, direct=True)


def _tiling(p: Product, is_partial: bool) -> dict[str, int]:
    """Params of the bodies with large tiles."""
    s, own = p.shape, TILES[GEMM]
    return {
        "rows": s.rows, "cols": s.cols, "split_batches": s.batches, "across": cdiv(s.cols, own.BN),
        "down": cdiv(s.rows, own.BM), "activation": 0 if is_partial else p.activation,
        "is_partial": int(is_partial),
    }  # fmt: skip


def _in_parts(
    caps: Caps, scratch: Scratch, p: Product, choice: GemmChoice,
    step: Callable[[Product, View, bool, int], Step], direct: bool = False, flips: bool = False,
) -> list[Step]:  # fmt: skip
    """The steps: the product of whole tiles, then of the tail, then the sums. The tail fills the
    last wave of the whole tiles; it writes to scratch, so it does not wait for them."""
    rows, tile_rows = p.shape.rows, TILES[GEMM].BM
    tail_row = min(max(cdiv(rows, tile_rows) - choice.tail.rows, 0) * tile_rows, rows)
    steps: list[Step] = []
    sums: list[Step] = []
    parts = ((0, tail_row, choice.splits, choice.each), (tail_row, rows, choice.tail.splits, 0))
    for start, end, splits, each in parts:
        if start < end:
            part = rows_of(p, start, end)
            k = split_k(p.shape.depth, splits, BK, each)
            out, is_partial, after = target(caps, scratch, part, k, direct, flips)
            steps.append(step(part, out, is_partial, k.depth))
            sums += after
    return steps + sums


def _gemm_mma(
    caps: Caps, scratch: Scratch, p: Product, choice: GemmChoice, longest: int
) -> list[Step]:
    """A product of halves on matrix units, in slices of at most `longest` k (0: of any length)."""
    assert caps.matrix is not None
    if choice.splits > 1 and levels(p) >= Tiles.LEVELS:  # splits would need one more axis
        parts = by_batch(p, Tiles.LEVELS - 1)
        return [step for part in parts for step in _gemm_mma(caps, scratch, part, choice, longest)]
    tile = tile_of(choice.body)
    s, own = p.shape, MMA_TILES[tile]
    a, b = halves(caps, scratch, p.a), halves(caps, scratch, p.b)
    k = split_k(s.depth, choice.splits, own.BK)
    out, is_partial, after = target(caps, scratch, p, k, direct=True)
    step = gemm_mma.step(
        caps, spread(a.view, out), spread(b.view, out), None if is_partial else p.bias,
        None if is_partial else p.residual, out,
        MMA=caps.matrix.dialect, TILE=tile, AT=a.k_rows, BT=b.k_rows,
        SLICES=0 < longest < k.depth, DV=4 if out.vectorizable(4) else 1, rows=s.rows, cols=s.cols,
        depth=s.depth, split_depth=k.depth, split_batches=s.batches, slice=longest,
        across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
        activation=0 if is_partial else p.activation, is_partial=int(is_partial),
    )  # fmt: skip
    return [*a.steps, *b.steps, step, *after]


def _halves(caps: Caps, scratch: Scratch, v: View, n: int) -> tuple[View, list[Step]]:
    """The operand in f16, with k as the axis of its rows and rows of whole vectors of n elements;
    and the steps that copy it."""
    if v.dtype.name == "float16" and transposed(v).vectorizable(n):
        return transposed(v), []
    if v.dtype.name == "float16" or contiguous_rows(transposed(v)):
        return _packed(caps, scratch, v, "float16")
    half = scratch.empty(unique(v).shape, "float16")
    cast = cpy.plan(caps, scratch, unique(v), half)
    packed, copied = _packed(caps, scratch, half.broadcast_to(v.shape), "float16")
    return packed, cast + copied


def _packed(
    caps: Caps, scratch: Scratch, v: View, name: DTypeName | None = None
) -> tuple[View, list[Step]]:
    """A copy with k as the axis of its rows, in rows of whole vectors; and the steps that make the
    copy."""
    return padded(caps, scratch, transposed(v), 8, name)  # 8: for vectors of halves
