"""Joining, repeating, padding and cutting out: copies of views, bit for bit in every dtype."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from pykernels._generated.kernels import cpy as _cpy
from pykernels._generated.kernels import get_rows as _get_rows
from pykernels._generated.kernels import pad as _pad
from pykernels._generated.wrappers import pad as _pad_wrapper
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call, NDArray, narrowed
from pykernels.call.operation import either
from pykernels.call.promotion import promote
from pykernels.call.scalars import integer, integers
from pykernels.device import Tensor, default_device
from pykernels.dtypes import DTYPES, dtype_of
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.axes import along, axes_of, axis_of
from pykernels.tensors.axes import parts as cut
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import Layout, contiguous_layout, layout
from pykernels.tensors.selecting import select

__all__ = ["cat", "concatenate", "pad", "repeat", "roll", "stack", "tile"]

Mode = Literal["constant", "reflect", "replicate", "circular", "edge", "wrap"]
Ints = tuple[int, ...]
_ALIASES = {"edge": "replicate", "wrap": "circular"}  # numpy's names
_REPEAT = replace(_cpy.KERNEL, name="repeat")
_REPEAT_EACH = replace(_get_rows.KERNEL, name="repeat")
Counts = Sequence[int] | NDArray  # one count for each element
_ROLL = replace(_cpy.KERNEL, name="roll")
_TILE = replace(_cpy.KERNEL, name="tile")


# -- joining --------------------------------------------------------------------------------------


@again
@whole
def concatenate(
    arrays: Sequence[Array],
    axis: int | None = 0,
    *,
    dim: int | None = None,
    out: Tensor | None = None,
) -> Array:
    """Joins arrays along an axis. Each array costs one copy.

    Args:
        arrays: Tensors or numpy arrays whose shapes may differ in the size of that axis only.
            Different dtypes are promoted (f16 with f32 gives f32, an int with a float gives the
            float).
        axis: The axis; None joins all elements in C order.
        dim: Another name for axis.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes differ in another axis, or the axis does not exist.
        DTypeError: `out` does not have the promoted dtype.
        ArgumentError: no arrays.
    """
    if dim is not None:
        axis = either("concatenate", "axis", axis, 0, "dim", dim)
    parts, on_host = _tensors("concatenate", arrays, out)
    if axis is None:
        parts, axis = [p.reshape(p.size) for p in parts], 0
    result = _join("concatenate", parts, integer("concatenate", "axis", axis), out)
    return result.numpy() if on_host else result


cat = concatenate  # torch's name


@again
@whole
def stack(
    arrays: Sequence[Array], axis: int = 0, *, dim: int | None = None, out: Tensor | None = None
) -> Array:
    """Stacks arrays of one shape along a new axis. Each array costs one copy.

    Args:
        arrays: Tensors or numpy arrays of one shape. Different dtypes are promoted.
        axis: The position of the new axis in the result.
        dim: Another name for axis.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes differ, or the result has no such axis.
        DTypeError, ArgumentError: as `concatenate`.
    """
    if dim is not None:
        axis = either("stack", "axis", axis, 0, "dim", dim)
    parts, on_host = _tensors("stack", arrays, out)
    result = _join("stack", parts, integer("stack", "axis", axis), out)
    return result.numpy() if on_host else result


def _tensors(op: str, arrays: Sequence[Array], out: Tensor | None) -> tuple[list[Tensor], bool]:
    """All arrays as tensors of one device, and True if all were numpy arrays."""
    if out is not None and not isinstance(out, Tensor):
        raise DTypeError(f"[{op}] out must be a pykernels.Tensor but is {type_name(out)}")
    given = list(arrays) if isinstance(arrays, (list, tuple)) else []
    for a in given:
        if not isinstance(a, (Tensor, np.ndarray)):
            raise DTypeError(
                f"[{op}] arrays must hold pykernels.Tensors or numpy arrays but has {type_name(a)}"
            )
    if not given:
        raise ArgumentError(f"[{op}] arrays must be a list of one or more but is {arrays!r:.40}")
    first = next((a for a in (*given, out) if isinstance(a, Tensor)), None)
    for a in given if first is None else ():
        # without a Tensor, nothing is converted, and float64 is refused here
        dtype_of(a.dtype, f"[{op}] array dtype")
    device = default_device() if first is None else first.device
    tensors = [a if isinstance(a, Tensor) else device.tensor(a) for a in given]
    return tensors, first is None


def _join(op: str, parts: list[Tensor], axis: int, out: Tensor | None) -> Tensor:
    """Copy each part into its slice of the result."""
    whole, slices = _joined(op, tuple([p._layout for p in parts]), axis)
    if out is None:
        out = parts[0]._fresh(whole)
        kind, storage = type(out), out._storage
        views = [kind(out._context, storage, first, lay) for first, lay in slices]
    elif out.shape != whole.shape:
        raise ShapeError(f"[{op}] out must have shape {whole.shape} but has {out.shape}")
    elif out.dtype != whole.dtype.name:
        raise DTypeError(f"[{op}] out must be {whole.dtype.name} but is {out.dtype}")
    else:
        # A copy must not overwrite elements that a later copy reads.
        parts = [p.copy() if p._block is out._block else p for p in parts]
        sizes = [1] * len(parts) if op == "stack" else [p.shape[axis] for p in parts]
        views = cut(out, axis % out.ndim, [0, *accumulate(sizes)])
    copy = out._context.copy
    for part, view in zip(parts, views, strict=True):
        if part.dtype == "int64" != out.dtype:
            part = narrowed(op, "arrays", part)
        run(copy, (part, view))
    return out


@functools.lru_cache(maxsize=4096)
def _joined(
    op: str, layouts: tuple[Layout, ...], axis: int
) -> tuple[Layout, tuple[tuple[int, Layout], ...]]:
    """The layout of the result, and for each part, its first byte and its layout in the result."""
    shapes = [lay.shape for lay in layouts]
    shape = shapes[0]
    told = ", ".join(map(str, shapes))
    if op == "stack":
        at = axis_of(op, axis, len(shape) + 1)
        if any(s != shape for s in shapes):
            raise ShapeError(f"[stack] arrays must have one shape but have {told}")
        shape, sizes = (*shape[:at], 1, *shape[at:]), [1] * len(shapes)
    else:
        at = axis_of(op, axis, len(shape))
        if any((*s[:at], shape[at], *s[at + 1 :]) != shape for s in shapes):
            raise ShapeError(
                f"[{op}] arrays must have one shape except along axis {axis} but have {told}"
            )
        sizes = [s[at] for s in shapes]
    dtype = functools.reduce(promote, [lay.dtype.name for lay in layouts])
    whole = contiguous_layout((*shape[:at], sum(sizes), *shape[at + 1 :]), DTYPES[dtype])
    firsts = [0, *accumulate(n * whole.strides[at] for n in sizes)]
    slices = []
    for size, first in zip(sizes, firsts, strict=False):
        part = (*shape[:at], size, *shape[at + 1 :])
        slices.append((first, layout(part, whole.strides, whole.dtype)))
    return whole, tuple(slices)


# -- repeating ------------------------------------------------------------------------------------


@again
@whole
def repeat(
    x: Array, repeats: int | Counts, axis: int | None = None, *, dim: int | None = None
) -> Array:
    """Repeat each element `repeats` times along an axis; its copies are next to each other (numpy).

    Args:
        x: Tensor or numpy array, any dtype.
        repeats: One number for all elements, or a host sequence with a number for each element.
        axis: The axis; None takes all elements in C order.
        dim: Another name for axis.

    Raises:
        ShapeError: the axis does not exist, or has another number of elements.
        ArgumentError: repeats are negative, or not integers.
    """
    if dim is not None:
        axis = either("repeat", "axis", axis, None, "dim", dim)
    call = Call(_REPEAT, x)
    src = call.tensor("src", x)
    if axis is None:
        src, axis = src.reshape(src.size), 0
    at = axis_of("repeat", axis, src.ndim)
    if isinstance(repeats, (list, tuple, np.ndarray)):
        try:
            counts = np.asarray(repeats)
        except ValueError:  # lists of different lengths
            raise ArgumentError(
                f"[repeat] repeats must be integers of 0 or more but are {repeats!r:.60}"
            ) from None
        if counts.ndim:
            return call.leave(_repeat_each(call, src, at, counts))
    count = integer("repeat", "repeats", repeats)
    if count < 0:
        raise ArgumentError(f"[repeat] repeats must be 0 or more but is {count}")
    shape = src.shape
    view = src[along(at + 1, None)]
    view = view.broadcast_to((*shape[: at + 1], count, *shape[at + 1 :]))
    result = call.out((*shape[:at], shape[at] * count, *shape[at + 1 :]), src.dtype)
    run(_REPEAT, (view, result))
    return call.leave(result)


def _repeat_each(call: Call, src: Tensor, at: int, counts: NDArray) -> Tensor:
    """Repeat each element along an axis by its own count: an index names each element as often as
    it repeats."""
    n = src.shape[at]
    if not counts.size:  # an empty list, for which numpy chooses float64
        counts = counts.astype(np.int32)
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ArgumentError(
            f"[repeat] repeats must be integers of 0 or more but are {counts.tolist()!r:.60}"
        )
    if counts.ndim != 1 or counts.size not in (1, n):
        raise ShapeError(
            f"[repeat] repeats must have shape ({n},) for axis {at} of {src.shape} but have "
            f"{counts.shape}"
        )
    index = np.repeat(np.arange(n, dtype=np.int32), counts)
    result = call.out((*src.shape[:at], index.size, *src.shape[at + 1 :]), src.dtype)
    select(_REPEAT_EACH, src, at, src.device.tensor(index), result, False)
    return result


@again
@whole
def tile(x: Array, reps: int | Sequence[int]) -> Array:
    """x, repeated along each axis by the number in `reps` (numpy).

    Missing numbers at the front are 1, and so are missing axes of x.

    Raises:
        ArgumentError: a number is negative, or not an integer.
        LimitError: the copy has more than six axes; a repeated axis counts twice.
    """
    call = Call(_TILE, x)
    src = call.tensor("src", x)
    given = integers("tile", "reps", tuple(reps) if isinstance(reps, (tuple, list)) else (reps,))
    if any(n is None or n < 0 for n in given):
        raise ArgumentError(f"[tile] reps must be 0 or more but are {given}")
    ndim = max(src.ndim, len(given))
    counts = (1,) * (ndim - len(given)) + given
    src = src[(*(None,) * (ndim - src.ndim), ...)]
    shape = src.shape
    view = src[(*(item for _ in range(ndim) for item in (None, slice(None))), ...)]
    view = view.broadcast_to(tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    result = call.out(tuple(n * m for n, m in zip(counts, shape, strict=True)), src.dtype)
    run(_TILE, (view, result))
    return call.leave(result)


@again
@whole
def roll(
    x: Array,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    *,
    dim: int | Sequence[int] | None = None,
) -> Array:
    """Moves the elements by `shift` places along axes, the last elements to the front. Each rolled
    axis doubles the number of launches.

    Args:
        x: Tensor or numpy array, any dtype.
        shift: The number of places, for all axes or for each axis.
        axis: One axis or several; None rolls all elements in C order.
        dim: Another name for axis.

    Raises:
        ShapeError: an axis does not exist or is named twice, or the numbers of shifts and axes
            differ.
        ArgumentError: a shift is not an integer.
    """
    if dim is not None:
        axis = either("roll", "axis", axis, None, "dim", dim)
    call = Call(_ROLL, x)
    src = call.tensor("src", x)
    result = call.out(src.shape, src.dtype)
    source, target = src, result
    if axis is None:
        source, target, axis = src.reshape(src.size), result.reshape(src.size), 0
    axes = axes_of("roll", axis, source.ndim)
    given = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    shifts = tuple([integer("roll", "shift", s) for s in given])
    if len(shifts) != len(axes):
        raise ShapeError(
            f"[roll] shift and axis must have the same length but are {shift} and {axis}"
        )
    pieces = [(source, target)] if source.size else []
    for at, by in zip(axes, shifts, strict=True):
        pieces = [piece for s, t in pieces for piece in _rolled(s, t, at, by)]
    for s, t in pieces:
        run(_ROLL, (s, t))
    return call.leave(result)


def _rolled(s: Tensor, t: Tensor, axis: int, by: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The slices of both parts of a rolled axis, in the source s and in the target t."""
    n = s.shape[axis]
    by %= n
    for there, here in ((slice(by, n), slice(0, n - by)), (slice(0, by), slice(n - by, n))):
        if there.stop > there.start:
            yield s[along(axis, here)], t[along(axis, there)]


# -- borders --------------------------------------------------------------------------------------


@again
@whole
def pad(
    x: Array, pad_width: Any, mode: Mode = "constant", *, constant_values: float = 0,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """x with a border around it.

    Args:
        x: Tensor or numpy array, any dtype.
        pad_width: Numbers of elements (before, after) for each axis, one pair for all axes, or one
            number, as in numpy.
        mode: "constant"; "replicate" repeats the element at the edge (numpy: "edge"), "reflect"
            mirrors without repeating it, "circular" continues at the other end (numpy: "wrap"). A
            reflected border must be shorter than the axis; a circular border may be as long as the
            axis (torch).
        constant_values: The number in a constant border.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the widths do not fit the axes, or are too large for the mode.
        ArgumentError: a width is negative, the mode is unknown, or the dtype cannot hold the
            number.
    """
    call = Call(_pad.KERNEL, x, out=out)
    src = call.tensor("src", x)
    try:
        before, shape = _bordered(src.shape, pad_width)
    except TypeError:  # a list or an array of widths
        before, shape = _bordered.__wrapped__(src.shape, pad_width)
    result = call.out(shape, src.dtype)
    named: Any = _ALIASES.get(mode, mode) if isinstance(mode, str) else mode
    _pad_wrapper.pad(src, result, value=constant_values, before=before, mode=named)
    return call.leave(result)


@functools.lru_cache(maxsize=4096, typed=True)
def _bordered(shape: Ints, pad_width: Any) -> tuple[Ints, Ints]:
    """The number of border elements before x along each axis, and the shape of the result."""
    widths = _widths(pad_width, len(shape))
    whole = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
    return tuple(a for a, _ in widths), whole


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    try:
        given = np.asarray(pad_width)
        if given.dtype.kind not in "iu":
            raise TypeError
        widths = np.broadcast_to(given, (ndim, 2))
    except (TypeError, ValueError):
        raise ShapeError(
            f"[pad] pad_width must be integers that repeat to ({ndim}, 2) but is {pad_width!r:.60}"
        ) from None
    if (widths < 0).any():
        raise ArgumentError(f"[pad] pad_width must be 0 or more but is {pad_width!r:.60}")
    return [(int(a), int(b)) for a, b in widths]
