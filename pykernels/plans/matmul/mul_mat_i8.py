"""mul_mat_i8: products of bytes in tiles, vectors or splits of K, by shapes, strides and device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pykernels._generated.bodies import gemm_mma_i8, gemv_i8, mul_mat_i8, splitk_reduce_i8
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.copy.padded import padded
from pykernels.plans.cost import Split, split_k, tile_of
from pykernels.plans.parts import Part, in_levels
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Ints, Tiles, View, merge_axes

from .product import aligned, broadcasts, check, contiguous_rows, runs_along_k, transposed
from .select import GemmShape
from .select_i8 import (
    BYTES,
    GEMV,
    HELD,
    MMA,
    NARROW,
    PACKED,
    ROWS_RUN,
    TILES,
    VECTOR,
    WORDS,
    choose,
    gemv_load,
    in_words,
    lanes,
    tile_load,
)
from .select_mma import TILES_I8
from .sums import spread

__all__ = ["choose", "plan"]

if TYPE_CHECKING:
    # The views of a product by name: a, b, dst, a_scale, b_scale and bias. The last three may be
    # missing; the ones that are given repeat to the shape of dst. All views have the leading axes
    # of dst.
    Views = dict[str, View]


def plan(
    caps: Caps,
    scratch: Scratch,
    a: View,
    b: View,
    a_scale: View | None,
    b_scale: View | None,
    bias: View | None,
    dst: View,
) -> list[Step]:
    """The dispatches of one product."""
    check(a, b, bias, None, dst, "mul_mat_i8")
    for name, v in (("a_scale", a_scale), ("b_scale", b_scale), ("bias", bias)):
        if v is not None and dst.dtype.kind != "f":
            raise DTypeError(
                f"[mul_mat_i8] {name} needs a dst of float32 or float16 but dst is {dst.dtype.name}"
            )
    rows = _repeated("a_scale", a_scale, (*dst.shape[:-2], dst.shape[-1]), dst, -2)
    cols = _repeated("b_scale", b_scale, dst.shape[:-1], dst, -1)
    if dst.size == 0:
        return []
    p = aligned(a, b, rows, cols, dst, 0)
    added = aligned(a, b, bias, None, dst, 0).bias
    given = {
        "a": p.a, "b": p.b, "a_scale": p.bias, "b_scale": p.residual, "bias": added, "dst": p.dst,
    }  # fmt: skip
    views = {name: v for name, v in given.items() if v is not None}
    if contiguous_rows(transposed(p.dst)):
        views = _swapped(views)
    views = _swapped(_folded(_swapped(_folded(views))))

    def steps(views: Views) -> list[Step]:
        parts = in_levels(_whole(views), _axes(views), Tiles.LEVELS)
        return [step for part in parts for step in _steps(caps, scratch, part.views)]

    found = whole(caps, scratch, list(views.values()), lambda: steps(views))
    if found is None:
        found = in_parts(caps, scratch, views, _axes(views), lambda part: steps(part.views))
    return found


def _repeated(name: str, v: View | None, shape: Ints, dst: View, axis: int) -> View | None:
    """A scale as a view with the shape of dst; it repeats along `axis`."""
    if v is None:
        return None
    if not broadcasts(v.shape, shape):
        raise ShapeError(f"[mul_mat_i8] {name} must broadcast to {shape} but has shape {v.shape}")
    full = v.broadcast_to(shape)
    if axis == -1:
        return full.with_layout(dst.shape, (*full.strides, 0))
    return full.with_layout(dst.shape, (*full.strides[:-1], 0, full.strides[-1]))


# -- views ----------------------------------------------------------------------------------------


def _whole(views: Views) -> Part:
    return Part(views, (0,) * views["dst"].ndim)


def _axes(views: Views) -> list[dict[str, int]]:
    """The axes of each view that are cut together: batches, rows of b, and rows of a."""
    lead = views["dst"].ndim - 2
    rows = {name: lead for name in views if name != "a"}
    cols = {name: lead + int(name != "a") for name in views if name != "b"}
    return [*({name: axis for name in views} for axis in range(lead)), rows, cols]


_OTHER = {"a": "b", "b": "a", "a_scale": "b_scale", "b_scale": "a_scale"}


def _swapped(views: Views) -> Views:
    """The same product with the operands exchanged and dst transposed."""
    return {
        _OTHER.get(name, name): v if name in ("a", "b") else transposed(v)
        for name, v in views.items()
    }


def _folded(views: Views) -> Views:
    """If all batches share one matrix a and its scale, their rows become rows of one product."""
    a, dst = views["a"], views["dst"]
    lead = dst.shape[:-2]
    shared = all(n == 1 or step == 0 for n, step in zip(lead, a.strides, strict=False))
    if math.prod(lead) == 1 or not shared:
        return views
    names = [name for name in views if name != "a"]
    dims, steps = merge_axes(dst.shape[:-1], [views[name].strides[:-1] for name in names])
    if len(dims) != 1:
        return views
    found = {"a": a.with_layout(a.shape[-2:], a.strides[-2:])}
    for name, step in zip(names, steps, strict=True):
        v = views[name]
        found[name] = v.with_layout((dims[0], v.shape[-1]), (step[0], v.strides[-1]))
    if "a_scale" in found and found["a_scale"].strides[0]:
        return views
    return found


def _shape(views: Views) -> GemmShape:
    a, dst = views["a"], views["dst"]
    rows, cols = dst.shape[-2:]
    return GemmShape(math.prod(dst.shape[:-2]), rows, cols, a.shape[-1], runs_along_k(a))


# -- steps ----------------------------------------------------------------------------------------


def _steps(caps: Caps, scratch: Scratch, views: Views) -> list[Step]:
    """The steps of one product, for views with at most MAX_BATCH_AXES batch axes."""
    s = _shape(views)
    if s.depth == 0:
        return [_reduce(caps, scratch.empty((1,), "int32"), views, 0)]
    if min(s.rows, s.cols) <= NARROW and s.rows > s.cols:
        views = _swapped(views)
        s = _shape(views)
    body, splits = choose(caps, s, views["a"].dtype.name == "int8")
    splits = min(splits, max(caps.max_binding // (4 * views["dst"].size), 1))
    if len(merge_axes(views["dst"].shape[:-2], _batch_strides(views))[0]) >= Tiles.LEVELS:
        splits = 1  # splits would need one more axis
    if body == GEMV:
        return _gemv(caps, scratch, views, s, splits)
    if body.startswith(MMA):
        return _gemm_mma(caps, scratch, views, s, body, splits)
    return _tiled(caps, scratch, views, s, body, splits)


def _batch_strides(views: Views) -> list[Ints]:
    return [v.strides[:-2] for v in views.values()]


def _gemv(caps: Caps, scratch: Scratch, views: Views, s: GemmShape, splits: int) -> list[Step]:
    """The steps for up to eight rows of one operand; the other operand is read once."""
    load = gemv_load(views["a"])
    a = transposed(views["a"]) if load == ROWS_RUN else views["a"]
    b = views["b"]
    before: list[Step] = []
    if not (b.vectorizable(VECTOR) if load == WORDS else in_words(b)):
        b, before = padded(caps, scratch, b, VECTOR)
    run = load == ROWS_RUN or (load == BYTES and not s.along_k)
    s = s._replace(along_k=not run)
    bits = lanes(caps.tuning, s)
    held = next(name for name, c in HELD.items() if c.ROWS >= s.rows)
    k = split_k(s.depth, splits, max(VECTOR << bits, 4 * VECTOR))
    out, own, after = _target(caps, scratch, views, k)
    step = gemv_i8.step(
        caps, spread(a, out), spread(b, out), own.get("a_scale"), own.get("b_scale"),
        own.get("bias"), out, AV={BYTES: 1, ROWS_RUN: 4, WORDS: VECTOR}[load], HELD=held,
        depth=s.depth, split_depth=k.depth, split_batches=s.batches,
        across=cdiv(s.cols, HELD[held].threads * 4 >> bits),
        lane_bits=bits, rows_run=int(run),
    )  # fmt: skip
    return [*before, step, *after]


def _tiled(
    caps: Caps, scratch: Scratch, views: Views, s: GemmShape, body: str, splits: int
) -> list[Step]:
    own = TILES[body]
    loads: dict[str, str] = {}
    operands: Views = {}
    before: list[Step] = []
    for name in ("a", "b"):
        v = views[name]
        load = tile_load(caps.tuning, s, body, v)
        if load == PACKED:
            v, copied = padded(caps, scratch, v, VECTOR)
            before += copied
            load = WORDS
        operands[name] = transposed(v) if load == ROWS_RUN else v
        loads[name] = load
    k = split_k(s.depth, splits, 4 * own.BK)
    out, given, after = _target(caps, scratch, views, k)
    tile = tile_of(body)
    step = mul_mat_i8.step(
        caps, spread(operands["a"], out), spread(operands["b"], out), given.get("a_scale"),
        given.get("b_scale"), given.get("bias"), out,
        TILE=tile, AV=1 if loads["a"] == BYTES else 4, AT=loads["a"] == ROWS_RUN,
        BV=1 if loads["b"] == BYTES else 4, BT=loads["b"] == ROWS_RUN,
        DV=4 if tile == "64" and out.vectorizable(4) else 1,
        depth=s.depth, split_depth=k.depth, split_batches=s.batches,
        across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
    )  # fmt: skip
    return [*before, step, *after]


def _gemm_mma(
    caps: Caps, scratch: Scratch, views: Views, s: GemmShape, body: str, splits: int
) -> list[Step]:
    """The steps of the product on matrix units; both operands are read in 16-byte units along k."""
    assert caps.matrix is not None
    before: list[Step] = []
    operands: Views = {}
    for name in ("a", "b"):
        v = views[name]
        if not v.vectorizable(VECTOR):
            v, copied = padded(caps, scratch, v, VECTOR)
            before += copied
        operands[name] = v
    tile = tile_of(body)
    own = TILES_I8[tile]
    k = split_k(s.depth, splits, own.BK)
    out, given, after = _target(caps, scratch, views, k)
    step = gemm_mma_i8.step(
        caps, spread(operands["a"], out), spread(operands["b"], out), given.get("a_scale"),
        given.get("b_scale"), given.get("bias"), out,
        MMA=caps.matrix.dialect, TILE=tile, DV=4 if out.vectorizable(4) else 1,
        depth=s.depth, split_depth=k.depth, split_batches=s.batches,
        across=cdiv(s.cols, own.BN), down=cdiv(s.rows, own.BM),
    )  # fmt: skip
    return [*before, step, *after]


def _target(caps: Caps, scratch: Scratch, views: Views, k: Split) -> tuple[View, Views, list[Step]]:
    """The destination of the sums and their epilogue: dst, or scratch with the step that adds the
    splits and finishes them."""
    if k.splits == 1:
        return views["dst"], views, []
    partials = scratch.empty((k.splits, *views["dst"].shape), "int32")
    return partials, {}, [_reduce(caps, partials, views, k.splits)]


def _reduce(caps: Caps, partials: View, views: Views, splits: int) -> Step:
    return splitk_reduce_i8.step(
        caps, partials, views.get("a_scale"), views.get("b_scale"), views.get("bias"),
        views["dst"], splits=splits,
    )  # fmt: skip
