"""Calls in parts, where a tensor is larger than one storage binding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pykernels.errors import LimitError
from pykernels.layout import Ints, View
from pykernels.plan import Caps

__all__ = ["Part", "fits_binding", "parts"]

# Each is a dispatch at least, and one batch holds no more.
MAX_PARTS = 1024


class Part(NamedTuple):
    """The views of one part of a call by name, and where it begins along each axis that is cut."""

    views: dict[str, View]
    first: Ints


def fits_binding(caps: Caps, view: View) -> bool:
    """Can one storage binding hold the whole view?"""
    return _bytes_bound(caps, view) <= caps.max_binding


def parts(caps: Caps, views: Mapping[str, View], axes: Sequence[Mapping[str, int]]) -> list[Part]:
    """The call in so many parts that each view of a part fits one binding: one, if all fit whole.

    Each of `axes` may be cut, and names the axis of each view that goes with it; a view that it
    does not name is the same in all parts. So the product of a (b, m, k) and w (n, k) to dst
    (b, m, n) has the axes {"a": 0, "dst": 0}, {"a": 1, "dst": 1} and {"w": 0, "dst": 2}. Cuts are
    at multiples of 64 where they can be, so that what is read in vectors stays so.
    """
    found: list[Part] = []
    _add(caps, Part(dict(views), (0,) * len(axes)), axes, found)
    return found


def _add(caps: Caps, part: Part, axes: Sequence[Mapping[str, int]], found: list[Part]) -> None:
    """Append the part, or its halves along the axis on which its large views reach furthest."""
    large = {name: v for name, v in part.views.items() if not fits_binding(caps, v)}
    if not large:
        if len(found) == MAX_PARTS:
            raise LimitError(f"the call needs more than {MAX_PARTS} parts that fit one binding")
        found.append(part)
        return
    reach = [_reach(large, axis) for axis in axes]
    if max(reach, default=0) == 0:
        name = min(large)
        raise LimitError(
            f"{name} has parts of {_bytes_bound(caps, large[name])} bytes that cannot be cut, but "
            f"one binding of this device holds {caps.max_binding}"
        )
    axis = reach.index(max(reach))
    n = next(part.views[name].shape[a] for name, a in axes[axis].items())
    half = n // 2 // 64 * 64 or n // 2
    for first, size in ((0, half), (half, n - half)):
        views = {
            name: _narrow(v, axes[axis][name], first, size) if name in axes[axis] else v
            for name, v in part.views.items()
        }
        start = [*part.first]
        start[axis] += first
        _add(caps, Part(views, tuple(start)), axes, found)


def _reach(views: Mapping[str, View], axis: Mapping[str, int]) -> int:
    """How many bytes apart the ends of an axis are, in the view where that is most."""
    ends = [abs(v.strides[axis[n]]) * (v.shape[axis[n]] - 1) for n, v in views.items() if n in axis]
    return max(ends, default=0)


def _narrow(view: View, axis: int, first: int, size: int) -> View:
    """The elements from `first` on along one axis."""
    shape = (*view.shape[:axis], size, *view.shape[axis + 1 :])
    return replace(view, shape=shape, offset=view.offset + first * view.strides[axis])


def _bytes_bound(caps: Caps, view: View) -> int:
    """The size of a view's binding: it begins aligned and ends with a whole vector."""
    lo, hi = view.window
    return -(-(hi - lo // caps.alignment * caps.alignment) // 16) * 16
