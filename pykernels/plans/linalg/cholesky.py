"""cholesky: one dispatch for small matrices, columns of blocks for larger ones.

The block column at row j of the factor l, from the columns before it (left-looking):

    w = a[j:, j : j + 64] - l[j:, :j] @ l[j : j + 64, :j]^T
    l[j : j + 64, j : j + 64] = d, the factor of the first 64 rows of w
    l[j + 64 :, j : j + 64] = x with x @ d^T = the other rows of w

w and d are temporaries, so no dispatch reads the memory that it writes.
"""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.bodies import cholesky as body
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.matmul import mul_mat
from pykernels.plans.move import tri
from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Tiles, View

from . import solve_tri

__all__ = ["plan"]

BLOCK = 64  # rows of the largest matrix that one workgroup factors
SIZES = {own.S * own.T: name for name, own in body.CONFIGS.items()}


def plan(caps: Caps, scratch: Scratch, a: View, dst: View) -> list[Step]:
    """One dispatch up to 64 rows, then about five for each 64 rows; none for an empty dst."""
    if a.shape != dst.shape or a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"[cholesky] a and dst must be (..., n, n) but they have shapes {a.shape} and "
            f"{dst.shape}"
        )
    if dst.size == 0:
        return []
    n = dst.shape[-1]
    if n <= BLOCK:
        return _small(caps, a, dst)
    lead = dst.shape[:-2]
    work = scratch.empty((*lead, n, BLOCK), "float32")
    own = scratch.empty((*lead, BLOCK, BLOCK), "float32")
    # The lower triangle of a, from which the columns are read, and zeros above it.
    steps = [_with(step, 0) for step in tri.plan(caps, scratch, a, dst)]
    for j in range(0, n, BLOCK):
        width, rest = min(BLOCK, n - j), max(n - j - BLOCK, 0)
        column, before = _block(dst, j, n - j, j, width), _block(dst, j, n - j, 0, j)
        w, d = _block(work, 0, n - j, 0, width), _block(own, 0, width, 0, width)
        product = mul_mat.plan(
            caps, scratch, _block(before, 0, width, 0, j), before, None, column, w
        )
        steps += [_with(step, -1.0) for step in product]
        steps += _small(caps, _block(w, 0, width, 0, width), d)
        steps += cpy.plan(caps, scratch, d, _block(column, 0, width, 0, width))
        below, target = (_block(v, width, rest, 0, width) for v in (w, column))
        steps += solve_tri.plan(caps, scratch, d, _turned(below), _turned(target))
    return steps


def _small(caps: Caps, a: View, dst: View) -> list[Step]:
    """The steps for matrices of up to 64 rows, each factored by one workgroup."""
    size = min(n for n in SIZES if n >= dst.shape[-1])
    axes = [{"a": axis, "dst": axis} for axis in range(dst.ndim - 2)]
    found = [
        part.views
        for each in parts(caps, {"a": a, "dst": dst}, axes)
        for part in in_levels(each, axes, Tiles.LEVELS)
    ]
    return [body.step(caps, v["a"], v["dst"], SIZE=SIZES[size]) for v in found]


def _with(step: Step, scalar: float) -> Step:
    """A step of another kernel, with a value for that kernel's scalar, because cholesky has no
    scalar arguments."""
    count = len(step.body.args)
    return replace(step, scalars=(scalar,) * count) if count else step


def _block(v: View, row: int, rows: int, col: int, cols: int) -> View:
    """The view of these rows and columns of every matrix."""
    offset = v.offset + row * v.strides[-2] + col * v.strides[-1]
    return replace(v, shape=(*v.shape[:-2], rows, cols), offset=offset)


def _turned(v: View) -> View:
    """The matrices transposed."""
    return v.with_layout(
        (*v.shape[:-2], v.shape[-1], v.shape[-2]), (*v.strides[:-2], v.strides[-1], v.strides[-2])
    )
