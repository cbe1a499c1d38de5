"""Blocks of matrices, and products that are subtracted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pykernels.plans.matmul import mul_mat
from pykernels.plans.matmul.product import transposed
from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Tiles, View

__all__ = ["BLOCK", "block", "each_batch", "less_product", "reversed_rows", "with_scalar"]

BLOCK = 64  # rows of the largest matrix that one workgroup factors


def each_batch(
    caps: Caps, views: Mapping[str, View], columns: tuple[str, ...] = ()
) -> list[dict[str, View]]:
    """The views of matrices, in as many parts as there must be dispatches. Cuts are between
    matrices, and in the views that `columns` names also between columns."""
    lead = min(v.ndim for v in views.values()) - 2
    axes = [{name: axis for name in views} for axis in range(lead)]
    cuts = [{name: lead + 1 for name in columns}] if columns else []
    return [
        part.views
        for each in parts(caps, views, [*axes, *cuts])
        for part in in_levels(each, axes, Tiles.LEVELS)
    ]


def less_product(
    caps: Caps, scratch: Scratch, c: View, left: View, right: View, dst: View
) -> list[Step]:
    """dst = c - left @ right; dst has memory of its own."""
    steps = mul_mat.plan(caps, scratch, transposed(right), left, None, c, dst)
    return [with_scalar(step, -1.0) for step in steps]


def with_scalar(step: Step, scalar: float) -> Step:
    """The step of another kernel, with `scalar` as each of its scalar arguments; the kernels of
    linear systems have no scalar arguments."""
    count = len(step.body.args)
    return replace(step, scalars=(scalar,) * count) if count else step


def block(v: View, row: int, rows: int, col: int, cols: int) -> View:
    """These rows and columns of every matrix."""
    offset = v.offset + row * v.strides[-2] + col * v.strides[-1]
    return replace(v, shape=(*v.shape[:-2], rows, cols), offset=offset)


def reversed_rows(v: View, columns: bool = False) -> View:
    """The rows of every matrix from the last to the first, and its columns too if asked."""
    offset, strides = v.offset, list(v.strides)
    for axis in (-2, -1) if columns else (-2,):
        offset += (v.shape[axis] - 1) * strides[axis]
        strides[axis] *= -1
    return replace(v, strides=tuple(strides), offset=offset)
