"""The number of workgroups of a call: given by the caller, or one invocation for each element of an
output."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

from pykernels.contract import GRID_MAX
from pykernels.errors import ArgumentError, LimitError
from pykernels.steps import cdiv
from pykernels.tensors.layout import View

__all__ = ["Groups", "covering", "elements", "given"]

Groups: TypeAlias = tuple[int, int, int]  # along x, y and z


def given(op: str, grid: Any) -> Groups:
    """The workgroups of a grid that the caller gives, with 1 for missing axes."""
    wrong = f"[{op}] grid must be workgroups along x, or along x, y and z, but is {grid!r:.60}"
    try:
        axes = [grid] if not isinstance(grid, Sequence) else list(grid)
        counts = [*map(operator.index, axes)]
    except (TypeError, ValueError):
        raise ArgumentError(wrong) from None
    if not 1 <= len(counts) <= 3:
        raise ArgumentError(wrong)
    if not all(0 <= n <= GRID_MAX for n in counts):
        raise LimitError(f"[{op}] a grid has 0 to {GRID_MAX} workgroups an axis, not {grid!r}")
    x, y, z = [*counts, 1, 1][:3]
    return x, y, z


def covering(op: str, workgroup: Sequence[int], name: str, extents: Sequence[int]) -> Groups:
    """The numbers of workgroups that give one invocation for each element of an output, which has
    `extents` elements along x, y and z."""
    if not all(workgroup):
        raise ArgumentError(f"[{op}] grid must be given: the text does not show the workgroup size")
    counts = [cdiv(n, size) for n, size in zip(extents, workgroup, strict=True)]
    for axis, n, size, count in zip("xyz", extents, workgroup, counts, strict=True):
        if count > GRID_MAX:
            raise LimitError(
                f"[{op}] {n} elements of {name} along {axis} take {count} workgroups of {size}, "
                f"more than the {GRID_MAX} of an axis: give a grid"
            )
    x, y, z = counts
    return x, y, z


def elements(
    op: str, workgroup: Sequence[int], name: str, view: View, stride: int
) -> tuple[int, int, int]:
    """The numbers of elements of a tensor along x, y and z; each element has `stride` bytes.

    If the workgroup extends along x alone, all elements count along x. If it extends along x and y,
    the tensor must have two axes, and if it extends along x, y and z, three; the last axis is x.
    """
    _, y, z = workgroup
    axes = 3 if z > 1 else 2 if y > 1 else 1
    if axes == 1:
        return view.nbytes // stride, 1, 1
    shape = list(view.shape)
    # the numbers that make up an element; they are on the last axes
    rest = stride // view.dtype.itemsize
    while rest > 1 and shape:
        n = shape.pop()
        if rest % n == 0:
            rest //= n
        elif n % rest == 0:
            shape.append(n // rest)
            rest = 1
        else:
            break
    if rest > 1 or len(shape) != axes:
        raise ArgumentError(
            f"[{op}] grid must be given: the workgroup has {axes} axes, but {name} has the shape "
            f"{view.shape}"
        )
    first, second, third = [*reversed(shape), 1][:3]
    return first, second, third
