"""Gradients of allocations, summed window by window.

The gradient of an allocation is kept as parts: windows that share no byte, each with its gradient.
The gradient of all other bytes is zero. If a caller asks for the gradient of a window that is the
window of a part, or has its elements in another order, this gradient is returned without a copy.
Memory for a range of bytes is allocated only if windows overlap in other ways. In this way views
need no gradient rules.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from pykernels import functional as F
from pykernels.device import Tensor
from pykernels.dtypes import DType
from pykernels.errors import TapeError
from pykernels.functional._copy_together import copy_together
from pykernels.runtime.observe import Record, recording
from pykernels.runtime.overlap import overlaps_itself
from pykernels.tensors.layout import Ints, Layout, contiguous_layout, layout, merge_axes

from ._entry import Place
from ._rooms import Rooms

__all__ = ["Sums", "reshaped"]


class _Order(NamedTuple):
    """The axes of a window in a fixed order: axes of size 1 and axes that repeat are left out,
    steps are made positive, and the axis with the largest step comes first."""

    repeated: Ints  # the axes with stride 0
    kept: Ints  # the other axes with more than one element, in the order of memory
    flipped: Ints  # the axes with negative steps
    shape: Ints
    strides: Ints
    merged: tuple[Ints, Ints]  # shape and strides after merging axes, with as few axes as possible
    dense: bool  # True: the elements follow one another without gaps
    overlaps: bool  # True: elements share bytes, not counting axes that repeat


@functools.lru_cache(maxsize=4096)
def _order(lay: Layout) -> _Order:
    axes = [a for a, n in enumerate(lay.shape) if n != 1]
    repeated = tuple([a for a in axes if lay.strides[a] == 0])
    kept = sorted((a for a in axes if lay.strides[a]), key=lambda a: -abs(lay.strides[a]))
    shape = tuple([lay.shape[a] for a in kept])
    strides = tuple([abs(lay.strides[a]) for a in kept])
    dims, [steps] = merge_axes(shape, [strides])
    flipped = tuple([a for a in kept if lay.strides[a] < 0])
    dense = len(dims) == 1 and (dims == (1,) or steps == (lay.dtype.itemsize,))
    overlaps = overlaps_itself(layout(shape, strides, lay.dtype))
    return _Order(repeated, tuple(kept), flipped, shape, strides, (dims, steps), dense, overlaps)


class _Part:
    """The gradient of a window.

    At first `grad` has the shape of `layout`, which is the window at `offset`. `bring` puts its
    axes in order, so that windows with another layout can use it. After that, `layout` is None, and
    `strides` are the strides of the window in the order of the axes of `grad`. `fresh`: True if
    nothing else uses the memory of `grad`.
    """

    __slots__ = (
        "dense", "dtype", "fresh", "grad", "hi", "layout", "lo", "merged", "offset", "strides",
    )  # fmt: skip

    def __init__(self, place: Place, grad: Tensor, fresh: bool = False) -> None:
        order, lay = _order(place.layout), place.layout
        self.lo, self.hi = place.lo, place.hi
        self.layout: Layout | None = lay
        self.offset, self.dtype = place.offset, lay.dtype
        self.merged, self.strides, self.dense = order.merged, order.strides, order.dense
        self.grad, self.fresh = grad, fresh
        if order.repeated:
            self.bring()

    def is_of(self, place: Place) -> bool:
        """True if the gradient was given for the same window, with the same axes."""
        return self.layout is place.layout and self.offset == place.offset

    def bring(self) -> None:
        """Put the axes in order; a dense part gets one axis."""
        if self.layout is not None:
            self.grad, self.layout = _in_order(self.grad, _order(self.layout)), None
        if self.dense and self.grad.contiguous:
            self.grad, self.strides = reshaped(self.grad, (-1,)), (self.dtype.itemsize,)

    def flatten(self) -> None:
        """Give a dense part one axis, even if its gradient is not contiguous."""
        if not self.grad.contiguous:
            self.grad, self.fresh = self.grad.copy(), True
        self.bring()

    def __lt__(self, other: _Part) -> bool:
        return self.lo < other.lo


class Sums:
    """The gradients of all allocations so far."""

    def __init__(self, rooms: Rooms | None = None) -> None:
        self._parts: dict[Record, list[_Part]] = {}
        self._rooms = rooms or Rooms({})

    def add(self, place: Place, grad: Tensor) -> None:
        """Add the gradient of a window; it has the shape and the dtype of the window."""
        order = _order(place.layout)
        if order.overlaps:
            raise TapeError(
                f"[tape] gradients cannot be added to a view whose elements overlap (shape "
                f"{place.layout.shape}, strides {place.layout.strides}): copy it first"
            )
        if place.record in self._rooms.open and self._moved_in(place, grad):
            return
        parts = self._parts.get(place.record)
        if parts is None:
            self._parts[place.record] = [_Part(place, grad)]
            return
        if len(parts) == 1 and parts[0].is_of(place):
            _accumulate(parts[0], grad)
            return
        new = _Part(place, grad)
        lo, hi = new.lo, new.hi
        found = _overlapping(parts, lo, hi)
        if not found:
            insort(parts, new)
            return
        new.bring()
        one = found[0]
        if len(found) == 1 and (one.lo, one.merged) == (lo, new.merged) and one.dtype is new.dtype:
            one.bring()
            _accumulate(one, reshaped(new.grad, one.grad.shape))
            return
        dense = _dense(place.record, parts, found, lo, hi, new.dtype)
        if not dense.fresh or recording():
            dense.grad, dense.fresh = dense.grad.copy(), True
        window = _window(dense, lo, new.grad.shape, new.strides)
        F.add(window, new.grad, out=window)

    def partial(self, place: Place) -> Tensor | None:
        """The current sum of a window's gradients, if it is float32 and contiguous and the
        allocation has no other part."""
        parts = self._parts.get(place.record)
        if parts is None or place.record in self._rooms.open or len(parts) > 1:
            return None
        [part] = parts
        alike = part.is_of(place) and part.dtype.name == part.grad.dtype == "float32"
        return part.grad if alike and part.grad.contiguous else None

    def replace(self, place: Place, grad: Tensor) -> None:
        """Replace the gradient that `partial` returned by `grad`, which includes it."""
        [part] = self._parts[place.record]
        part.grad, part.fresh = grad, True

    def take(self, place: Place) -> Tensor | None:
        """The gradient of a window; None if no gradient was given for any of its bytes."""
        if place.record in self._rooms.open:
            self._move_out(place.record)
        parts = self._parts.get(place.record)
        if parts is None or not place.flows:
            return None
        if len(parts) == 1 and parts[0].is_of(place):
            parts[0].fresh = False
            return parts[0].grad
        lo, hi = place.lo, place.hi
        found = _overlapping(parts, lo, hi)
        if not found:
            return None
        order = _order(place.layout)
        one = found[0]
        if len(found) > 1 or (one.lo, one.merged) != (lo, order.merged):
            one = _dense(place.record, parts, found, lo, hi, place.layout.dtype)
        one.bring()
        one.fresh = False
        if (one.lo, one.merged) == (lo, order.merged):
            grad = reshaped(one.grad, order.shape)
        else:
            grad = _window(one, lo, order.shape, order.strides)
        return _out_of_order(grad, order, place.layout)

    def pop(self, place: Place) -> Tensor | None:
        """Like `take`, but from now on the gradient of the window is zero, because the call wrote
        the window."""
        grad = self.take(place)
        if grad is None:
            return None
        if len(self._parts[place.record]) == 1 and self._parts[place.record][0].is_of(place):
            del self._parts[place.record]
            return grad
        lo, hi = place.lo, place.hi
        order = _order(place.layout)
        parts = self._parts[place.record]
        [one] = _overlapping(parts, lo, hi)
        if (one.lo, one.merged) == (lo, order.merged):
            self._remove(place.record, one)
        elif order.dense:
            self.clear(place.record, lo, hi)
        else:  # a copy, because the gradient that was returned must not change any more
            one.grad = one.grad.copy()
            _window(one, lo, order.shape, order.strides)[...] = 0
            one.fresh = True
        return grad

    def reached(self, record: Record, lo: int, hi: int) -> bool:
        """True if a gradient was given for any of these bytes."""
        return bool(_overlapping(self._parts.get(record, []), lo, hi))

    def clear(self, record: Record, lo: int, hi: int) -> None:
        """Set the gradient of these bytes to zero."""
        parts = self._parts.get(record, [])
        for part in _overlapping(parts, lo, hi):
            whole = part
            if part.lo < lo or hi < part.hi:
                whole = _dense(record, parts, [part], part.lo, part.hi, part.dtype)
            self._remove(record, whole)
            for a, b in ((whole.lo, lo), (hi, whole.hi)):
                if a < b:
                    n = (b - a) // whole.dtype.itemsize
                    rest = _window(whole, a, (n,), (whole.dtype.itemsize,))
                    lay = contiguous_layout((n,), whole.dtype)
                    insort(parts, _Part(Place(record, lay, a, None), rest))
                    self._parts[record] = parts

    def lend(self, places: Sequence[Place], like: Tensor) -> list[Tensor | None]:
        """For each window, memory for its gradient inside the memory of the whole output, if these
        are the last windows of the output; else None. The gradients of the other windows are copied
        there."""
        found: list[Tensor | None] = [None] * len(places)
        waiting = [i for i, place in enumerate(places) if self._rooms.may(place)]
        while waiting:
            record = places[waiting[0]].record
            own = [i for i in waiting if places[i].record is record]
            waiting = [i for i in waiting if places[i].record is not record]
            parts = self._parts.get(record, [])
            for part in parts:
                part.bring()
            dtype = places[own[0]].layout.dtype
            given = [(layout(p.grad.shape, p.strides, p.dtype), p.lo) for p in parts]
            windows = given + [(places[i].layout, places[i].offset) for i in own]
            if all(p.dtype is dtype for p in parts) and self._rooms.make(windows, record, like):
                room = self._rooms.open[record]
                for part, (lay, lo) in zip(parts, given, strict=True):
                    F.copyto(room.lend(lay, lo, given=True), part.grad)
                self._parts[record] = [_Part(room.place, room.flat)]
                for i in own:
                    found[i] = room.lend(places[i].layout, places[i].offset)
        return found

    def _moved_in(self, place: Place, grad: Tensor) -> bool:
        """True if this gradient lies in its room already. Then nothing is added, because the part
        of the room stands for the gradients of all windows, which are in the room's memory or will
        be written there."""
        record = place.record
        room = self._rooms.open[record]
        if not room.holds(place, grad):
            self._move_out(record)
            return False
        room.lent[place.layout, place.offset] = True
        if all(room.lent.values()):
            self._rooms.close(record)
        return True

    def _move_out(self, record: Record) -> None:
        """Close a room: new memory gets the gradients that were given, and zeros for the other
        windows."""
        room, [part] = self._rooms.open[record], self._parts[record]
        self._rooms.close(record)
        given = [window for window, came in room.lent.items() if came]
        if not given:
            del self._parts[record]
            return
        part.grad, part.fresh = room.flat._fresh(room.flat._layout), True
        part.grad[...] = 0
        for lay, offset in given:
            F.copyto(room.window(lay, offset, part.grad), room.window(lay, offset))

    def _remove(self, record: Record, part: _Part) -> None:
        parts = self._parts[record]
        parts.remove(part)
        if not parts:
            del self._parts[record]


def reshaped(t: Tensor, shape: Ints) -> Tensor:
    """The same as `reshape`, but faster if the shape does not change or t is contiguous."""
    lay = t._layout
    if lay.shape == shape:
        return t
    if lay.contiguous:
        return t._with(contiguous_layout((lay.size,) if shape == (-1,) else shape, lay.dtype))
    return t.reshape(shape)


def _accumulate(part: _Part, grad: Tensor) -> None:
    """Add a gradient to a part, in place if the part owns its memory and no tape may need the
    earlier values."""
    in_place = part.fresh and not recording()
    part.grad = F.add(part.grad, grad, out=part.grad if in_place else None)
    part.fresh = True


def _overlapping(parts: list[_Part], lo: int, hi: int) -> list[_Part]:
    """The parts that share bytes with a window; `parts` are sorted by position."""
    first = bisect_left(parts, lo, key=lambda part: part.hi - 1)
    last = bisect_left(parts, hi, key=lambda part: part.lo)
    return parts[first:last]


def _dense(
    record: Record, parts: list[_Part], found: list[_Part], lo: int, hi: int, dtype: DType
) -> _Part:
    """Replace some parts by one part that has all their bytes and the bytes of a window."""
    for part in found:
        part.bring()
    if any(part.dtype is not dtype for part in found):
        raise TapeError(
            f"[tape] memory is used as {found[0].dtype.name} and as {dtype.name}: its gradients "
            "cannot be added"
        )
    size = dtype.itemsize
    if len(found) == 1 and found[0].lo <= lo and hi <= found[0].hi:
        [one] = found
        if one.dense:
            one.flatten()
            return one
    lo, hi = min(lo, found[0].lo), max(hi, *[part.hi for part in found])
    n = (hi - lo) // size
    lay = contiguous_layout((n,), dtype)
    whole = Place(record, lay, lo, None)
    dense = _Part(whole, found[0].grad._fresh(lay), fresh=True)
    dense.bring()
    if sum(part.grad.size for part in found) < n:
        dense.grad[...] = 0
    flat = [part for part in found if part.dense and part.grad.ndim == 1 and not recording()]
    copy_together(dense.grad, [((part.lo - lo) // size, part.grad) for part in flat])
    together = {id(part) for part in flat}
    for part in found:
        if id(part) not in together:
            F.copyto(_window(dense, part.lo, part.grad.shape, part.strides), part.grad)
        parts.remove(part)
    insort(parts, dense)
    return dense


def _window(dense: _Part, lo: int, shape: Ints, strides: Ints) -> Tensor:
    """The gradient of a window with ordered axes, as a view of a dense part."""
    return dense.grad._view(shape, strides, dense.grad._offset + lo - dense.lo)


def _in_order(grad: Tensor, order: _Order) -> Tensor:
    """A gradient with the axes of `_Order`, summed over axes that repeat."""
    if order.repeated:
        grad = F.sum(grad, axis=order.repeated, keepdims=True)
    if order.kept == tuple(range(len(grad._layout.shape))) and not order.flipped:
        return grad
    steps = [-s if a in order.flipped else s for a, s in enumerate(grad.strides)]
    offset = grad._offset
    for a in order.flipped:
        offset += (grad.shape[a] - 1) * grad.strides[a]
    return grad._view(order.shape, [steps[a] for a in order.kept], offset)


def _out_of_order(grad: Tensor, order: _Order, lay: Layout) -> Tensor:
    """A gradient with the axes of `_Order`, in the shape of the layout."""
    shape, strides, offset = list(lay.shape), [0] * len(lay.shape), grad._offset
    for a, step in zip(order.kept, grad.strides, strict=True):
        strides[a] = step
        if a in order.flipped:
            offset += (shape[a] - 1) * step
            strides[a] = -step
    for a in reversed(range(len(shape))):
        if a not in order.kept:  # the axis has size 1, so any step is right
            after = a + 1 < len(shape)
            strides[a] = shape[a + 1] * strides[a + 1] if after else grad.itemsize
    return grad._view(shape, strides, offset)
