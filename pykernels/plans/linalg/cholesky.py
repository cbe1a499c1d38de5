"""cholesky: one dispatch for small matrices, columns of blocks for larger ones.

The block column at row j of the factor l, from the columns before it (left-looking):

    w = a[j:, j : j + 64] - l[j:, :j] @ l[j : j + 64, :j]^T
    l[j : j + 64, j : j + 64] = d, the factor of the first 64 rows of w
    l[j + 64 :, j : j + 64] = x with x @ d^T = the other rows of w

w and d are temporaries, so no dispatch reads the memory that it writes.
"""

from __future__ import annotations

from pykernels._generated.bodies import cholesky as body
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.matmul.product import transposed
from pykernels.plans.move import tri
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import solve_tri
from .blocks import BLOCK, block, each_batch, less_product, with_scalar

__all__ = ["plan"]

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
    # dst gets the lower triangle of a, from which the columns are read, and zeros above it.
    steps = [with_scalar(step, 0) for step in tri.plan(caps, scratch, a, dst)]
    for j in range(0, n, BLOCK):
        width, rest = min(BLOCK, n - j), max(n - j - BLOCK, 0)
        column, before = block(dst, j, n - j, j, width), block(dst, j, n - j, 0, j)
        w, d = block(work, 0, n - j, 0, width), block(own, 0, width, 0, width)
        above = transposed(block(before, 0, width, 0, j))
        steps += less_product(caps, scratch, column, before, above, w)
        steps += _small(caps, block(w, 0, width, 0, width), d)
        steps += cpy.plan(caps, scratch, d, block(column, 0, width, 0, width))
        below, target = (block(v, width, rest, 0, width) for v in (w, column))
        steps += solve_tri.plan(caps, scratch, d, transposed(below), transposed(target))
    return steps


def _small(caps: Caps, a: View, dst: View) -> list[Step]:
    """The steps for matrices of up to 64 rows, each factored by one workgroup."""
    size = min(n for n in SIZES if n >= dst.shape[-1])
    found = each_batch(caps, {"a": a, "dst": dst})
    return [body.step(caps, v["a"], v["dst"], SIZE=SIZES[size]) for v in found]
