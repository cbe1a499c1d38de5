"""lu_factor: one dispatch for small matrices, columns of blocks for larger ones.

Step j of the factors of m, in place and from left and top (Crout):

    x = m[j:, j : j + w] - m[j:, :j] @ m[:j, j : j + w]
    x, pivots[j : j + w] = its factors and pivots
    exchange the rows of m[j:] by these pivots
    m[j:, j : j + w] = x
    y = m[j : j + w, j + w :] - m[j : j + w, :j] @ m[:j, j + w :]
    m[j : j + w, j + w :] = z with l @ z = y, where l is the lower triangle of x[:w] and ones

x and y are temporaries, so no dispatch reads the memory that it writes.
"""

from __future__ import annotations

from pykernels._generated.bodies import lu_factor as body
from pykernels._generated.bodies import lu_panel, lu_swap
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.matmul.product import transposed
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import solve_tri
from .blocks import BLOCK, block, each_batch, less_product

__all__ = ["factored", "plan", "small", "swapped", "width"]

NARROW = 32  # columns of a panel, which one workgroup factors in memory
# The number of blocks of a matrix up to which all dispatches of a call fit into one batch. A panel
# is not wider than its workgroup, so from 16,385 rows on there are more blocks, and from about
# 20,000 rows on a call of `solve` is refused.
MOST = 64
SIZES = {own.S * own.T: name for name, own in body.CONFIGS.items()}


def plan(caps: Caps, scratch: Scratch, a: View, dst: View, pivots: View) -> list[Step]:
    """One dispatch up to 64 rows, then about eight for each block of columns; none for an empty
    dst."""
    if a.shape != dst.shape or a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"[lu_factor] a and dst must be (..., n, n) but they have shapes {a.shape} and "
            f"{dst.shape}"
        )
    if pivots.shape != a.shape[:-1]:
        raise ShapeError(
            f"[lu_factor] pivots must have shape {a.shape[:-1]} but has {pivots.shape}"
        )
    if dst.size == 0:
        return []
    row = pivots.with_layout(
        (*pivots.shape[:-1], 1, pivots.shape[-1]), (*pivots.strides[:-1], 0, pivots.strides[-1])
    )
    if dst.shape[-1] <= BLOCK:
        return small(caps, a, dst, row)
    found = scratch.empty(row.shape, "int32")
    return [
        *cpy.plan(caps, scratch, a, dst),
        *factored(caps, scratch, dst, found),
        *cpy.plan(caps, scratch, found, row),
    ]


def small(caps: Caps, a: View, dst: View, pivots: View, first: int = 0) -> list[Step]:
    """Matrices of up to 64 rows, each by one workgroup; `first` is the number of row 0."""
    size = SIZES[min(n for n in SIZES if n >= dst.shape[-1])]
    return [
        body.step(caps, v["a"], v["dst"], v["pivots"], SIZE=size, first=first)
        for v in each_batch(caps, {"a": a, "dst": dst, "pivots": pivots})
    ]


def width(n: int) -> int:
    """The columns of a panel of n rows."""
    found = NARROW
    while found * MOST < n and found < lu_panel.CONFIGS["one"].threads:
        found *= 2
    return found


def factored(caps: Caps, scratch: Scratch, m: View, pivots: View) -> list[Step]:
    """Factors the first columns of m, as many as m has rows, in place. In the other columns of m,
    the rows are exchanged, too, and each column c becomes the solution z of l @ z = c. `pivots` is
    (..., 1, rows)."""
    n, cols, lead = m.shape[-2], m.shape[-1], m.shape[:-2]
    most = max(width(n), BLOCK)
    columns = transposed(scratch.empty((*lead, most, n), "float32"))
    rows = scratch.empty((*lead, most, cols), "float32")
    last = scratch.empty((*lead, BLOCK, BLOCK), "float32")
    steps: list[Step] = []
    j = 0
    while j < n:
        left = n - j
        w = left if left <= BLOCK else min(width(n), left)
        x, own = block(columns, 0, left, 0, w), block(pivots, 0, 1, j, w)
        column, above = block(m, j, left, j, w), block(m, 0, j, j, w)
        steps += less_product(caps, scratch, column, block(m, j, left, 0, j), above, x)
        if left <= BLOCK:
            found = block(last, 0, left, 0, w)
            steps += small(caps, x, found, own, j)
            x = found
        else:
            steps += [
                lu_panel.step(caps, v["pivots"], v["x"], first=j)
                for v in each_batch(caps, {"x": x, "pivots": own})
            ]
        steps += swapped(caps, own, block(m, j, left, 0, cols), j)
        steps += cpy.plan(caps, scratch, x, column)
        j += w
        if j < cols:
            y, right = block(rows, 0, w, 0, cols - j), block(m, j - w, w, j, cols - j)
            before = block(m, j - w, w, 0, j - w)
            steps += less_product(caps, scratch, right, before, block(m, 0, j - w, j, cols - j), y)
            steps += solve_tri.plan(caps, scratch, block(x, 0, w, 0, w), y, right, True)
    return steps


def swapped(caps: Caps, pivots: View, x: View, first: int = 0) -> list[Step]:
    """The steps that exchange the rows of x in place; `first` is the number of row 0."""
    return [
        lu_swap.step(caps, v["pivots"], v["x"], first=first)
        for v in each_batch(caps, {"x": x, "pivots": pivots}, ("x",))
    ]
