"""Traces a call of a function, and gives the trace the form that `again` keeps."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pykernels.device import Tensor, _Tensor
from pykernels.runtime.blocks import Storage
from pykernels.runtime.handle import Handle
from pykernels.steps import Kernel
from pykernels.tensors.layout import Layout
from pykernels.tensors.quantised import QTensor

__all__ = ["TENSOR", "Kept", "Step", "Trace", "Untraceable", "keep", "planes_of"]

MAX_STEPS = 64  # most launches of a kept call
MAX_WRITTEN = 1 << 12  # most bytes that a kept call writes to the device
TENSOR: Any = _Tensor  # the class of all tensors


class Step(NamedTuple):
    """One launch of a kept call."""

    # for each piece of new memory: its slot, its number of bytes, and its layout
    new: tuple[tuple[int, int, Layout], ...]
    # for each view: its slot, the slot of which it is a view, its layout, and its first byte,
    # counted from the first byte of that slot's tensor
    views: tuple[tuple[int, int, Layout, int], ...]
    kernel: Kernel
    options: tuple[Any, ...]
    scalars: tuple[float, ...]
    pick: Callable[[list[Any]], tuple[Any, ...]]  # picks the launch's tensors from the slots
    last: tuple[int, ...]  # the slots that no later launch uses


class Kept(NamedTuple):
    """A kept call. When the call is repeated, its slots hold the arguments first, then constants,
    new memory and views; the last slot holds None."""

    caps: object  # the device's `caps` at the call; with another tuning table, plans may differ
    constants: tuple[tuple[int, Callable[[], Storage | None], int, Layout], ...]
    more: tuple[None, ...]  # empty slots that follow the arguments
    steps: tuple[Step, ...]
    # memory and views that only the result uses, in the form of `Step`
    new: tuple[tuple[int, int, Layout], ...]
    views: tuple[tuple[int, int, Layout, int], ...]
    result: Any  # a slot, or a function and the forms of its arguments


class Untraceable(Exception):
    """The call cannot be kept."""


class Trace:
    """The allocations and launches of a call while it runs."""

    def __init__(self) -> None:
        self.whole = True  # False if the call did more than allocate, launch and write a few bytes
        self.new: dict[weakref.ref[Storage], int] = {}
        self.written: dict[weakref.ref[Storage], Storage] = {}  # storages that the host wrote
        self.launches: list[tuple[tuple[Any, ...], list[Any], tuple[float, ...]]] = []

    def allocated(self, storage: Storage, nbytes: int) -> None:
        self.new[weakref.ref(storage)] = nbytes

    def launched(
        self, key: tuple[Any, ...], tensors: tuple[Handle | None, ...], scalars: tuple[float, ...]
    ) -> None:
        # The trace has only weak references to storages, so that memory of the call is reused in
        # the same way as without a trace.
        seen = [None if t is None else (weakref.ref(t._storage), t._offset, t._layout)
                for t in tensors]  # fmt: skip
        self.launches.append((key, seen, scalars))

    def uploaded(self, storage: Storage, nbytes: int) -> None:
        self.written[weakref.ref(storage)] = storage
        self.whole &= nbytes <= MAX_WRITTEN

    def spoil(self) -> None:
        """Note that the call did something that a repetition would leave out. So the call is not
        kept."""
        self.whole = False


def planes_of(q: QTensor) -> list[Tensor]:
    return [q.low, q.scales] if q.high is None else [q.low, q.scales, q.high]


class _Slots:
    """The slots of a call that is traced."""

    def __init__(self, trace: Trace, given: Sequence[Any], used: Sequence[Tensor]) -> None:
        self._trace = trace
        self.count = len(given)
        places = [i for i, t in enumerate(given) if t.__class__ is TENSOR]
        # For each storage: the slot of a tensor in it, and the first byte and the layout of this
        # tensor.
        self._bases = {
            weakref.ref(t._storage): (i, t._offset, t._layout)
            for i, t in zip(places, used, strict=True)
        }
        self._arguments = frozenset(self._bases)
        self._known: dict[tuple[int, Layout, int], int] = {}  # the slot of each known view
        self.constants: list[tuple[int, Callable[[], Storage | None], int, Layout]] = []
        # new memory of the step that is being converted
        self.new: list[tuple[int, int, Layout]] = []
        self.views: list[tuple[int, int, Layout, int]] = []
        self.last: dict[int, int] = {}  # the last step that uses a slot, or a view of it

    def own(self, at: weakref.ref[Storage]) -> bool:
        """True if the memory belongs to an argument, or if the call made it."""
        return at in self._arguments or at in self._trace.new

    def slot(self, at: weakref.ref[Storage], offset: int, lay: Layout, step: int) -> int:
        """The slot of a tensor."""
        base = self._bases.get(at)
        if base is None:
            base = self._bases[at] = self.count, offset, lay
            if at in self._trace.new:
                base = self._bases[at] = self.count, 0, lay
                self.new.append((self.count, self._trace.new[at], lay))
            else:
                self.constants.append((self.count, _lasting(self._trace, at), offset, lay))
            self.count += 1
        slot, first, whole = base
        if at in self._trace.new:
            self.last[slot] = step
        if lay is whole and offset == first:
            return slot
        view = slot, lay, offset - first
        found = self._known.get(view)
        if found is None:
            found = self._known[view] = self.count
            self.views.append((found, *view))
            self.count += 1
        if at in self._trace.new:
            self.last[found] = step
        return found

    def taken(self) -> tuple[tuple[tuple[int, int, Layout], ...], Any]:
        """The new memory and the new views since `taken` was last called."""
        found = tuple(self.new), tuple(self.views)
        self.new, self.views = [], []
        return found


def keep(
    trace: Trace, given: Sequence[Any], used: Sequence[Tensor], result: Any, caps: object
) -> Kept:
    """The kept form of what a call did."""
    if not trace.whole or len(trace.launches) > MAX_STEPS:
        raise Untraceable
    slots = _Slots(trace, given, used)
    steps: list[Any] = []
    for i, (key, tensors, scalars) in enumerate(trace.launches):
        kernel: Kernel = key[0]
        for arg, t in zip(kernel.args, tensors, strict=True):
            if t is not None and arg.role == "out" and not slots.own(t[0]):
                raise Untraceable  # the call changes a constant
        places = [-1 if t is None else slots.slot(t[0], t[1], t[2], i) for t in tensors]
        steps.append((*slots.taken(), kernel, key[1], scalars, places))

    def formed(value: Any) -> Any:
        kind = type(value)
        if kind is TENSOR:
            at = weakref.ref(value._storage)
            if not slots.own(at):
                raise Untraceable
            return slots.slot(at, value._offset, value._layout, len(steps))
        if kind is tuple or kind is list:
            return kind, tuple([formed(v) for v in value])
        if kind is QTensor:
            made = functools.partial(QTensor._of_planes, value.kind, value.shape)
            return made, tuple([formed(t) for t in planes_of(value)])
        if value is None:
            return -1
        raise Untraceable

    form = formed(result)
    new, views = slots.taken()
    made = []
    for i, (fresh, seen, kernel, options, scalars, places) in enumerate(steps):
        ends = tuple([slot for slot, last in slots.last.items() if last == i])
        pick = itemgetter(*places, -1)  # the -1 makes itemgetter return a tuple
        made.append(Step(fresh, seen, kernel, options, scalars, pick, ends))
    more = (None,) * (slots.count + 1 - len(given))
    return Kept(caps, tuple(slots.constants), more, tuple(made), new, views, form)


def _lasting(trace: Trace, at: weakref.ref[Storage]) -> Callable[[], Storage | None]:
    """A function that returns the storage of a constant. If the host wrote the storage in the call,
    the function keeps it alive; otherwise the device owns it."""
    storage = trace.written.get(at)
    return at if storage is None else lambda: storage
