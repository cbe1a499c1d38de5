"""mul_mat_id: products of rows with the weights of the expert that each row names."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from pykernels._generated.bodies import (
    expert_tiles,
    gemm_id,
    gemm_id_float,
    gemv_id,
    gemv_id_quant,
    gemv_id_quant_half,
)
from pykernels._generated.ops import ACTIVATIONS
from pykernels.errors import ArgumentError, LimitError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.mma import words
from pykernels.plans.parts import fits_binding, narrow
from pykernels.plans.quant.planes import read
from pykernels.plans.quant.types import BlockType, type_of
from pykernels.steps import Candidate, Caps, Scratch, Step, cdiv, forced
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.wgsl.watch import Watch

from .product import broadcasts
from .select import GemmShape, lane_bits
from .select_quant import column_bits

__all__ = ["IdChoice", "IdShape", "candidates", "choose", "plan"]

_OP = "mul_mat_id"
ROWS, TILES = "rows", "tiles"
_TILE = gemm_id.CONFIGS["16x64"]
_GEMV = gemv_id.CONFIGS["lanes"]
MOST = expert_tiles.CONFIGS["one"].EXPERTS
MOST_ROWS = 1 << 23  # rows that one workgroup counts: 32,768 rounds
UNIT = 16  # the number of k that the product of floats processes at a time
# Up to this number of rows, the body is ROWS, however few experts there are.
FEW = 8


class IdShape(NamedTuple):
    """The facts that a choice depends on."""

    rows: int
    experts: int
    residual: bool = False


class IdChoice(NamedTuple):
    """`body` is "rows": one dispatch, which multiplies each row by the weights of its expert; or
    "tiles": rows are sorted by expert, and a tile multiplies 16 rows of one expert."""

    body: str


def choose(caps: Caps, s: IdShape) -> IdChoice:
    """The body for one call. ROWS reads an expert's weights once for each row of the expert. If
    there are half as many rows as experts, and experts are chosen uniformly, it reads a quarter
    more than it would if it read each expert in use once."""
    found = forced(caps, IdChoice, s)
    if found is not None:
        return found
    few = s.rows <= max(FEW, s.experts // 2) and not s.residual
    return IdChoice(ROWS if few else TILES)


def candidates(caps: Caps, s: IdShape) -> list[Candidate]:
    """Both bodies, with the reason why one is excluded, if it is."""
    why = "a residual, which the bodies for rows do not bind" if s.residual else ""
    return [Candidate(IdChoice(ROWS), None, why), Candidate(IdChoice(TILES))]


@dataclass(frozen=True)
class Experts:
    """Weights of some experts: planes of quantised numbers, or floats (experts, M, K)."""

    views: tuple[View, ...]  # the experts are the first axis of each
    kind: BlockType | None

    @property
    def count(self) -> int:
        """The number of experts."""
        return self.views[0].shape[0]

    def some(self, first: int, count: int) -> Experts:
        """`count` of the experts, from `first` on."""
        return Experts(tuple([narrow(v, 0, first, count) for v in self.views]), self.kind)


@dataclass(frozen=True)
class Rows:
    """The tensors and options of a call; in the tensors, tokens (T) and the slots of a token (S)
    are one axis, the rows."""

    ids: View
    b: View  # (rows, K), or (rows / sharing, K), in vectors of floats or of words of two halves
    bias: View | None
    residual: View | None
    dst: View
    shape: tuple[int, int]  # T, S
    sharing: int  # rows that share a row of b
    depth: int
    gated: bool
    activation: int
    first: int = 0  # the first token, if this is a part of a call
    part: int | None = None  # the number of this part

    @property
    def cols(self) -> int:
        """The columns of the product: rows of the weights."""
        return self.dst.shape[1] * (2 if self.gated else 1)


def plan(
    caps: Caps, scratch: Scratch, ids: View, b: View, w: View | None, low: View | None,
    scales: View | None, high: View | None, bias: View | None, residual: View | None, dst: View,
    quant: str | None = None, activation: str | None = None, gated: bool = False,
) -> list[Step]:  # fmt: skip
    """Copies of operands that cannot be read as they are; then the product, for each piece of the
    experts that bindings hold."""
    _check(ids, b, residual, dst, activation, gated)
    m = dst.shape[2] * (2 if gated else 1)
    steps, experts = _experts(caps, scratch, w, low, scales, high, quant, m, b)
    if bias is not None:
        if not broadcasts(bias.shape, (experts.count, m)):
            raise ShapeError(
                f"[{_OP}] bias must broadcast to {(experts.count, m)} but has shape {bias.shape}"
            )
        bias = bias.broadcast_to((experts.count, m))
    if dst.size == 0:
        return steps
    if experts.count > MOST or ids.size > MOST_ROWS:
        raise LimitError(f"[{_OP}] more than {MOST} experts or {MOST_ROWS} rows")
    if not experts.count:
        raise ShapeError(f"[{_OP}] there are {ids.size} rows, but no experts")
    choice = choose(caps, IdShape(ids.size, experts.count, residual is not None))
    if choice.body == ROWS and residual is not None:  # a forced choice
        raise ArgumentError(f"[{_OP}] the bodies for rows do not bind a residual")
    flat = _flat(caps, scratch, b, 2, 16 // b.dtype.itemsize, steps)
    packed = choice.body == ROWS and experts.kind is not None and experts.kind.halves and caps.f16
    if flat.dtype.itemsize == 2 and not packed:
        flat = words(flat)
    if residual is not None:
        residual = _flat(caps, scratch, residual.broadcast_to(dst.shape), 2, 1, steps)
    tokens, slots = ids.shape
    rows = Rows(
        _flat(caps, scratch, ids, 2, 1, steps), flat, bias, residual, dst, (tokens, slots),
        slots if b.shape[1] == 1 else 1, b.shape[2], gated, ACTIVATIONS[activation],
    )  # fmt: skip
    make = _by_rows if choice.body == ROWS else _by_tiles

    def products(dst: View) -> list[Step]:
        whole = replace(rows, dst=dst)
        return [s for part in _parts(caps, whole) for s in make(caps, scratch, experts, part)]

    direct = dst.dtype.itemsize == 4 or b.dtype.itemsize == 2  # no text has b in f32, dst in f16
    out = _merged(dst, 2) if direct else None
    if out is not None:
        return steps + products(out)
    # Rows with experts out of range must keep their values.
    own = scratch.empty(dst.shape, dst.dtype.name if direct else "float32")
    steps += cpy.plan(caps, scratch, dst, own)
    out = _merged(own, 2)
    assert out is not None
    return [*steps, *products(out), *cpy.plan(caps, scratch, own, dst)]


def _check(
    ids: View, b: View, residual: View | None, dst: View, activation: str | None, gated: bool
) -> None:
    """Errors for options, and for shapes of all tensors but weights and bias."""
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[{_OP}] activation must be one of {names} but is {activation!r}")
    if gated and residual is not None:
        raise ArgumentError(f"[{_OP}] a gated product takes no residual")
    if ids.ndim != 2 or b.ndim != 3 or dst.ndim != 3:
        raise ShapeError(
            f"[{_OP}] ids, b and dst must have 2, 3 and 3 axes but have {ids.ndim}, {b.ndim} "
            f"and {dst.ndim}"
        )
    if dst.shape[:2] != ids.shape or b.shape[0] != ids.shape[0] or b.shape[1] not in (
        1, ids.shape[1]
    ):  # fmt: skip
        raise ShapeError(
            f"[{_OP}] ids (t, s), b (t, s or 1, k) and dst (t, s, m) do not fit: they have shapes "
            f"{ids.shape}, {b.shape} and {dst.shape}"
        )
    if residual is not None and not broadcasts(residual.shape, dst.shape):
        raise ShapeError(
            f"[{_OP}] residual must broadcast to {dst.shape} but has shape {residual.shape}"
        )


def _experts(
    caps: Caps, scratch: Scratch, w: View | None, low: View | None, scales: View | None,
    high: View | None, quant: str | None, m: int, b: View,
) -> tuple[list[Step], Experts]:  # fmt: skip
    """The steps that copy weights if necessary, and the weights as bodies bind them."""
    k = b.shape[-1]
    if quant is not None:
        if w is not None or low is None or scales is None:
            raise ArgumentError(f"[{_OP}] quantised weights are low, scales and high, not w")
        kind = type_of(_OP, quant)
        count = low.shape[0] if low.ndim else 0
        steps, *planes = read(_OP, caps, scratch, kind, (count, m, k), low, scales, high)
        return steps, Experts(tuple([v for v in planes if v is not None]), kind)
    if w is None or low is not None or scales is not None or high is not None:
        raise ArgumentError(f"[{_OP}] weights of floats are w alone; planes need quant")
    if w.ndim != 3 or w.shape[1:] != (m, k):
        raise ShapeError(f"[{_OP}] w must be (experts, {m}, {k}) but has shape {w.shape}")
    if k % UNIT:
        raise ShapeError(f"[{_OP}] k must be a multiple of {UNIT} but is {k}")
    steps = []
    if not w.vectorizable(16 // w.dtype.itemsize):
        copy = scratch.empty(w.shape, w.dtype.name)
        steps, w = cpy.plan(caps, scratch, w, copy), copy
    return steps, Experts((words(w) if w.dtype.itemsize == 2 else w,), None)


def _merged(view: View, axes: int) -> View | None:
    """The view with its first axes merged; None if their strides do not allow it."""
    lead, step = view.shape[:axes], view.strides[axes - 1]
    if lead[-1] == 1 and axes > 1:
        step = view.strides[axes - 2]
    wanted = contiguous_strides(lead, 1)
    fits = all(
        [n == 1 or s == e * step for n, s, e in zip(lead, view.strides, wanted, strict=False)]
    )
    count = math.prod(lead)
    if not fits:
        return None
    return view.with_layout((count, *view.shape[axes:]), (step, *view.strides[axes:]))


def _flat(caps: Caps, scratch: Scratch, view: View, axes: int, vec: int, steps: list[Step]) -> View:
    """An input with its first axes merged, in vectors along the last axis; copied if necessary."""
    found = _merged(view, axes)
    if found is None or (vec > 1 and not found.vectorizable(vec)):
        copy = scratch.empty(view.shape, view.dtype.name)
        steps += cpy.plan(caps, scratch, view, copy)
        found = _merged(copy, axes)
        assert found is not None
    return found


def _by_rows(caps: Caps, scratch: Scratch, experts: Experts, rows: Rows) -> list[Step]:
    """For each piece of the experts, one step; in it, rows of other experts do nothing."""
    cols, kind, count = rows.cols, experts.kind, rows.ids.shape[0]
    if kind is None:
        bits = lane_bits(caps.tuning.matmul.gemv, GemmShape(count, 1, cols, rows.depth))
        across = cdiv(cols, _GEMV.COLS * (_GEMV.threads >> bits))
    else:
        bits = column_bits(caps, cols, kind.rounds(rows.depth), count)
        across = cdiv(cols, 1 << bits)
    steps = []
    for first, some in _pieces(caps, experts):
        numbers = {
            "rows": cols, "depth": rows.depth, "across": across, "sharing": rows.sharing,
            "first_expert": first, "experts": some.count, "limit": experts.count,
            "gated": cols // 2 if rows.gated else 0, "activation": rows.activation,
        }  # fmt: skip
        watch = _watch(rows, experts, first)
        if kind is None:
            (w,) = some.views
            step = gemv_id.step(
                caps, w, rows.b, rows.ids, rows.bias, rows.dst, lane_bits=bits, watch=watch,
                **numbers,
            )  # fmt: skip
            steps.append(step)
            continue
        low, scales, *above = some.views
        planes = low, scales, above[0] if above else None
        if rows.b.dtype.name == "float16":
            step = gemv_id_quant_half.step(
                caps, *planes, rows.b, rows.ids, rows.bias, rows.dst, TYPE=kind.name,
                col_bits=bits, watch=watch, **numbers,  # type: ignore[arg-type]
            )  # fmt: skip
        else:
            step = gemv_id_quant.step(
                caps, *planes, rows.b, rows.ids, rows.bias, rows.dst, TYPE=kind.name, LV=kind.vec,
                col_bits=bits, watch=watch, **numbers,  # type: ignore[arg-type]
            )  # fmt: skip
        steps.append(step)
    return steps


def _by_tiles(caps: Caps, scratch: Scratch, experts: Experts, rows: Rows) -> list[Step]:
    """For each piece of the experts, the step that sorts its rows, then the product."""
    cols, count, steps = rows.cols, rows.ids.shape[0], []
    for first, some in _pieces(caps, experts):
        tiles = cdiv(count, _TILE.BM) + min(some.count, count)
        table = scratch.empty((4 * tiles + count,), "uint32")
        steps.append(
            expert_tiles.step(
                caps, rows.ids, table, rows=count, tiles_n=tiles, tile_rows=_TILE.BM,
                experts=some.count, first_expert=first, limit=experts.count,
                watch=_watch(rows, experts, first),
            )
        )  # fmt: skip
        numbers = {
            "cols": cols, "depth": rows.depth, "across": cdiv(cols, _TILE.BN),
            "sharing": rows.sharing, "tiles_n": tiles, "first_expert": first,
            "gated": cols // 2 if rows.gated else 0, "activation": rows.activation,
        }  # fmt: skip
        added = rows.bias, rows.residual
        if some.kind is None:
            (w,) = some.views
            step = gemm_id_float.step(
                caps, table, rows.b, *added, w, rows.dst,
                **numbers,  # type: ignore[arg-type]
            )  # fmt: skip
        else:
            low, scales, *above = some.views
            step = gemm_id.step(
                caps, table, rows.b, *added, low, scales, above[0] if above else None, rows.dst,
                TYPE=some.kind.name, LV=some.kind.vec, **numbers,  # type: ignore[arg-type]
            )  # fmt: skip
        steps.append(step)
    return steps


def _watch(rows: Rows, experts: Experts, first: int) -> Watch | None:
    """The report of the first piece; other pieces see the same experts, so they have no report."""
    if first:
        return None
    watch: Watch | None = Watch("ids", experts.count, rows.shape, rows.shape)
    if watch is None or rows.part is None:  # an exported plan has no watch
        return watch
    slots = rows.shape[1]
    sizes = rows.ids.shape[0] // slots, slots
    return watch.part(rows.part, (rows.first, 0), sizes, rows.shape)


def _parts(caps: Caps, rows: Rows) -> list[Rows]:
    """The call in parts, each with some of the tokens; bindings can hold the tensors of a part."""
    tokens, slots = rows.shape
    count = tokens

    def some(first: int, number: int) -> Rows:
        at, n = first * slots, number * slots

        def own(view: View) -> View:
            return narrow(view, 0, at, n)

        each = rows.sharing
        return replace(
            rows, ids=own(rows.ids), b=narrow(rows.b, 0, at // each, n // each), dst=own(rows.dst),
            residual=rows.residual and own(rows.residual), first=first,
        )  # fmt: skip

    def fits(part: Rows) -> bool:
        views = part.ids, part.b, part.dst, part.residual
        return all([v is None or fits_binding(caps, v) for v in views])

    while not fits(some(0, count)):
        if count == 1:
            raise LimitError(f"[{_OP}] the rows of one token are larger than a binding")
        count = cdiv(count, 2)
    if count == tokens:
        return [rows]
    return [
        replace(some(first, min(count, tokens - first)), part=i)
        for i, first in enumerate(range(0, tokens, count))
    ]


def _pieces(caps: Caps, experts: Experts) -> list[tuple[int, Experts]]:
    """The experts in pieces whose weights bindings can hold, each with the number of its first
    expert."""
    count = experts.count
    while not all(fits_binding(caps, v) for v in experts.some(0, count).views):
        if count == 1:
            raise LimitError(f"[{_OP}] the weights of one expert are larger than a binding")
        count = cdiv(count, 2)
    return [
        (first, experts.some(first, min(count, experts.count - first)))
        for first in range(0, experts.count, count)
    ]
