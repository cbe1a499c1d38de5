"""What tapes see of a device: each call of a kernel, and every write to memory.

While no tape lives, a launch pays one test of `live` for it, and nothing is kept. Signals may
interrupt any call: a write is marked before it is recorded, so one that happened is never missed.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pykernels.steps import Kernel
from pykernels.tensors.layout import Window

from .blocks import Storage
from .handle import Handle
from .scopes import Scope, entered, innermost

__all__ = [
    "MAX_WINDOWS", "Observer", "Record", "Seen", "StorageWindow", "live", "next_serial", "observe",
    "outputs", "paused", "record_of", "recorders", "recording", "replayed", "taping", "written",
]  # fmt: skip

StorageWindow = tuple[Storage, int, int]  # and the first byte in it, and one past the last
MAX_WINDOWS = 256  # of one allocation that are told apart

# The tapes that may still be asked for gradients. A tape that is gone leaves without Python code.
live: set[weakref.ref[Any]] = set()
_serials = itertools.count(1)
next_serial = _serials.__next__  # of a call, or of a write
_lock = threading.Lock()


class Record:
    """What tapes know of an allocation: the serial of the last write to each of its windows.

    It stands for the allocation where that itself should not be kept.
    """

    __slots__ = ("__weakref__", "writes")

    def __init__(self) -> None:
        self.writes: dict[Window, int] = {}

    def written_since(self, serial: int, lo: int, hi: int) -> bool:
        """Was one of these bytes written by a call with this serial or a later one?"""
        window = Window(lo, hi)
        return any(s >= serial and w.overlaps(window) for w, s in self.writes.items())


class Observer(Protocol):
    """A tape, as launches see it."""

    def begin(
        self, kernel: Kernel, options: tuple[Any, ...], tensors: tuple[Handle | None, ...],
        scalars: tuple[float, ...], serial: int,
    ) -> Any:  # fmt: skip
        """A call is about to be recorded: its entry, None if it gets none."""

    def done(self, entry: Any) -> None:
        """The call was recorded."""

    def interrupted(self, entry: Any) -> None:
        """It was held, and nobody knows whether it ran."""

    def drop(self, entry: Any) -> None:
        """It was refused."""

    def needs(self, t: Handle) -> bool:
        """May a gradient go through it? Then a copy on the host would lose it."""
        ...

    def written(
        self, reads: Iterable[StorageWindow], writes: Iterable[StorageWindow], program: bool
    ) -> None:
        """Memory was written by no kernel of its own: from the host, or by a replayed program."""

    def derived(self, reads: Any, writes: Iterable[StorageWindow]) -> None:
        """A tape has computed gradients from some memory."""


def taping() -> list[Scope]:
    """The blocks of the tapes that record what the caller does, the innermost first.

    What `gradient` calls is recorded by the tapes that its block names, which were entered before
    the tape whose gradients it computes.
    """
    found: list[Scope] = []
    scope, among = entered.get(), None
    while scope is not None:
        if scope.open and scope.mine:
            if scope.what == "gradient":
                among = scope.value if among is None else among & scope.value
            elif scope.what == "tape" and (among is None or scope in among):
                if scope.value() is not None:
                    found.append(scope)
        scope = scope.outer
    return found


def recorders() -> list[Observer]:
    """The tapes that record what the caller does, the innermost first."""
    found = [scope.value() for scope in taping()]
    return [tape for tape in found if tape is not None]


def recording() -> bool:
    """Does a tape record what the caller does? Then a call may keep what its gradient will need."""
    return bool(live) and bool(taping())


def paused(tape: Observer) -> bool:
    """Does the caller stand in a pause of this tape, or of all?"""
    pauses = innermost("pause", on=tape), innermost("pause")
    return any(scope is not None and scope.mine for scope in pauses)


@functools.lru_cache(maxsize=4096)
def outputs(kernel: Kernel) -> tuple[int, ...]:
    """Which of its arguments a kernel writes."""
    return tuple([i for i, arg in enumerate(kernel.args) if arg.role == "out"])


def record_of(storage: Storage) -> Record:
    """The record of an allocation, made when it is first asked for."""
    record: Record | None = getattr(storage, "record", None)
    if record is None:
        with _lock:
            record = getattr(storage, "record", None)
            if record is None:
                record = storage.record = Record()
    return record


class Seen:
    """What tapes have kept of one call."""

    __slots__ = ("_entries", "_serial", "_undo")

    def __init__(
        self, serial: int, undo: list[tuple[dict[Window, int], Window, int]],
        entries: list[tuple[Observer, Any]],
    ) -> None:  # fmt: skip
        self._serial, self._undo = serial, undo
        self._entries = [(tape, entry) for tape, entry in entries if entry is not None]

    def forget(self) -> None:
        """The call was refused."""
        for writes, window, before in self._undo:
            if writes.get(window) == self._serial:
                writes[window] = before
        for tape, entry in self._entries:
            tape.drop(entry)

    def interrupted(self) -> None:
        """The call may have run."""
        for tape, entry in self._entries:
            tape.interrupted(entry)


def observe(
    launch: Callable[..., None], key: tuple[Any, ...], tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...],
) -> None:  # fmt: skip
    """`launch` while a tape lives."""
    kernel: Kernel = key[0]
    scope, tapes = innermost("tape", "gradient"), list[Observer]()
    if scope is not None:
        scope.check(kernel.name)
        tapes = recorders()
        if scope.what == "gradient" and not tapes:  # writes to memory that nobody else knows yet
            launch(key, tensors, scalars, True)
            return
    serial = next_serial()
    entries: list[tuple[Observer, Any]] = []
    undo = []
    try:
        for tape in tapes:
            entries.append((tape, tape.begin(kernel, key[1], tensors, scalars, serial)))
        for i in outputs(kernel):
            t = tensors[i]
            if t is not None:
                undo.append(_mark(record_of(t._storage).writes, t._window, serial))
        launch(key, tensors, scalars, True)
    except Exception:  # nothing was recorded
        Seen(serial, undo, entries).forget()
        raise
    for tape, entry in entries:
        if entry is not None:
            tape.done(entry)
    context = tensors[-1]._context  # type: ignore[union-attr]
    held = context.held() if context.scopes else None
    if held is not None:
        held.seen.append(Seen(serial, undo, entries))


def _mark(
    writes: dict[Window, int], window: Window, serial: int
) -> tuple[dict[Window, int], Window, int]:
    """Keep the serial of a write; where, and what was there before (0: nothing)."""
    if len(writes) >= MAX_WINDOWS and window not in writes:
        known = list(writes)
        union = Window(min(w.start for w in known), max(w.end for w in known))
        latest = max(writes.values())
        writes.clear()
        writes[union] = latest
    before = writes.get(window, 0)
    writes[window] = serial
    return writes, window, before


def written(t: Handle) -> None:
    """The host writes a tensor."""
    start, end = t._window
    replayed((), [(t._storage, start, end)], False)


def replayed(
    reads: Iterable[StorageWindow], writes: Iterable[StorageWindow], program: bool = True
) -> None:
    """A program is replayed, which reads and writes these."""
    scope = innermost("tape", "gradient") if program else None
    if scope is not None:
        scope.check("a program")
    serial = next_serial()
    reads, writes = list(reads), list(writes)
    for storage, lo, hi in writes:
        _mark(record_of(storage).writes, Window(lo, hi), serial)
    for tape in recorders():
        tape.written(reads, writes, program)
