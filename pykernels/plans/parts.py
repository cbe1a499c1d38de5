"""Cuts calls into parts if a tensor is larger than one storage binding, or if there are too many
axes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pykernels.errors import LimitError
from pykernels.steps import Caps, Step
from pykernels.tensors.layout import Ints, Nd, Rows, View, merge_axes, repeated

__all__ = [
    "MAX_PARTS", "Part", "each_part", "fits_binding", "halves", "in_levels", "narrow", "parts",
    "row_parts",
]  # fmt: skip

# Each part is at least one dispatch, and a batch holds at most this number of dispatches.
MAX_PARTS = 1024


class Part(NamedTuple):
    """The views of one part of a call by name, and the part's first index along each cut axis."""

    views: dict[str, View]
    first: Ints


def fits_binding(caps: Caps, view: View) -> bool:
    """True if one storage binding can hold the whole view."""
    most = sum([abs(step) * n for n, step in zip(view.shape, view.strides, strict=True)])
    if most + caps.alignment + 32 <= caps.max_binding:  # a quick test that is enough for most calls
        return True
    return _bytes_bound(caps, view) <= caps.max_binding


def parts(caps: Caps, views: Mapping[str, View], axes: Sequence[Mapping[str, int]]) -> list[Part]:
    """The call in as many parts as needed, so that each view of a part fits one binding.

    Each entry of `axes` is a way to cut: by the names of views, it gives the axis of each view that
    is cut. A view without such an axis is the same in all parts. For the product of a (b, m, k) and
    w (n, k) to dst (b, m, n), `axes` are {"a": 0, "dst": 0}, {"a": 1, "dst": 1} and {"w": 0, "dst":
    2}. Cuts are at multiples of 64 if possible, so that vector reads stay possible.
    """
    found: list[Part] = []
    _halve(caps, Part(dict(views), (0,) * len(axes)), axes, found)
    return found


def in_levels(part: Part, axes: Sequence[Mapping[str, int]], levels: int) -> list[Part]:
    """A part, cut into as many parts as needed so that the axes of each merge into at most
    `levels`.

    `axes` are the axes of an index space that `first` counts along.
    """
    if _levels(part, axes) <= levels:
        return [part]
    # Each part has one index along one axis. It is the axis whose removal leaves the fewest axes;
    # of several such axes, it is the shortest.
    lengths = [_length(part, axis) for axis in axes]
    left = [_levels(_cut(part, axes, i, 0, 1), axes) for i in range(len(axes))]
    axis = min((i for i, n in enumerate(lengths) if n > 1), key=lambda i: (left[i], lengths[i]))
    _check_count(lengths[axis])
    found: list[Part] = []
    for first in range(lengths[axis]):
        found += in_levels(_cut(part, axes, axis, first, 1), axes, levels)
        _check_count(len(found))
    return found


def row_parts(
    caps: Caps, shape: Ints, views: Mapping[str, View], repeats: Collection[str] = ()
) -> list[Part]:
    """The parts of a call over rows: all axes but the last of `shape` may be cut.

    `repeats` names the views that fill `shape` by `layout.repeats_to`. If a view repeats by modulo
    along an axis, that axis becomes two axes in all views, unless the call stays whole.
    """
    given = [n for n in repeats if n in views]
    whole = Part(dict(views), (0,) * (len(shape) - 1))
    at_most = (len(shape) - 1) * (2 if given else 1)
    if at_most <= Rows.LEVELS and all(fits_binding(caps, v) for v in views.values()):
        return [whole]
    full, over = repeated(shape, len(shape) - 1, views, given)
    axes = [{name: axis for name in over} for axis in range(len(full) - 1)]
    found = [p for part in parts(caps, over, axes) for p in in_levels(part, axes, Rows.LEVELS)]
    _check_count(len(found))
    return found if len(found) > 1 else [whole]


def _halve(caps: Caps, part: Part, axes: Sequence[Mapping[str, int]], found: list[Part]) -> None:
    """Append the part, or its halves along the axis on which its large views reach furthest."""
    large = {name: v for name, v in part.views.items() if not fits_binding(caps, v)}
    if not large:
        found.append(part)
        _check_count(len(found))
        return
    pieces = halves(part, axes, large)
    if not pieces:
        name = min(large)
        raise LimitError(
            f"{name} spans {_bytes_bound(caps, large[name])} bytes in a part that cannot be cut "
            f"further, but one binding of this device holds {caps.max_binding}"
        )
    for piece in pieces:
        _halve(caps, piece, axes, found)


def halves(part: Part, axes: Sequence[Mapping[str, int]], views: Mapping[str, View]) -> list[Part]:
    """Two parts, cut along the axis on which these views reach furthest; no parts if they reach
    along no axis."""
    reach = [_reach(views, axis) for axis in axes]
    if max(reach, default=0) == 0:
        return []
    axis = reach.index(max(reach))
    n = _length(part, axes[axis])
    half = n // 2 // 64 * 64 or n // 2
    return [_cut(part, axes, axis, first, size) for first, size in ((0, half), (half, n - half))]


def _check_count(parts: int) -> None:
    if parts > MAX_PARTS:
        raise LimitError(f"the call needs more than {MAX_PARTS} parts")


def _cut(part: Part, axes: Sequence[Mapping[str, int]], axis: int, first: int, size: int) -> Part:
    """The part with `size` indices, from `first` on, along one of the axes."""
    along = axes[axis]
    views = {
        n: narrow(v, along[n], first, size) if n in along else v for n, v in part.views.items()
    }
    start = [at + (first if i == axis else 0) for i, at in enumerate(part.first)]
    return Part(views, tuple(start))


def _length(part: Part, axis: Mapping[str, int]) -> int:
    return max(part.views[name].shape[a] for name, a in axis.items())


def _levels(part: Part, axes: Sequence[Mapping[str, int]]) -> int:
    """The number of axes after neighbours are merged."""
    shape = tuple(_length(part, axis) for axis in axes)
    steps = [
        tuple(v.strides[axis[name]] if name in axis else 0 for axis in axes)
        for name, v in part.views.items()
    ]
    return len(merge_axes(shape, steps)[0])


def _reach(views: Mapping[str, View], axis: Mapping[str, int]) -> int:
    """The distance in bytes between the ends of an axis, in the view with the largest distance."""
    ends = [abs(v.strides[axis[n]]) * (v.shape[axis[n]] - 1) for n, v in views.items() if n in axis]
    return max(ends, default=0)


def narrow(view: View, axis: int, first: int, size: int) -> View:
    """The elements from `first` on along one axis."""
    shape = (*view.shape[:axis], size, *view.shape[axis + 1 :])
    return replace(view, shape=shape, offset=view.offset + first * view.strides[axis])


def _bytes_bound(caps: Caps, view: View) -> int:
    """The size of a view's binding: it begins aligned and ends with a whole vector."""
    lo, hi = view.window
    return -(-(hi - lo // caps.alignment * caps.alignment) // 16) * 16


def _along_output(views: Sequence[View]) -> list[View]:
    """The same elements with the axes in the order of the output's memory."""
    dst = views[-1]
    order = sorted(range(dst.ndim), key=lambda a: -abs(dst.strides[a]) if dst.shape[a] > 1 else 0)
    if order == list(range(dst.ndim)):
        return list(views)
    full = [v.broadcast_to(dst.shape) for v in views]
    return [v.with_layout([v.shape[a] for a in order], [v.strides[a] for a in order]) for v in full]


def each_part(
    caps: Caps, views: Sequence[View], step: Callable[[Caps, Sequence[View]], Step],
    levels: int = Nd.LEVELS,
) -> list[Step]:  # fmt: skip
    """The step of each part of a call. The axes are in the order of the output's memory, and merge
    into at most `levels` axes."""
    ordered = _along_output(views)
    full = {str(i): v.broadcast_to(ordered[-1].shape) for i, v in enumerate(ordered)}
    axes = [{name: a for name in full} for a in range(ordered[-1].ndim)]
    whole = parts(caps, full, axes)
    found = [p for part in whole for p in in_levels(part, axes, levels)]
    return [step(caps, list(p.views.values())) for p in found]
