"""The kept axes and the reduced axes of a reduction, for any layout."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.errors import ShapeError
from pykernels.tensors.layout import Ints, View, merge_axes

from .values import Values

__all__ = ["Problem", "problem", "reduced_axes", "reduced_shape"]


class Problem(NamedTuple):
    """Axes sorted by their strides, the largest first, and merged; `values` and `dst` give
    everything else about the views.

    `steps` are the strides of each view of the values along kept axes, `out_steps` the strides of
    dst, `inner` the strides of each view along reduced axes. With `columns`, results lie closer
    together than reduced elements.
    """

    values: Values
    dst: View
    kept: Ints
    steps: list[Ints]
    out_steps: Ints
    reduced: Ints
    inner: list[Ints]
    columns: bool


def reduced_axes(
    name: str, x: View | Values, dst: View, axis: int | tuple[int, ...] | None
) -> Ints:
    """The axes, counted from 0; ShapeError if an axis does not exist or dst has a wrong shape."""
    given = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    for a in given:
        if not isinstance(a, int) or not -x.ndim <= a < x.ndim:
            raise ShapeError(f"[{name}] axis {a} does not exist in shape {x.shape}")
    axes = tuple([a % x.ndim for a in given])
    if len(set(axes)) < len(axes):
        raise ShapeError(f"[{name}] axis must name each axis once but is {axis}")
    shape = tuple([n for a, n in enumerate(x.shape) if a not in axes])
    full = tuple([1 if a in axes else n for a, n in enumerate(x.shape)])
    if dst.shape not in (shape, full):
        raise ShapeError(f"[{name}] dst must have shape {shape} or {full} but has {dst.shape}")
    return axes


def reduced_shape(
    name: str, shape: Ints, axis: int | tuple[int, ...] | None, keepdims: bool
) -> Ints:
    """The shape of the result; ShapeError if an axis does not exist."""
    ndim = len(shape)
    given = tuple(range(ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    for a in given:
        if not isinstance(a, int) or not -ndim <= a < ndim:
            raise ShapeError(f"[{name}] axis {a} does not exist in shape {shape}")
    axes = [a % ndim for a in given]
    if keepdims:
        return tuple([1 if a in axes else n for a, n in enumerate(shape)])
    return tuple([n for a, n in enumerate(shape) if a not in axes])


def problem(x: Values, dst: View, axes: Ints, in_order: bool) -> Problem:
    """The reduction of x over `axes`; `in_order` keeps the reduced axes in C order."""
    rest = [a for a in range(x.ndim) if a not in axes]
    to = {a: dst.strides[a if dst.ndim == x.ndim else i] for i, a in enumerate(rest)}
    rest = sorted(rest, key=lambda a: (-x.step(a), -abs(to[a])))
    kept, found = merge_axes(
        tuple([x.shape[a] for a in rest]),
        [*_strides(x, rest), tuple([to[a] for a in rest])],
    )
    steps, out_steps = found[:-1], found[-1]
    over = sorted(axes) if in_order else sorted(axes, key=lambda a: -x.step(a))
    reduced, inner = merge_axes(tuple([x.shape[a] for a in over]), _strides(x, over))
    columns = kept[-1] > 1 and reduced[-1] > 1 and _last(steps) < _last(inner)
    # the longest axis comes last, because lanes and pieces divide the last axis
    if columns and not in_order:
        longest = max(range(len(reduced)), key=lambda a: reduced[a])
        order = [*[a for a in range(len(reduced)) if a != longest], longest]
        reduced = tuple([reduced[a] for a in order])
        inner = [tuple([s[a] for a in order]) for s in inner]
    return Problem(x, dst, kept, steps, out_steps, reduced, inner, columns)


def _strides(x: Values, axes: list[int]) -> list[Ints]:
    """The strides of each view along some axes."""
    return [tuple([v.strides[a] for a in axes]) for v in x.views]


def _last(strides: list[Ints]) -> int:
    """The distance of neighbours along the last axis, summed over all views."""
    return sum([abs(s[-1]) for s in strides])
