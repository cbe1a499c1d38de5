"""Code that the plans of set_rows and get_rows share: an index picks the rows of one side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.move.last_index import table_of
from pykernels.plans.parts import fits_binding, in_levels, parts
from pykernels.plans.runs import KINDS, lane_bits, runs
from pykernels.steps import Caps, cdiv
from pykernels.tensors.layout import Ints, Rows, View
from pykernels.wgsl.watch import Watch

__all__ = ["Move", "Share", "check", "move", "shares", "spread"]

FLOATS = ("float32", "float16", "bfloat16")


class Move(NamedTuple):
    """A move of rows: the axes and params of the step."""

    S: int
    D: int
    V: int
    CAST: bool
    PAIR: bool
    lane_bits: int
    tiles: int
    src_kind: int
    dst_kind: int


def check(op: str, src: View, index: View, dst: View, rows: Ints) -> None:
    """Check the rules of both kernels: an index that repeats to `rows`, and rows of one length."""
    if index.shape[-1:] != rows[-1:] or not repeats(index.shape, rows):
        raise ShapeError(
            f"[{op}] index must have shape {rows}, or sizes that divide it on leading axes, but "
            f"has shape {index.shape}"
        )
    if src.shape[-1] != dst.shape[-1]:
        raise ShapeError(
            f"[{op}] src and dst must agree in their last axis but have shapes {src.shape} and "
            f"{dst.shape}"
        )
    if src.dtype != dst.dtype and not {src.dtype.name, dst.dtype.name} <= set(FLOATS):
        raise DTypeError(
            f"[{op}] dst must have the dtype of src, {src.dtype.name}, or both be of "
            f"{', '.join(FLOATS)}, but is {dst.dtype.name}"
        )


def repeats(shape: Ints, target: Ints) -> bool:
    """True if a shape repeats to the target by ggml's rule: each axis divides the target's axis,
    and missing axes count as 1."""
    own = (1,) * (len(target) - len(shape)) + shape
    return len(own) == len(target) and all(
        n == m or (n > 0 and m % n == 0) for n, m in zip(own, target, strict=True)
    )


def spread(op: str, lead: Ints, views: Sequence[View], tails: Sequence[int]) -> list[View]:
    """The views with the same leading axes; an axis is cut if a view repeats along a part of it.

    `tails` holds for each view the number of axes after the leading axes.
    """
    ranked = [v.as_rank(len(lead) + t) for v, t in zip(views, tails, strict=True)]
    cuts = [sorted({v.shape[axis] for v in ranked} | {n, 1}) for axis, n in enumerate(lead)]
    for sizes in cuts:
        if any(b % a for a, b in pairwise(sizes)):
            raise ShapeError(
                f"[{op}] sizes that repeat to one leading axis must divide each other but are "
                f"{sizes[1:-1]}"
            )
    out = []
    for v, tail in zip(ranked, tails, strict=True):
        shape: list[int] = []
        strides: list[int] = []
        for axis, sizes in enumerate(cuts):
            for inner, outer in reversed(list(pairwise(sizes))):
                shape.append(outer // inner)
                strides.append(v.strides[axis] * inner if inner < v.shape[axis] else 0)
        out.append(v.with_layout((*shape, *v.shape[-tail:]), (*strides, *v.strides[-tail:])))
    return out


@dataclass(frozen=True, slots=True)
class Share:
    """The views of one step, with the picked side from row `first_row` on, and the step's report of
    faults."""

    src: View
    index: View
    dst: View
    first_row: int
    watch: Watch | None


def shares(
    caps: Caps, src: View, index: View, dst: View, picked: str, watch: Watch | None,
    table: bool = False,
) -> list[Share]:  # fmt: skip
    """The steps for views that `spread` made: a single step if each view fits one binding.

    Otherwise rows, columns, leading axes and the rows that the index picks are cut. Only steps with
    the first picked rows and the first columns report indices out of range, so each index is
    reported once. `table`: each part needs a hash table of its indices.
    """
    views = {"src": src, "index": index, "dst": dst}
    if table and not fits_binding(caps, table_of(index)):
        views["table"] = table_of(index)
    if all(fits_binding(caps, v) for v in views.values()) and index.ndim <= Rows.LEVELS:
        return [Share(src, index, dst, 0, watch)]
    lead = index.ndim - 1
    rows = [{"src": axis, "index": axis, "dst": axis} for axis in range(lead)]
    rows.append({"index": lead, "dst" if picked == "src" else "src": lead})
    if "table" in views:
        rows = [{**axis, "table": axis["index"]} for axis in rows]
    axes = [*rows, {"src": lead + 1, "dst": lead + 1}, {picked: lead}]
    found = [
        part for each in parts(caps, views, axes) for part in in_levels(each, rows, Rows.LEVELS)
    ]
    out = []
    number = 0
    for part in found:
        *first, column, row = part.first
        own = None
        if watch is not None and column == row == 0:
            own = watch
            if len(found) > 1:
                own = watch.part(number, tuple(first), part.views["index"].shape, index.shape)
            number += 1
        out.append(Share(part.views["src"], part.views["index"], part.views["dst"], row, own))
    return out


def move(src: View, dst: View, cols: int, threads: int) -> tuple[View, View, Move]:
    """Both sides in the widest possible elements, and the number of lanes that share a row.

    An invocation moves `cols` elements or vectors, and a workgroup has `threads` invocations.
    """
    kinds = KINDS[src.dtype.name], KINDS[dst.dtype.name]
    cast = src.dtype != dst.dtype
    vec = 4 if cast and all(v.padded and v.vectorizable(4) for v in (src, dst)) else 1
    if not cast:
        src, dst = runs(src, dst)
    sizes = src.dtype.itemsize, dst.dtype.itemsize
    pair = sizes[1] * vec == dst.strides[-1] == 2
    width = dst.shape[-1] // 2 + 1 if pair else dst.shape[-1] // vec
    bits = lane_bits(cdiv(width, cols), threads)
    return src, dst, Move(*sizes, vec, cast, pair, bits, cdiv(width, cols << bits), *kinds)
