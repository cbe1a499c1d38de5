"""Captures chains of calls once and replays them, as CUDA graphs do for CUDA.

A captured call is planned, bound and packed like any other call, but its commands, params and
memory belong to the program. A replay appends these commands to the device's batch. If the device
is idle, the replay instead submits a command buffer that was encoded during the previous replay.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pykernels.errors import BufferStateError, DTypeError

from .blocks import Arena, Block, Storage
from .bound import MAX_LAUNCHES, Call, Params
from .context import Context
from .dispatch import Prepared
from .faults import Page
from .handle import Handle
from .owners import Check
from .pipelines import Compiling
from .program import Captured, Place, Program, Recording
from .scopes import Scope

__all__ = ["capturing"]


class CaptureRecorder:
    """Turns the launches of a block into the commands of a program."""

    def __init__(
        self, context: Context, recording: Recording, arena: Arena, program: Program
    ) -> None:
        self.arena: Arena | None = arena
        self.program = weakref.ref(program)
        self._context = context
        self._recording = recording
        self._scratch: list[Storage] = []
        self._tensors: Sequence[Handle | None] = ()
        self._page: Page | None = None
        self.params = Params(context.engine, context.raw, context.pool, 16)
        self.compiling = Compiling()
        self._written: list[Params] = []

    def room(
        self, prepared: Prepared, tensors: Sequence[Handle | None]
    ) -> tuple[Sequence[Block], Page | None]:
        """Scratch for a call, and a page of faults in which its launches have slots."""
        count, context = len(prepared.dispatches), self._context
        # for a device bound to one thread, that thread compiles at the end
        if context.thread is None:
            self.compiling.start([d.pipeline for d in prepared.dispatches])
        if self.params.used + count > self.params.slots:
            slots = min(max(2 * self.params.slots, count), MAX_LAUNCHES)
            self._written.append(self.params)
            self.params = Params(context.engine, context.raw, context.pool, slots)
        page = None
        if prepared.reports:
            watched = len(prepared.watched)
            if self._page is None or not self._page.has_room(watched):
                self._page = context.faults.program(self._recording.runs, context.caller())
                self._recording.pages.append(self._page)
            page = self._page
        self._scratch = [context.pool.take(n, arena=self.arena) for n in prepared.scratch]
        self._tensors = tensors
        return [s.block for s in self._scratch], page

    def record(self, call: Call, scalars: Sequence[float], check: Check | None = None) -> bool:
        """Append a call, after `room` was called for it. The owner who runs the program gets its
        errors."""
        recording, page = self._recording, call.page
        number = 0 if page is None else page.next_slot
        commands = self.params.pack(call, scalars, number)
        places = tuple(
            None if t is None else Place(t._block, t._offset, t._window) for t in self._tensors
        )
        storages = [
            t._storage for t in self._tensors if t is not None and t._block.arena is not self.arena
        ]
        windows = [
            None if t is None else (weakref.ref(t._storage), t._window.start, t._window.end)
            for t in self._tensors
        ]
        written = call.prepared.written
        writes = [w for i, w in enumerate(windows) if w is not None and i in written]
        reads = [w for i, w in enumerate(windows) if w is not None and i not in written]
        first = len(recording.commands)
        scratch = tuple(Place(s.block, 0, (0, s.block.size)) for s in self._scratch)
        captured = Captured(call.prepared, places, scratch, self.params, page, first)
        recording.commands += commands
        recording.calls += (call,)
        recording.captured += (captured,)
        recording.storages += storages
        recording.reads |= dict.fromkeys(reads)
        recording.writes |= dict.fromkeys(writes)
        self.params.used += call.count
        if page is not None:
            page.launches += call.watched
        self._scratch, self._tensors = [], ()  # so that these blocks and tensors can be released
        return True

    def finish(self) -> None:
        """Write all params."""
        for params in (*self._written, self.params):
            params.write()


@contextmanager
def capturing(
    context: Context, inputs: Mapping[str, Any], compiled: bool = True
) -> Iterator[Program]:
    """Capture the launches of this thread or task inside the block. With `compiled`, all pipelines
    are ready at the end; otherwise threads continue to compile them."""
    context.check()
    context.refuse("capture", "inside another one or in a recorded pass")
    for name, t in inputs.items():
        if not isinstance(t, Handle):
            raise DTypeError(
                f"[capture] {name} must be a pykernels.Tensor but is {type(t).__name__}"
            )
        if t._context is not context:
            raise BufferStateError(f"[capture] {name} belongs to another device")
    recording = Recording(context, inputs)
    program = Program(recording)
    with context.lock:
        recorder = CaptureRecorder(context, recording, program._arena, program)
    recording.storages += [t._storage for t in inputs.values()]
    scope = Scope("capture", recorder, context)
    try:
        context.enter(scope)
        yield program
    except BaseException:
        recording.fail()
        recorder.compiling.end(cancel=True)
        raise
    finally:
        scope.open = False
        scope.value = recorder.arena = None
        context.leave(scope)
    recorder.compiling.end(cancel=False)
    if compiled:
        recording.compile()
    with context.lock:
        try:
            recorder.finish()
            recording.finish(program._arena)
        except BaseException:
            recording.fail()
            raise
