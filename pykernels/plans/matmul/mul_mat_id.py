"""mul_mat_id: products of rows with the weights of the expert that each row names."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pykernels._generated.bodies import expert_tiles, gemm_id, gemm_id_float
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, LimitError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.mma import words
from pykernels.plans.parts import fits_binding, narrow
from pykernels.plans.quant.planes import read
from pykernels.plans.quant.types import BlockType, type_of
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.wgsl.watch import Watch

__all__ = ["plan"]

_OP = "mul_mat_id"
_TILE = gemm_id.CONFIGS["16x64"]
MOST = expert_tiles.CONFIGS["one"].EXPERTS
MOST_ROWS = 1 << 23  # rows that one workgroup counts: 32,768 rounds
UNIT = 16  # k that the product of floats processes at a time


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


def plan(
    caps: Caps, scratch: Scratch, ids: View, b: View, w: View | None, low: View | None,
    scales: View | None, high: View | None, dst: View, quant: str | None = None,
) -> list[Step]:  # fmt: skip
    """The order of the rows and the product, for each piece of the experts that bindings hold."""
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
    steps, experts = _experts(caps, scratch, w, low, scales, high, quant, dst, b)
    if dst.size == 0:
        return steps
    if experts.count > MOST or ids.size > MOST_ROWS:
        raise LimitError(f"[{_OP}] more than {MOST} experts or {MOST_ROWS} rows")
    flat_ids = _flat(caps, scratch, ids, 2, 1, steps)
    rows = _flat(caps, scratch, b, 2, 16 // b.dtype.itemsize, steps)
    if rows.dtype.itemsize == 2:
        rows = words(rows)
    direct = dst.dtype.itemsize == 4 or b.dtype.itemsize == 2  # no texts for f16 from f32
    out = _merged(dst, 2) if direct else None
    if out is None:  # rows with experts out of range must keep their values
        own = scratch.empty(dst.shape, dst.dtype.name if direct else "float32")
        steps += cpy.plan(caps, scratch, dst, own)
        out = _merged(own, 2)
        assert out is not None
        steps += _products(caps, scratch, experts, flat_ids, rows, out, ids.shape, b.shape[1])
        return steps + cpy.plan(caps, scratch, own, dst)
    return steps + _products(caps, scratch, experts, flat_ids, rows, out, ids.shape, b.shape[1])


def _experts(
    caps: Caps, scratch: Scratch, w: View | None, low: View | None, scales: View | None,
    high: View | None, quant: str | None, dst: View, b: View,
) -> tuple[list[Step], Experts]:  # fmt: skip
    """The steps that copy weights if necessary, and the weights as bodies bind them."""
    m, k = dst.shape[-1], b.shape[-1]
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


def _products(
    caps: Caps, scratch: Scratch, experts: Experts, ids: View, rows: View, dst: View,
    shape: tuple[int, ...], slots: int,
) -> list[Step]:  # fmt: skip
    """For each piece of the experts, the step that orders its rows, then the product."""
    count, found, first = ids.shape[0], [], 0
    piece = _held(caps, experts)
    across = cdiv(dst.shape[1], _TILE.BN)
    while first < experts.count:
        some = experts.some(first, min(piece, experts.count - first))
        tiles = cdiv(count, _TILE.BM) + min(some.count, count)
        order = scratch.empty((count,), "uint32")
        table = scratch.empty((tiles, 4), "uint32")
        table = table.with_layout((tiles,), (16,))
        watch = Watch("ids", experts.count, shape, shape) if first == 0 else None
        found.append(
            expert_tiles.step(
                caps, ids, order, table, rows=count, tiles_n=tiles, tile_rows=_TILE.BM,
                experts=some.count, first_expert=first, limit=experts.count, watch=watch,
            )
        )  # fmt: skip
        sizes = {
            "cols": dst.shape[1], "depth": rows.shape[1] * (4 // _bytes(rows)), "across": across,
            "sharing": shape[1] if slots == 1 else 1,
        }  # fmt: skip
        if some.kind is None:
            (w,) = some.views
            found.append(gemm_id_float.step(caps, table, order, rows, w, dst, **sizes))
        else:
            low, scales, *above = some.views
            found.append(
                gemm_id.step(
                    caps, table, order, rows, low, scales, above[0] if above else None, dst,
                    TYPE=some.kind.name, LV=some.kind.vec, **sizes,
                )
            )  # fmt: skip
        first += some.count
    return found


def _bytes(rows: View) -> int:
    """The bytes of an element of b: 2 if `rows` are words of two halves."""
    return 4 if rows.dtype is DTYPES["float32"] else 2


def _held(caps: Caps, experts: Experts) -> int:
    """The number of experts whose weights bindings can hold."""
    count = experts.count
    while not all(fits_binding(caps, v) for v in experts.some(0, count).views):
        if count == 1:
            raise LimitError(f"[{_OP}] the weights of one expert are larger than a binding")
        count = cdiv(count, 2)
    return count
