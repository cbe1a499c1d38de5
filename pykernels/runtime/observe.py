"""Reports each launch of a kernel, and every write to memory, to the tapes that live.

If no tape lives, a launch only tests `live`, and nothing is stored. Signals may interrupt any call.
So a write is marked before it is recorded, and no write is missed.
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
from .owners import current
from .scopes import Scope, entered, innermost

__all__ = [
    "MAX_WINDOWS", "Observer", "Record", "Seen", "StorageWindow", "live", "next_serial", "observe",
    "outputs", "paused", "record_of", "recording", "recording_tapes", "replayed", "taping",
    "written",
]  # fmt: skip

StorageWindow = tuple[Storage, int, int]  # storage, first byte, one past the last byte
MAX_WINDOWS = 256  # most windows of one allocation that a record keeps

# The tapes that may still compute gradients. A deleted tape is removed without running Python code.
live: set[weakref.ref[Any]] = set()
_serials = itertools.count(1)
next_serial = _serials.__next__  # numbers calls and writes
_lock = threading.Lock()


class Record:
    """The serial of the last write to each window of an allocation. A tape that must not keep the
    allocation alive keeps this record instead.
    """

    __slots__ = ("__weakref__", "writes")

    def __init__(self) -> None:
        self.writes: dict[Window, int] = {}

    def written_since(self, serial: int, lo: int, hi: int) -> bool:
        """True if a call with this serial or a later serial wrote one of these bytes."""
        return any([s >= serial and a < hi and lo < b for (a, b), s in self.writes.items()])


class Observer(Protocol):
    """The methods of a tape that launches call."""

    def begin(
        self, kernel: Kernel, options: tuple[Any, ...], tensors: tuple[Handle | None, ...],
        scalars: tuple[float, ...], serial: int,
    ) -> Any:  # fmt: skip
        """A call is about to be recorded. Returns its entry, or None if the tape keeps none."""

    def done(self, entry: Any) -> None:
        """The call was recorded."""

    def interrupted(self, entry: Any) -> None:
        """The launch was held, and it is not known whether it ran."""

    def drop(self, entry: Any) -> None:
        """The call was not recorded."""

    def needs(self, t: Handle) -> bool:
        """True if a gradient may pass through the tensor, so a copy on the host would lose it."""
        ...

    def written(
        self, reads: Iterable[StorageWindow], writes: Iterable[StorageWindow], program: bool
    ) -> None:
        """The host or a replayed program wrote memory, without a launch of its own."""

    def derived(self, reads: Any, writes: Iterable[StorageWindow]) -> None:
        """Another tape has computed gradients from this memory."""


def taping() -> list[Scope]:
    """The blocks of the tapes that record the caller's launches, the innermost first.

    A block of `gradient` names the tapes that record the launches of `gradient`: the tapes that
    were entered before the tape whose gradients are computed.
    """
    found: list[Scope] = []
    scope, among, me = entered.get(), None, current()
    while scope is not None:
        if scope.open and scope.owner is me:
            if scope.what == "gradient":
                among = scope.value if among is None else among & scope.value
            elif scope.what == "tape" and (among is None or scope in among):
                if scope.value() is not None:
                    found.append(scope)
        scope = scope.outer
    return found


def recording_tapes() -> list[Observer]:
    """The tapes that record the caller's launches, the innermost first."""
    found = [scope.value() for scope in taping()]
    return [tape for tape in found if tape is not None]


def recording() -> bool:
    """True if a tape records the caller's launches, so a call may keep tensors for its gradient."""
    return bool(live) and bool(taping())


def paused(tape: Observer) -> bool:
    """True if the caller is inside a pause of this tape, or of all tapes."""
    scope, own, every = entered.get(), False, False  # the innermost block of each kind decides
    while scope is not None:
        if scope.what == "pause" and scope.open:
            if scope.on is tape and not own:
                if scope.mine:
                    return True
                own = True
            elif scope.on is None and not every:
                if scope.mine:
                    return True
                every = True
        scope = scope.outer
    return False


@functools.lru_cache(maxsize=4096)
def outputs(kernel: Kernel) -> tuple[int, ...]:
    """The positions of the arguments that a kernel writes."""
    return tuple([i for i, arg in enumerate(kernel.args) if arg.role == "out"])


def record_of(storage: Storage) -> Record:
    """The record of an allocation, made on first use."""
    record: Record | None = getattr(storage, "record", None)
    if record is None:
        with _lock:
            record = getattr(storage, "record", None)
            if record is None:
                record = storage.record = Record()
    return record


class Seen:
    """The notes of tapes about one call, and the serials of earlier writes that the serial of this
    call has replaced."""

    __slots__ = ("_entries", "_serial", "_undo")

    def __init__(
        self, serial: int, undo: list[tuple[dict[Window, int], Window, int]],
        entries: list[tuple[Observer, Any]],
    ) -> None:  # fmt: skip
        self._serial, self._undo = serial, undo
        self._entries = [(tape, entry) for tape, entry in entries if entry is not None]

    def forget(self) -> None:
        """Tell the tapes that the call was refused."""
        for writes, window, before in self._undo:
            if writes.get(window) == self._serial:
                writes[window] = before
        for tape, entry in self._entries:
            tape.drop(entry)

    def interrupted(self) -> None:
        """Tell the tapes that the call may have run."""
        for tape, entry in self._entries:
            tape.interrupted(entry)


def observe(
    launch: Callable[..., None], key: tuple[Any, ...], tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...],
) -> None:  # fmt: skip
    """Call `launch`, and report the call to the tapes. `launch` itself calls this function while a
    tape lives."""
    kernel: Kernel = key[0]
    scope, tapes = entered.get(), list[Observer]()
    mine = scope is not None and scope.open and scope.owner is current()
    if mine and scope.what == "gradient" and not scope.value:  # type: ignore[union-attr]
        # the general way is below; this one is faster for most launches
        launch(key, tensors, scalars, True)
        return
    if mine and scope.what == "tape" and scope.outer is None:  # type: ignore[union-attr]
        tape = scope.value()  # type: ignore[union-attr]
        tapes = [] if tape is None else [tape]
    else:
        scope = innermost("tape", "gradient")
        if scope is not None:
            scope.check(kernel.name)
            tapes = recording_tapes()
            # this launch writes to memory that no other tape knows
            if scope.what == "gradient" and not tapes:
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
    """Store the serial of a write. Returns the window and its previous serial (0: none)."""
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
    """Tell the tapes that the host writes a tensor."""
    start, end = t._window
    replayed((), [(t._storage, start, end)], False)


def replayed(
    reads: Iterable[StorageWindow], writes: Iterable[StorageWindow], program: bool = True
) -> None:
    """Tell the tapes about the replay of a program that reads and writes these windows."""
    scope = innermost("tape", "gradient") if program else None
    if scope is not None:
        scope.check("a program")
    serial = next_serial()
    reads, writes = list(reads), list(writes)
    for storage, lo, hi in writes:
        _mark(record_of(storage).writes, Window(lo, hi), serial)
    for tape in recording_tapes():
        tape.written(reads, writes, program)
