"""Layouts of the same elements in another order or shape. They are cached, because programs often
make views of the same layouts again."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pykernels.dtypes import DType
from pykernels.errors import ArgumentError, LimitError, ShapeError

from .layout import Layout, contiguous_strides, extent, layout

__all__ = ["broadcast", "numbers", "of_buffer", "reshaped", "reshaped_strides", "transposed"]


def numbers(op: str, values: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Integers from several arguments, or from one sequence."""
    found: Any = values
    if len(values) == 1 and isinstance(values[0], Sequence):
        found = tuple(values[0])
    for n in found:
        if type(n) is not int:
            break
    else:
        return cast("tuple[int, ...]", found)
    if not all(isinstance(n, (int, np.integer)) and type(n) is not bool for n in found):
        raise ArgumentError(f"[{op}] needs integers but got {values!r}")
    return tuple(int(n) for n in found)


@functools.lru_cache(maxsize=16384)
def transposed(lay: Layout, axes: tuple[int, ...]) -> Layout:
    """The layout with its axes in another order; without an order the axes are reversed."""
    n = len(lay.shape)
    order = axes or tuple(range(n))[::-1]
    if sorted(a + n if a < 0 else a for a in order) != list(range(n)):
        raise ShapeError(f"[transpose] axes must permute {n} axes but are {order}")
    shape, strides = tuple([lay.shape[a] for a in order]), tuple([lay.strides[a] for a in order])
    return layout(shape, strides, lay.dtype)


@functools.lru_cache(maxsize=16384)
def reshaped(lay: Layout, sizes: tuple[int, ...]) -> tuple[Layout | None, tuple[int, ...]]:
    """The layout of the same elements in a new shape (None if they must be copied), and the new
    shape."""
    dims = list(sizes)
    known = 1
    for n in dims:
        known *= n if n != -1 else 1
    if dims.count(-1) > 1 or any(n < -1 for n in dims):
        raise ShapeError(f"[reshape] sizes must be 0 or more, at most one -1, but are {dims}")
    if -1 in dims and known > 0 and lay.size % known == 0:
        dims[dims.index(-1)] = lay.size // known
        known = lay.size
    if known != lay.size or -1 in dims:
        raise ShapeError(
            f"[reshape] shape {lay.shape} has {lay.size} elements and cannot become {dims}"
        )
    shape = tuple(dims)
    strides = reshaped_strides(lay, shape)
    return None if strides is None else layout(shape, strides, lay.dtype), shape


@functools.lru_cache(maxsize=16384)
def broadcast(lay: Layout, dims: tuple[int, ...]) -> Layout:
    """The layout in a larger shape, by numpy's rules."""
    extra = len(dims) - len(lay.shape)
    own = (1,) * extra + lay.shape
    if extra < 0 or any(n not in (1, m) for n, m in zip(own, dims, strict=True)):
        raise ShapeError(f"[broadcast_to] {lay.shape} does not broadcast to {dims}")
    steps = (0,) * extra + lay.strides
    strides = [s if n == m else 0 for n, m, s in zip(own, dims, steps, strict=True)]
    return layout(dims, tuple(strides), lay.dtype)


def reshaped_strides(lay: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the new shape over the same memory, or None if a copy is needed."""
    if lay.size == 0 or lay.contiguous:
        return contiguous_strides(shape, lay.dtype.itemsize)
    # The loop walks through both shapes together. Axes that make up the same number of elements
    # form a group, and the old axes of a group must follow one another in memory.
    old = [(n, s) for n, s in zip(lay.shape, lay.strides, strict=True) if n != 1]
    strides: list[int] = []
    i = 0
    for first, n in enumerate(shape):
        if len(strides) > first:
            continue
        group, last = n, first + 1
        if group == 1:
            strides.append(0)
            continue
        count, step = old[i]
        i += 1
        while group != count:
            if group < count:
                group *= shape[last]
                last += 1
            else:
                if step != old[i][0] * old[i][1]:
                    return None
                count, step = count * old[i][0], old[i][1]
                i += 1
        steps = contiguous_strides(shape[first:last], step)
        strides += steps
    return tuple(strides)


def of_buffer(
    size: int, shape: tuple[int, ...], dt: DType, offset: int, strides: Sequence[int] | None
) -> tuple[Layout, int]:
    """The layout of a view on a caller's buffer of `size` bytes, and its first byte."""
    steps = contiguous_strides(shape, dt.itemsize) if strides is None else tuple(strides)
    if len(steps) != len(shape):
        raise ShapeError(f"[from_buffer] {len(shape)} sizes but {len(steps)} strides")
    for what, value in (("offset", offset), *(("stride", s) for s in steps)):
        if not isinstance(value, (int, np.integer)) or value % dt.itemsize:
            raise ShapeError(
                f"[from_buffer] {what} must be a multiple of the item size {dt.itemsize} "
                f"but is {value!r}"
            )
    offset, steps = int(offset), tuple(int(s) for s in steps)
    lo, hi = extent(shape, steps, dt.itemsize)
    if offset < 0 or offset + lo < 0 or offset + hi > size:
        raise ShapeError(
            f"[from_buffer] bytes {offset + lo} to {offset + hi} leave the buffer of {size}"
        )
    if -(-(offset + hi) // 4) * 4 > size:
        raise LimitError(
            f"[from_buffer] the view ends in the last {size % 4} bytes of a buffer whose size "
            f"({size}) is no multiple of 4: they cannot be bound"
        )
    return layout(shape, steps, dt), offset
