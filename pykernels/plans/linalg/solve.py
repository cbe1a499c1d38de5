"""solve: small matrices are factored, then solved by two substitutions. Larger matrices are
factored together with their right sides; then the upper triangles are solved block by block, from
the last row on."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import solve_tri
from .blocks import BLOCK, block, less_product, reversed_rows
from .lu_factor import factored, small, swapped, width

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, a: View, b: View, dst: View) -> list[Step]:
    """Five dispatches up to 64 rows; for larger matrices the dispatches of `lu_factor`, and about
    three more for each block of rows; none for an empty dst."""
    if b.shape != dst.shape or b.ndim < 2 or a.shape != (*b.shape[:-1], b.shape[-2]):
        raise ShapeError(
            "[solve] a must be (..., n, n) and b and dst (..., n, k) but they have shapes "
            f"{a.shape}, {b.shape} and {dst.shape}"
        )
    if dst.size == 0:
        return []
    (n, k), lead = dst.shape[-2:], dst.shape[:-2]
    pivots = scratch.empty((*lead, 1, n), "int32")
    if n <= BLOCK:
        lu, y, z = (scratch.empty((*lead, n, cols), "float32") for cols in (n, k, k))
        return [
            *small(caps, a, lu, pivots),
            *cpy.plan(caps, scratch, b, y),
            *swapped(caps, pivots, y),
            *solve_tri.plan(caps, scratch, lu, y, z, True),
            *_upper(caps, scratch, lu, z, dst),
        ]
    m = scratch.empty((*lead, n, n + k), "float32")
    steps = cpy.plan(caps, scratch, a, block(m, 0, n, 0, n))
    steps += cpy.plan(caps, scratch, b, block(m, 0, n, n, k))
    steps += factored(caps, scratch, m, pivots)
    size = max(width(n), BLOCK)
    rows = scratch.empty((*lead, size, k), "float32")
    for j in range((n - 1) // size * size, -1, -size):
        own = min(size, n - j)
        rest = n - j - own
        y, known = block(rows, 0, own, 0, k), block(dst, j + own, rest, 0, k)
        right = block(m, j, own, j + own, rest)
        steps += less_product(caps, scratch, block(m, j, own, n, k), right, known, y)
        u, target = block(m, j, own, j, own), block(dst, j, own, 0, k)
        steps += _upper(caps, scratch, u, y, target)
    return steps


def _upper(caps: Caps, scratch: Scratch, u: View, b: View, dst: View) -> list[Step]:
    """Solves u @ dst = b for upper triangles u. Rows and columns are reversed, which makes u a
    lower triangle."""
    return solve_tri.plan(
        caps, scratch, reversed_rows(u, True), reversed_rows(b), reversed_rows(dst)
    )
