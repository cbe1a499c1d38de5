"""Quantiles and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from pykernels._generated.kernels.median import KERNEL as _MEDIAN
from pykernels._generated.operations.rows import index_select
from pykernels._generated.operations.sort import searchsorted, sort
from pykernels.call.again import again
from pykernels.call.apply import evaluate
from pykernels.call.arrays import Array, Call, NDArray
from pykernels.call.operation import either
from pykernels.call.scalars import choice, flag, integer, real
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.rules.sort import as_floats
from pykernels.runtime.whole import whole
from pykernels.tensors.axes import axes_of

from .sort import bincount

__all__ = ["histogram", "quantile"]

Axis: TypeAlias = int | tuple[int, ...] | None
Method: TypeAlias = Literal["linear", "lower", "higher", "midpoint", "nearest"]
_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
_QUANTILE, _HISTOGRAM = replace(_MEDIAN, name="quantile"), replace(_MEDIAN, name="histogram")
# Equal infinities are handled separately, because their difference is NaN.
_BETWEEN = """where(isnan(last), last, where(a == b and isinf(a), a,
    where(t < 0.5, a + (b - a) * t, b - (b - a) * (1 - t))))"""
MOST_BINS = 1 << 24


@again
@whole
def quantile(
    x: Array, q: float | Sequence[float] | NDArray, axis: Axis = None, *, keepdims: bool = False,
    method: Method = "linear", dim: Axis = None, keepdim: bool | None = None,
) -> Array:  # fmt: skip
    """The number below which a share q of the elements lies (numpy, torch). It is at position q *
    (n - 1) of the sorted elements, counted from 0.

    Elements are sorted, and the two elements at each position are interpolated in f32. The result
    is NaN if an element is NaN.

    Args:
        x: Tensor or numpy array; float32, float16, bfloat16, or integers of up to 32 bits and bool,
            which are converted to float32 first.
        q: A number from 0 to 1, or a list or numpy array (k,) of such numbers.
        axis: The axis, or several axes, which count as one axis; None takes all elements.
        keepdims: True keeps the reduced axes, with size 1.
        method: Between two elements a and b: "linear" interpolates, "lower" or "higher" takes one
            of them, "nearest" takes the nearer element (half-way between both, the element at the
            even position), "midpoint" is (a + b) / 2.
        dim: Another name for axis.
        keepdim: Another name for keepdims.

    Returns:
        A numpy array if x is one, else a Tensor; of x's dtype if that is a float dtype, else
        float32. A list of k numbers adds a first axis of size k.

    Raises:
        ArgumentError: q is not in [0, 1], or the method is unknown.
        ShapeError: x does not have the axis, or has no elements.
        DTypeError: another dtype.
    """
    op = "quantile"
    if dim is not None:
        axis = either(op, "axis", axis, None, "dim", dim)
    if keepdim is not None:
        keepdims = either(op, "keepdims", keepdims, False, "keepdim", keepdim)
    choice(op, "method", method, _METHODS)
    points = _points(q)
    x = as_floats(op, "x", x)
    call = Call(_QUANTILE, x)
    given = call.tensor("x", x)
    every = tuple(range(given.ndim))
    reduced = every if axis is None else axes_of(op, axis, given.ndim)
    others = tuple([a for a in every if a not in reduced])
    count = math.prod([given.shape[a] for a in reduced])
    if not count:
        raise ShapeError(f"[{op}] x must have elements along axis {axis} but has {given.shape}")
    kept = tuple([given.shape[a] for a in others])
    rows = given.transpose(*others, *reduced) if given.ndim else given
    ordered = sort(rows.reshape((*kept, count)))
    below, above, parts = _between(points.reshape(-1), count, method)
    device, ones = given.device, (1,) * len(kept)
    operands: dict[str, Any] = {"t": device.tensor(parts).reshape((-1, *ones))}
    for name, places in (("a", below), ("b", above)):
        picked = index_select(ordered, -1, device.tensor(places), check=False)
        operands[name] = picked.transpose(picked.ndim - 1, *range(picked.ndim - 1))
    operands["last"] = ordered[..., -1]  # the last element, because NaN sorts after all numbers
    result = evaluate(op, _BETWEEN, operands, None)
    if flag(op, "keepdims", keepdims):
        kept = tuple([1 if a in reduced else given.shape[a] for a in every])
    return call.leave(result.reshape((*points.shape, *kept)).astype(given.dtype))


def _points(q: Any) -> NDArray:
    """q as numbers, which are checked to be from 0 to 1."""
    try:
        if isinstance(q, Tensor):
            raise TypeError
        points = np.asarray(q, np.float64)
    except OverflowError:
        raise ArgumentError(f"[quantile] q must be from 0 to 1 but is {q!r:.60}") from None
    except (TypeError, ValueError):
        raise DTypeError(
            f"[quantile] q must be a number, or a list or numpy array of them, but is {q!r:.60}"
        ) from None
    if points.ndim > 1:
        raise ShapeError(f"[quantile] q must have one axis or none but has shape {points.shape}")
    if not ((points >= 0) & (points <= 1)).all():
        raise ArgumentError(f"[quantile] q must be from 0 to 1 but is {q!r:.60}")
    return points


def _between(points: NDArray, count: int, method: Method) -> tuple[NDArray, NDArray, NDArray]:
    """For each share in `points`, the positions of the two elements to interpolate, int32, and the
    fraction between them, float32."""
    places = points * (count - 1)
    if method == "nearest":
        places = np.rint(places)
    below, above = np.floor(places), np.ceil(places)
    if method == "lower":
        above = below
    elif method == "higher":
        below = above
    parts = np.where(below == above, 0, 0.5 if method == "midpoint" else places - below)
    return below.astype(np.int32), above.astype(np.int32), parts.astype(np.float32)


@again
@whole
def histogram(
    x: Array, bins: int | Sequence[float] | Array = 10, range: tuple[float, float] | None = None
) -> tuple[Array, Array]:
    """The number of elements in each bin, edges[i] <= x < edges[i + 1]; the last bin includes its
    upper edge (numpy). Elements outside, and NaN, do not count.

    Two runs give the same bits.

    Args:
        x: Tensor or numpy array of any shape; float32, float16, bfloat16, or integers of up to 32
            bits and bool, which are compared as float32.
        bins: The number of bins of equal width, or their edges: n + 1 numbers, (n + 1,), in
            ascending order. The order is not checked for a Tensor.
        range: The smallest and the largest edge, if `bins` is a number. None reads the smallest and
            the largest element; for a Tensor this waits for the device, and captures refuse it.

    Returns:
        Counts, int32 (n,), and edges, float32 (n + 1,), also for float16, where numpy rounds the
        edges. They are numpy arrays if no argument is a Tensor, else Tensors.

    Raises:
        ArgumentError: no bins, descending edges, or a range that is not finite or descends.
        ShapeError: edges are not one axis of two or more numbers.
        DTypeError: another dtype.
        BufferStateError: inside a capture, for a number of bins without a range.
    """
    op = "histogram"
    x = as_floats(op, "x", x, "float16", "bfloat16")
    listed = isinstance(bins, (list, tuple)) or bool(getattr(bins, "shape", ()))
    call = Call(_HISTOGRAM, x, bins if isinstance(bins, Tensor) else None)
    given = call.tensor("x", x)
    flat = given.reshape((given.size,))
    if isinstance(bins, Tensor):
        edges = bins.astype("float32")
    elif listed:
        edges = given.device.tensor(_checked(bins))
    else:
        edges = given.device.tensor(_edges(integer(op, "bins", bins), range, flat, x))
    if edges.ndim != 1 or edges.size < 2:
        raise ShapeError(f"[{op}] bins must be two edges or more but have shape {edges.shape}")
    above = searchsorted(edges[:-1], flat, "right")  # 0 means below all edges
    operands: dict[str, Any] = {"above": above, "x": flat, "last": edges[-1:]}
    places = evaluate(op, "where(x <= last, above, 0)", operands, None)
    counts: Any = bincount(places, length=edges.size)[1:]
    return call.leave(counts), call.leave(edges)


def _checked(bins: Any) -> NDArray:
    """Check the edges of a list or array, and return them."""
    try:
        edges = np.asarray(bins, np.float32)
    except (TypeError, ValueError):
        raise DTypeError(f"[histogram] bins must be numbers but are {bins!r:.60}") from None
    if edges.ndim == 1 and not (edges[1:] >= edges[:-1]).all():
        raise ArgumentError(f"[histogram] bins must ascend but are {bins!r:.60}")
    return edges


def _edges(count: int, range: Any, flat: Tensor, x: Array) -> NDArray:
    """The edges of bins of equal width."""
    op = "histogram"
    if not 1 <= count <= MOST_BINS:
        raise ArgumentError(f"[{op}] bins must be from 1 to {MOST_BINS} but is {count}")
    low: Any
    high: Any
    if range is not None:
        if not isinstance(range, (list, tuple)) or len(range) != 2:
            raise ArgumentError(f"[{op}] range must be two numbers but is {range!r:.60}")
        low, high = (real(op, "range", v) for v in range)
    elif not flat.size:
        low, high = 0.0, 1.0
    elif isinstance(x, np.ndarray):
        low, high = x.min(), x.max()
    else:
        from pykernels.functional import max as largest
        from pykernels.functional import min as least

        flat._context.refuse_in_capture("histogram without a range")
        low, high = (np.float32(f(flat).item()) for f in (least, largest))
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ArgumentError(f"[{op}] range must be finite and ascend but is ({low}, {high})")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, count + 1, dtype=np.float32)
