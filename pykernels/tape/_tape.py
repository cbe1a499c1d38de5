"""The tape that users hold."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Self

import numpy as np

from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError, TapeError
from pykernels.host import type_name
from pykernels.plan import Kernel
from pykernels.runtime.handle import Handle
from pykernels.runtime.observe import (
    Record,
    Window,
    active,
    live,
    outputs,
    record_of,
    recorder,
    silent,
)

from ._backward import gradients
from ._entry import Entry, Written, place_of
from ._sums import _order

__all__ = ["Tape"]


class Tape:
    """Records this thread's operations, and gives gradients of what they computed.

        with pk.Tape() as tape:
            loss = pk.mean(pk.square(x @ w - y))
        [dw] = tape.gradient(loss, [w])

    Functions of both layers, operators, conversions and writes into tensors are recorded, on
    tensors of any device; views need no record. Gradients are of first order. The tape keeps what
    its rules will read until it is cleared or gone.

    `len(tape)` is the number of recorded calls.

    Raises:
        TapeError: another tape records in this thread.
    """

    def __init__(self) -> None:
        self._entries: list[Entry | Written] = []
        self._known: set[Record] = set()  # of memory that entries are about
        self._watched: set[Record] | None = None  # None: everything is recorded
        self._leaves: dict[Record, list[Tensor]] = {}
        self._paused = 0
        self._thread: int | None = None
        self._ref: weakref.ref[Tape] | None = None  # in `live`

    def __enter__(self) -> Self:
        thread = get_ident()
        if recorder() is not None:
            raise TapeError("[tape] a tape records in this thread already: one at a time")
        if self._thread is not None:
            raise TapeError("[tape] it records in another thread already")
        self._ref = weakref.ref(self, live.discard)
        live.add(self._ref)
        self._thread = thread
        active[thread] = self._ref
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            active.pop(self._thread, None)
            self._thread = None
        if not self._entries:
            live.discard(self._ref)

    def __len__(self) -> int:
        return sum(isinstance(entry, Entry) for entry in self._entries)

    def __repr__(self) -> str:
        state = "" if self._thread is None else ", recording"
        return f"<pykernels.Tape of {len(self)} calls{state}>"

    def watch(self, *tensors: Tensor) -> None:
        """Record from now on only what depends on watched tensors; writing to one raises.

        Raises:
            DTypeError: not a tensor of a float dtype.
        """
        for i, t in enumerate(tensors):
            _check(t, f"tensors[{i}]", "watch")
        if self._watched is None:
            self._watched = set()
        for t in tensors:
            record = record_of(t._storage)
            self._watched.add(record)
            self._leaves.setdefault(record, []).append(t)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing inside: `with tape.pause(): w -= 0.1 * dw`."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def clear(self) -> None:
        """Forget all recorded calls; what is watched stays watched."""
        self._entries = []
        self._known = set()
        if self._watched is not None:
            self._watched = set(self._leaves)
        if self._thread is None:
            live.discard(self._ref)

    def gradient(self, loss: Tensor, sources: Sequence[Tensor], seed: Any = None) -> list[Tensor]:
        """The gradients of a loss with respect to tensors, each of the tensor's shape and dtype.

        May be called inside the `with` or after it, any number of times, and inside
        `Device.capture`. Uses of a tensor add up.

        Args:
            loss: A tensor that was computed while the tape recorded, float32 or float16.
            sources: Tensors, leaves or results; a gradient is that of the value which the tensor
                held when the recording ended.
            seed: The gradient of the loss, a Tensor, array or number that repeats to its shape;
                None is 1 for a loss of one element.

        Raises:
            TapeError: an operation between them has no rule, or a tensor that a rule needs was
                written since.
            ArgumentError: the loss does not depend on a source; a loss of several elements without
                seed.
            DTypeError: an argument is no tensor of a float dtype.
        """
        _check(loss, "loss", "gradient")
        if isinstance(sources, Tensor) or not isinstance(sources, Iterable):
            raise DTypeError(
                f"[gradient] sources must be a list of tensors but is {type_name(sources)}"
            )
        sources = list(sources)
        for i, t in enumerate(sources):
            _check(t, f"sources[{i}]", "gradient")
        thread = get_ident()
        outer = active.get(thread)
        try:
            active[thread] = silent  # rules write to new tensors only
            places = [place_of(t, False) for t in sources if t.size]
            first = _seed(loss, seed)
            found = gradients(self._entries, place_of(loss, False), first, places)
            own = iter(self._own(found, first))
            return [next(own) if t.size else t.copy() for t in sources]
        finally:
            # No call stands between: a signal may come behind each.
            if outer is None:
                del active[thread]
            else:
                active[thread] = outer

    def _own(self, found: list[Tensor], seed: Tensor) -> list[Tensor]:
        """Contiguous gradients that share no memory with each other or with other tensors."""
        taken: dict[Any, list[tuple[int, int]]] = {seed._storage: [(0, 1 << 62)]}
        own = []
        for grad in found:
            lo, hi = grad._offset + grad._layout.lo, grad._offset + grad._layout.hi
            windows = taken.setdefault(grad._storage, [])
            shared = any(a < hi and lo < b for a, b in windows)
            if shared or not grad.contiguous or record_of(grad._storage) in self._known:
                grad = grad.copy()
            else:
                windows.append((lo, hi))
            own.append(grad)
        return own

    # -- what launches say -----------------------------------------------------------------------

    def begin(
        self, kernel: Kernel, options: tuple[Any, ...], tensors: tuple[Handle | None, ...],
        scalars: tuple[float, ...], serial: int,
    ) -> Entry | None:  # fmt: skip
        """A call is about to be recorded."""
        written = [t for i in outputs(kernel) if (t := tensors[i]) is not None]
        if self._paused:
            self.written((), [_window(t) for t in written], False)
            return None
        watched = self._watched
        if watched is not None:
            for t in written:
                self._refuse_leaf(kernel, t)
            if not any(record_of(t._storage) in watched for t in tensors if t is not None):
                return None
            watched |= {record_of(t._storage) for t in written if t._layout.dtype.kind == "f"}
        entry = Entry(kernel, options, tensors, scalars, serial)
        self._known |= {p.record for p in entry.places if p is not None}
        self._entries.append(entry)
        return entry

    def _refuse_leaf(self, kernel: Kernel, t: Handle) -> None:
        lo, hi = t._offset + t._layout.lo, t._offset + t._layout.hi
        for leaf in self._leaves.get(record_of(t._storage), ()):
            if leaf._offset + leaf._layout.lo < hi and lo < leaf._offset + leaf._layout.hi:
                raise TapeError(
                    f"[tape] {kernel.name} writes to a watched tensor: do it inside tape.pause(), "
                    "after its gradient"
                )

    def done(self, entry: Entry) -> None:
        """The call was recorded."""
        entry.done = True

    def drop(self, entry: Entry) -> None:
        """The call was refused."""
        if self._entries and self._entries[-1] is entry:
            del self._entries[-1]

    def written(self, reads: Iterable[Window], writes: Iterable[Window], program: bool) -> None:
        """Memory was written that no recorded call writes; what is not known does not matter."""
        known = [w for w in writes if program or record_of(w[0]) in self._known]
        if known:
            self._entries.append(Written(list(reads), known, program and not self._paused))


def _check(t: object, name: str, op: str) -> None:
    """Raise unless it is a tensor that may have a gradient."""
    if not isinstance(t, Tensor):
        raise DTypeError(f"[{op}] {name} must be a pykernels.Tensor but is {type_name(t)}")
    if t._layout.dtype.kind != "f":
        raise DTypeError(f"[{op}] {name} must have a float dtype but is {t.dtype}")
    if _order(t._layout).repeated or _order(t._layout).overlaps:
        raise ArgumentError(
            f"[{op}] {name} has elements that share memory (shape {t.shape}, strides "
            f"{t.strides}): take the tensor that it is a view of"
        )


def _window(t: Handle) -> Window:
    return t._storage, t._offset + t._layout.lo, t._offset + t._layout.hi


def _seed(loss: Tensor, seed: Any) -> Tensor:
    """The gradient of the loss."""
    if seed is None:
        if loss.size != 1:
            raise ArgumentError(
                f"[gradient] a loss must have one element but has shape {loss.shape}: give a seed"
            )
        return loss.device.full(loss.shape, 1, loss.dtype)
    if isinstance(seed, (int, float)):
        return loss.device.full((), seed, loss.dtype).broadcast_to(loss.shape)
    if not isinstance(seed, (Tensor, np.ndarray)):
        raise DTypeError(f"[gradient] seed must be a tensor, array or number, not {seed!r}")
    given = loss.device.tensor(seed, loss.dtype)
    try:
        return given.broadcast_to(loss.shape)
    except ShapeError:
        raise ShapeError(
            f"[gradient] seed must repeat to {loss.shape} but has shape {given.shape}"
        ) from None
