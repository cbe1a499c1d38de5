"""Cuts outputs into pieces, one for each dispatch. The outputs' elements depend only on their
indices."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.dtypes import DType
from pykernels.steps import Caps
from pykernels.tensors.layout import View

__all__ = ["Piece", "in_fours", "pieces"]

# For each size of an element, a dtype whose element is as large as four such elements.
_FOURS = {n: DType("uint8", "u8", 4 * n, "u") for n in (1, 2, 4)}


class Piece(NamedTuple):
    """A part of dst, in vectors of V elements, and the index of its first group of four."""

    view: View
    V: int
    first: int


def pieces(caps: Caps, dst: View) -> list[Piece]:
    """Parts of dst that begin at multiples of four elements. A contiguous dst is cut so that each
    part fits a binding; the elements after the last whole group of four are the last part."""
    item = dst.dtype.itemsize
    if dst.size == 0:
        return []
    if not dst.contiguous:
        return [_piece(dst, 0)]
    flat = dst.with_layout((dst.size,), (item,))
    most = (caps.max_binding - 2 * caps.alignment) // (4 * item) * 4
    whole = dst.size // 4 * 4 if flat.aligned(4 * item, ()) else dst.size
    ends = [*range(most, whole, most), whole, dst.size]
    out: list[Piece] = []
    first = 0
    for end in ends:
        if end > first:
            out.append(_piece(_part(flat, first, end), first // 4))
        first = end
    return out


def _part(flat: View, first: int, end: int) -> View:
    """Elements from `first` up to `end` of a contiguous view."""
    item = flat.dtype.itemsize
    return View(
        flat.slot, flat.dtype, (end - first,), (item,), flat.offset + first * item, flat.padded
    )


def _piece(view: View, first: int) -> Piece:
    fours = in_fours(view)
    return Piece(view, 1, first) if fours is None else Piece(fours, 4, first)


def in_fours(view: View) -> View | None:
    """The view in which four neighbours are one element; None if four elements cannot be written at
    once."""
    item = view.dtype.itemsize
    if view.ndim == 0 or not view.vectorizable(4):
        return None
    shape, strides = (*view.shape[:-1], view.shape[-1] // 4), (*view.strides[:-1], 4 * item)
    return view.with_layout(shape, strides, _FOURS[item])
