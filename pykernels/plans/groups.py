"""Splits an axis into two axes, group and member of the group, and merges these again."""

from __future__ import annotations

from pykernels.tensors.layout import View

__all__ = ["by_group", "ungrouped"]


def by_group(v: View, groups: int, axis: int) -> View:
    """The view with this axis cut in two: group, and member of the group."""
    n, step = v.shape[axis] // groups, v.strides[axis]
    return v.with_layout(
        (*v.shape[:axis], groups, n, *v.shape[axis + 1 :]),
        (*v.strides[:axis], n * step, step, *v.strides[axis + 1 :]),
    )


def ungrouped(v: View, axis: int) -> View:
    """Merges the two axes of `by_group`. The axis must consist of whole groups, or be a part of one
    group."""
    groups, n = v.shape[axis : axis + 2]
    return v.with_layout(
        (*v.shape[:axis], groups * n, *v.shape[axis + 2 :]),
        (*v.strides[:axis], *v.strides[axis + 1 :]),
    )
