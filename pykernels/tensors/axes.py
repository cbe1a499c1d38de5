"""Views that rearrange axes of Tensors and numpy arrays, by `shape`, `transpose`, `reshape` and
basic slicing. Arguments are checked here, so Tensors and arrays raise the same errors.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from pykernels.call.scalars import integer, integers
from pykernels.errors import ArgumentError, ShapeError

__all__ = [
    "along",
    "axes_of",
    "axis_of",
    "chunk",
    "diagonal_axes",
    "diagonal_start",
    "expand",
    "expand_dims",
    "flatten",
    "flip",
    "moveaxis",
    "parts",
    "split",
    "squeeze",
    "swapaxes",
]

Ints = tuple[int, ...]
MOST_PARTS = 1 << 16  # more parts than this would take seconds, because each part is a view


def axis_of(op: str, axis: Any, ndim: int, name: str = "axis") -> int:
    """An axis counted from the front; ShapeError if it does not exist."""
    found = integer(op, name, axis)
    if not -ndim <= found < ndim:
        raise ShapeError(f"[{op}] {name} must be in [{-ndim}, {ndim}) but is {found}")
    return found % ndim


def axes_of(op: str, axis: Any, ndim: int, name: str = "axis") -> Ints:
    """One or several axes, counted from the front; no axis may come twice."""
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(axis_of(op, a, ndim, name) for a in given)
    if len(set(found)) < len(found):
        raise ShapeError(f"[{op}] {name} must name each axis once but is {axis!r}")
    return found


def along(axis: int, item: slice | None) -> tuple[Any, ...]:
    """The index that has `item` for one axis (None makes a new axis there) and takes all elements
    of the other axes."""
    return (*(slice(None),) * axis, item, ...)


def squeeze(x: Any, axis: Any = None) -> Any:
    shape: Ints = x.shape
    axes = [a for a, n in enumerate(shape) if n == 1]
    if axis is not None:
        axes = list(axes_of("squeeze", axis, len(shape)))
        if any(shape[a] != 1 for a in axes):
            raise ShapeError(f"[squeeze] axis {axis} must have size 1 but the shape is {shape}")
    return x[(*(0 if a in axes else slice(None) for a in range(len(shape))), ...)]


def expand_dims(x: Any, axis: Any, op: str = "expand_dims") -> Any:
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    ndim = len(x.shape) + count
    axes = axes_of(op, axis, ndim)
    return x[(*(None if a in axes else slice(None) for a in range(ndim)), ...)]


def expand(x: Any, shape: Any) -> Any:
    """The shape for torch's expand: -1 keeps a size."""
    dims = integers("expand", "shape", tuple(shape) if isinstance(shape, list) else shape)
    dims = dims if isinstance(dims, tuple) else (dims,)
    own: Ints = x.shape
    extra = len(dims) - len(own)
    kept = (*(None,) * extra, *own)[: len(dims)]
    full = tuple(n if d == -1 else d for d, n in zip(dims, kept, strict=True))
    wrong = extra < 0 or any(n is None or n < 0 for n in full)
    if wrong or any(n not in (1, m) for n, m in zip(own, full[extra:], strict=True)):
        raise ShapeError(f"[expand] {own} does not expand to {dims}")
    return full


def flatten(x: Any, start_axis: Any = 0, end_axis: Any = -1) -> Any:
    shape: Ints = x.shape
    if not shape:
        return x.reshape((1,))
    start = axis_of("flatten", start_axis, len(shape), "start_axis")
    end = axis_of("flatten", end_axis, len(shape), "end_axis")
    if start > end:
        raise ShapeError(f"[flatten] start_axis {start_axis} must not come after {end_axis}")
    return x.reshape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    ndim = len(x.shape)
    sources = axes_of("moveaxis", source, ndim, "source")
    targets = axes_of("moveaxis", destination, ndim, "destination")
    if len(sources) != len(targets):
        raise ShapeError(
            f"[moveaxis] source and destination must name the same number of axes but are "
            f"{source!r} and {destination!r}"
        )
    order = [a for a in range(ndim) if a not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return x.transpose(order) if order else x


def swapaxes(x: Any, axis1: Any, axis2: Any) -> Any:
    ndim = len(x.shape)
    a, b = (axis_of("swapaxes", v, ndim, n) for v, n in ((axis1, "axis1"), (axis2, "axis2")))
    order = list(range(ndim))
    order[a], order[b] = b, a
    return x.transpose(order)


def flip(x: Any, axis: Any = None) -> Any:
    ndim = len(x.shape)
    axes = range(ndim) if axis is None else axes_of("flip", axis, ndim)
    back = slice(None, None, -1)
    return x[(*(back if a in axes else slice(None) for a in range(ndim)), ...)]


def split(x: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    at = axis_of("split", axis, len(x.shape))
    n: int = x.shape[at]
    given = indices_or_sections
    ndim = getattr(given, "ndim", 0)
    if isinstance(given, (tuple, list)) or (isinstance(ndim, int) and ndim):
        places = [integer("split", "index", c) for c in given]
        cuts = [min(max(c + n if c < 0 else c, 0), n) for c in places]
        return parts(x, at, [0, *cuts, n])
    count = integer("split", "sections", given)
    if not 1 <= count <= MOST_PARTS:
        raise ArgumentError(f"[split] sections must be from 1 to {MOST_PARTS} but is {count}")
    size, longer = divmod(n, count)
    return parts(x, at, [i * size + min(i, longer) for i in range(count + 1)])


def chunk(x: Any, chunks: Any, axis: Any = 0) -> list[Any]:
    at = axis_of("chunk", axis, len(x.shape))
    count = integer("chunk", "chunks", chunks)
    if count < 1:
        raise ArgumentError(f"[chunk] chunks must be 1 or more but is {count}")
    n: int = x.shape[at]
    size = max(-(-n // count), 1)
    if n > size * MOST_PARTS:
        raise ArgumentError(f"[chunk] there may be {MOST_PARTS} chunks but {count} of {n} are more")
    return parts(x, at, [*range(0, n, size), n] if n else [0, 0])


def parts(x: Any, axis: int, cuts: list[int]) -> list[Any]:
    """Views of the parts between neighbouring cuts."""
    return [x[along(axis, slice(a, max(a, b)))] for a, b in itertools.pairwise(cuts)]


def diagonal_axes(x: Any, axis1: Any, axis2: Any) -> tuple[int, int]:
    """Both axes, counted from the front; they must differ."""
    ndim = len(x.shape)
    a, b = axis_of("diagonal", axis1, ndim, "axis1"), axis_of("diagonal", axis2, ndim, "axis2")
    if a == b:
        raise ShapeError(f"[diagonal] axis1 and axis2 must differ but are {axis1} and {axis2}")
    return a, b


def diagonal_start(rows: int, cols: int, offset: Any) -> tuple[tuple[int, int], int]:
    """The row and column of a diagonal's first element, and the number of its elements."""
    k = integer("diagonal", "offset", offset)
    r, c = max(-k, 0), max(k, 0)
    return (r, c), max(min(rows - r, cols - c), 0)
