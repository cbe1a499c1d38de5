"""The owner of a call: the thread or task that gets the errors that the device finds."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from .blocks import Storage

__all__ = ["Check", "Owner", "check_of", "checks_of", "current", "inherited"]

MAX_CHECKS = 64  # most checks that a storage names; older checks report to their owner only


class Owner:
    """A thread, a task, or a block of `Device.checked`. The object outlives its thread or task. It
    does not use an id, because CPython reuses ids.

    Attributes:
        name: the name in messages.
        closed: True if it makes no more calls, even if the thread or task lives on.
    """

    __slots__ = ("_holder", "closed", "name")

    def __init__(self, holder: Any, name: str) -> None:
        self._holder = weakref.ref(holder)
        self.name = name
        self.closed = False

    @property
    def ended(self) -> bool:
        """True if it makes no more calls."""
        if self.closed:
            return True
        holder = self._holder()
        return holder is None or (isinstance(holder, asyncio.Future) and holder.done())


class _Held:
    """The owner in a thread's local storage; it is deleted with the thread."""

    __slots__ = ("__weakref__", "owner")

    def __init__(self) -> None:
        self.owner = Owner(self, f"thread {threading.current_thread().name!r}")


_running_loop = asyncio._get_running_loop  # takes half the time of `current_task`


class _Local(threading.local):
    held: _Held | None = None


_local = _Local()
_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], Owner] = weakref.WeakKeyDictionary()


def current() -> Owner:
    """The running task, or this thread if no task runs."""
    if _running_loop() is None or (task := asyncio.current_task()) is None:
        held = _local.held
        if held is None:
            held = _local.held = _Held()
        return held.owner
    owner = _tasks.get(task)
    if owner is None:
        owner = _tasks.setdefault(task, Owner(task, f"task {task.get_name()!r}"))
    return owner


class Check:
    """A call whose indices are checked, or one owner's runs of a program that contains such calls.

    Attributes:
        owner: the caller, which gets the errors.
        keeps: True if skipped elements keep their values, so results of other calls stay right.
        open: True if there may be an unreported fault.
    """

    __slots__ = ("keeps", "open", "owner")

    keeps: bool
    open: bool
    owner: Owner


def check_of(owner: Owner, keeps: bool = False) -> Check:
    """A new check. This takes half the time of an `__init__`, which matters because each checked
    call makes a Check."""
    check = Check()
    check.owner, check.keeps, check.open = owner, keeps, True
    return check


def checks_of(storage: Storage) -> tuple[Check, ...]:
    """The checked calls on which the last call that wrote a storage depends."""
    found: tuple[Check, ...] = storage.checks
    return found


def inherited(found: Iterable[Check], owner: Owner, check: Check | None) -> tuple[Check, ...]:
    """The checked calls that the results of a call depend on, from the checks of its inputs. A
    reader of the results gets their errors. `check` is the check of the call itself."""
    named = dict.fromkeys([c for c in found if c.open and (c.owner is owner or not c.keeps)])
    if check is not None:
        named[check] = None
    return tuple(named)[-MAX_CHECKS:]
