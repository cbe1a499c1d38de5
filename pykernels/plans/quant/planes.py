"""Views of the planes of quantised weights, as bodies bind them, and calls in parts."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import NamedTuple

from pykernels.errors import LimitError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import MAX_PARTS, fits_binding, narrow
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View, contiguous_strides

from .types import ROWS, BlockType, planes

__all__ = [
    "Piece", "bound", "changed", "has_fours", "in_fours", "matrices", "pieces", "read", "written",
]  # fmt: skip


def bound(
    op: str, kind: BlockType, shape: tuple[int, ...], low: View, scales: View, high: View | None
) -> tuple[View, View, View | None]:
    """Check the planes of a tensor of this shape, and return them; in the `low` that is returned, a
    vector is one element of the last axis. The planes must be contiguous, and `low` must begin with
    a whole vector: `read` and `written` make such planes."""
    _check(op, kind, shape, low, scales, high)
    for name, view in (("low", low), ("scales", scales), ("high", high)):
        if view is not None and not _is_plain(kind, view, name == "low"):
            raise ShapeError(
                f"[{op}] {name} must be contiguous, and begin at a multiple of {4 * kind.vec} bytes"
            )
    return low.with_layout(low.shape[:-1], low.strides[:-1]), scales, high


def read(
    op: str, caps: Caps, scratch: Scratch, kind: BlockType, shape: tuple[int, ...], low: View,
    scales: View, high: View | None,
) -> tuple[list[Step], View, View, View | None]:  # fmt: skip
    """Planes in the form of `bound`, from views of any layout, with the steps that copy a view if
    necessary."""
    _check(op, kind, shape, low, scales, high)
    pairs, own = _own(scratch, kind, low, scales, high)
    steps = [s for view, copy in pairs for s in cpy.plan(caps, scratch, view, copy)]
    return steps, *bound(op, kind, shape, *own)


def written(
    op: str, caps: Caps, scratch: Scratch, kind: BlockType, shape: tuple[int, ...], low: View,
    scales: View, high: View | None,
) -> tuple[list[Step], View, View, View | None]:  # fmt: skip
    """Like `read`, for planes that a plan writes; the copies follow the plan's own steps."""
    _check(op, kind, shape, low, scales, high)
    pairs, own = _own(scratch, kind, low, scales, high)
    steps = [s for view, copy in pairs for s in cpy.plan(caps, scratch, copy, view)]
    return steps, *bound(op, kind, shape, *own)


def changed(
    op: str, caps: Caps, scratch: Scratch, kind: BlockType, shape: tuple[int, ...], low: View,
    scales: View, high: View | None,
) -> tuple[list[Step], list[Step], View, View, View | None]:  # fmt: skip
    """Like `read`, for planes in which a plan writes some rows: there are copies before and after
    the plan's own steps."""
    _check(op, kind, shape, low, scales, high)
    pairs, own = _own(scratch, kind, low, scales, high)
    before = [s for view, copy in pairs for s in cpy.plan(caps, scratch, view, copy)]
    after = [s for view, copy in pairs for s in cpy.plan(caps, scratch, copy, view)]
    return before, after, *bound(op, kind, shape, *own)


def _own(
    scratch: Scratch, kind: BlockType, low: View, scales: View, high: View | None
) -> tuple[list[tuple[View, View]], tuple[View, View, View | None]]:
    """The pairs of views and their temporaries, and the planes with the temporaries in place of the
    views."""
    pairs: list[tuple[View, View]] = []

    def plain(view: View, is_low: bool) -> View:
        if _is_plain(kind, view, is_low):
            return view
        copy = scratch.empty(view.shape, "uint32")
        pairs.append((view, copy))
        return copy

    above = None if high is None else plain(high, False)
    return pairs, (plain(low, True), plain(scales, False), above)


def _is_plain(kind: BlockType, view: View, is_low: bool) -> bool:
    unit = 4 * kind.vec if is_low else 4
    return view.size == 0 or (view.contiguous and view.offset % unit == 0)


def _check(
    op: str, kind: BlockType, shape: tuple[int, ...], low: View, scales: View, high: View | None
) -> None:
    wanted = planes(op, kind, shape)
    given = {"low": low, "scales": scales, "high": high}
    for (name, view), want in zip(given.items(), wanted, strict=True):
        if (None if view is None else view.shape) != want:
            raise ShapeError(
                f"[{op}] {name} of {kind.name} {shape} must have shape {want} but has "
                f"{None if view is None else view.shape}"
            )


def in_fours(view: View) -> tuple[View, int]:
    """The view with vectors of four elements along its last axis, and 4; the view itself
    and 1 if that is not possible."""
    if not has_fours(view):
        return view, 1
    size = 4 * view.dtype.itemsize
    return view.with_layout((*view.shape[:-1], view.shape[-1] // 4), (*view.strides[:-1], size)), 4


def has_fours(view: View) -> bool:
    """True if all rows of the view consist of vectors of four elements."""
    return view.padded and view.vectorizable(4)


def matrices(view: View) -> list[View]:
    """A view (..., n, k) as one view with three axes, or as several views (1, n, k)."""
    lead = view.shape[:-2]
    merged = view.ndim == 3 or view.strides[:-2] == tuple(
        [s * view.strides[-3] for s in contiguous_strides(lead, 1)] if lead else []
    )
    if merged:
        count = math.prod(lead)
        step = view.strides[-3] if lead else 0
        return [view.with_layout((count, *view.shape[-2:]), (step, *view.strides[-2:]))]
    found = []
    for place in itertools.product(*[range(n) for n in lead]):
        at = sum([i * s for i, s in zip(place, view.strides[:-2], strict=True)])
        one = view.with_layout((1, *view.shape[-2:]), (0, *view.strides[-2:]))
        found.append(replace(one, offset=view.offset + at))
    return found


class Piece(NamedTuple):
    """The views of a part: planes of some batches and groups, and the other tensor that is read
    or written, in rows from `first_row` on."""

    low: View
    scales: View
    high: View | None
    other: View
    first_row: int


def pieces(
    caps: Caps, kind: BlockType, low: View, scales: View, high: View | None, others: list[View],
    width: int,
) -> list[Piece]:  # fmt: skip
    """The parts of a call on planes and on views (batches, rows, `width` elements for each block);
    bindings hold each part."""
    found: list[Piece] = []
    first = 0
    for other in others:
        size = other.shape[0]
        whole = Piece(
            narrow(low, 0, first, size), narrow(scales, 0, first, size),
            None if high is None else narrow(high, 0, first, size), other, 0,
        )  # fmt: skip
        _halve(caps, kind, whole, width, found)
        first += size
    return found


def _halve(caps: Caps, kind: BlockType, piece: Piece, width: int, found: list[Piece]) -> None:
    batches, rows, _ = piece.other.shape
    own = [v for v in piece[:3] if v is not None]
    fits = all([fits_binding(caps, v) for v in own])
    if fits and fits_binding(caps, piece.other):
        found.append(piece)
        if len(found) > MAX_PARTS:
            raise LimitError(f"the call needs more than {MAX_PARTS} parts")
        return
    blocks = piece.scales.shape[1]
    if batches > 1:
        cuts = [_of_batches(piece, at, n) for at, n in _sides(batches, 1)]
    elif fits and rows > ROWS:  # rows are strided, so fewer rows need a smaller window
        cuts = [_of_rows(piece, at, n) for at, n in _sides(rows, 64 if rows > 64 else ROWS)]
    elif blocks > 1:
        cuts = [_of_blocks(kind, piece, width, at, n) for at, n in _sides(blocks, 1)]
    else:
        raise LimitError(
            f"one block of {piece.low.shape[-1]} rows is larger than one binding of this device, "
            f"{caps.max_binding} bytes"
        )
    for each in cuts:
        _halve(caps, kind, each, width, found)


def _sides(n: int, unit: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The first index and the size of both halves; the size of the first half is a multiple of
    `unit`."""
    half = max(n // 2 // unit, 1) * unit
    return (0, half), (half, n - half)


def _of_batches(piece: Piece, at: int, n: int) -> Piece:
    low, scales, high, other, first = piece
    above = None if high is None else narrow(high, 0, at, n)
    return Piece(
        narrow(low, 0, at, n), narrow(scales, 0, at, n), above, narrow(other, 0, at, n), first
    )


def _of_rows(piece: Piece, at: int, n: int) -> Piece:
    return piece._replace(other=narrow(piece.other, 1, at, n), first_row=piece.first_row + at)


def _of_blocks(kind: BlockType, piece: Piece, width: int, at: int, n: int) -> Piece:
    low, scales, high, other, first = piece
    groups = kind.block // 32
    return Piece(
        narrow(low, 1, at * groups, n * groups), narrow(scales, 1, at, n),
        None if high is None else narrow(high, 1, at * groups, n * groups),
        narrow(other, 2, at * width, n * width), first,
    )  # fmt: skip
