"""Holds the launches of a call, so that a byte budget refuses the call as a whole.

While a device has a budget, the launches and uploads of such a call are held until it ends. Blocks
are promised meanwhile (see `memory`), and the call reuses blocks that it no longer needs. So a
refusal comes before the first buffer is made and before anything runs. An operation that needs the
device before the end of the call, such as a read of a count, runs the launches held so far.
"""

from __future__ import annotations

import functools
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pykernels.errors import OutOfMemoryError

from .blocks import Block, Pending, Storage, storage_of
from .context import budgeted
from .handle import Handle
from .observe import Seen
from .scopes import Scope, entered, innermost, leave

if TYPE_CHECKING:
    from .context import Context
    from .dispatch import Prepared

__all__ = ["Held", "whole"]

P = ParamSpec("P")
R = TypeVar("R")


class _Nothing:
    """The empty contents of a held call's arena, for `Pool.contents`."""

    pages: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.variants: dict[Any, Any] = {}

    def forget(self, blocks: object) -> None:
        pass


class Held:
    """The launches and uploads of one call on one device that have not run yet.

    Attributes:
        arena: the blocks of the call. No other call gets them before its end.
        running: True while the held launches run.
        seen: the notes of tapes about the launches.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.arena = context.pool.arena(self, _Nothing(), Pending())
        self.running = False
        self.seen: list[Seen] = []
        self._made: list[Block] = []
        self._steps: list[Callable[[], object]] = []
        # Stand-ins for the storages of the call's tensors. The launches hold the stand-ins, so a
        # storage is released with its last tensor, and the call reuses its memory.
        self._stand_ins: dict[weakref.ref[Storage], Storage] = {}

    def launch(
        self, run: Callable[..., None], prepared: Prepared, key: tuple[Any, ...],
        tensors: tuple[Handle | None, ...], scalars: tuple[float, ...],
    ) -> None:  # fmt: skip
        """Hold a launch, whose arguments are checked. Needs the lock."""
        for i, format_ in prepared.scalars:
            struct.pack("<" + format_, scalars[i])
        pool, places = self._context.pool, len(prepared.scratch)
        if places:
            pool.kept[self] = max(pool.kept.get(self, 0), places)
            pool.promise_scratch(prepared.scratch)
        handles = tuple([None if t is None else self._stand_in(t) for t in tensors])
        self._steps.append(functools.partial(run, key, handles, scalars, True))

    def upload(self, data: memoryview) -> Storage:
        """Memory that the held launches fill with these contents. They are copied now, because the
        caller owns `data`."""
        storage = self._context.pool.take_for_call(max(data.nbytes, 4), self.arena)
        write = self._context.transfers.upload
        self._steps.append(functools.partial(write, storage.block, 0, memoryview(bytes(data))))
        return storage

    def _stand_in(self, t: Handle) -> Handle:
        if t._block.arena is not self.arena:
            return t  # if the tensor were released, another call would get its memory
        ref = weakref.ref(t._storage)
        storage = self._stand_ins.get(ref)
        if storage is None:
            storage = self._stand_ins[ref] = storage_of(t._block)
            storage.checks = t._storage.checks
        return Handle(t._context, storage, t._offset, t._layout)

    def run(self) -> None:
        """Make the buffers, and run the launches held so far."""
        steps = self._steps
        if not steps:
            return
        self._steps = []
        with self._context.lock:
            self._run(steps)
        for ref, stand_in in self._stand_ins.items():
            storage = ref()
            if storage is not None:
                storage.checks = stand_in.checks
        self._stand_ins.clear()

    def _run(self, steps: Sequence[Callable[[], object]]) -> None:
        pool = self._context.pool
        try:
            self.running = True
            self._make()
            pool.fulfil(pool.temporaries)
            for step in steps:
                step()
        except BaseException:
            for seen in self.seen:
                seen.interrupted()
            raise
        finally:
            self.running = False
            self.seen = []

    def finish(self) -> None:
        """Run the launches that are still held."""
        self.run()
        self._make()  # makes the blocks that no launch has written
        self._made.clear()

    def _make(self) -> None:
        """Make the buffers of the call."""
        new = [block for block in self.arena.blocks if block.promised]
        self._made += new
        self._context.pool.fulfil(new)

    def end(self) -> None:
        """End the call. If it failed, the launches still held do not run, promised blocks are
        dropped, and buffers that were made for it are not pooled."""
        for block in self._made:
            block.reusable = False
        for seen in reversed(self.seen):
            seen.forget()
        self.seen.clear()
        self._steps.clear()
        self._stand_ins.clear()
        pool = self._context.pool
        pool.kept.pop(self, None)
        pool.withdraw([block for block in self.arena.blocks if block.promised])
        if not pool.kept:
            pool.withdraw_scratch()
        pool.dissolve(self.arena)


def whole(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of several launches: under a budget it runs as a whole or not at all."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not budgeted:
            return function(*args, **kwargs)
        return _held(function, args, kwargs)

    return call


def _held(function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    outer = innermost("call")
    if outer is not None and outer.mine:
        return function(*args, **kwargs)
    found = [context for ref in [*budgeted] if (context := ref()) is not None]
    # A device on which the caller captures or records holds no launches: the block of the capture
    # or the pass takes them at once, and the block ends if a launch is refused.
    held = {
        context: Held(context)
        for context in found
        if not context.dead and innermost("capture", "record", on=context) is None
    }
    scope = Scope("call", held)
    refused: OutOfMemoryError | None = None
    try:
        entered.set(scope)
        for context in held:
            context.scopes[scope] = None
            context.noted = True
        result = function(*args, **kwargs)
        for of_device in held.values():
            of_device.finish()
        return result
    except OutOfMemoryError as e:
        refused = e
    finally:
        scope.open = False
        scope.value = None
        for context, of_device in held.items():
            context.scopes.pop(scope, None)
            of_device.end()
        leave(scope)
    # The error is raised without its traceback, because the traceback's frames hold the tensors of
    # the call.
    raise refused.with_traceback(None)
