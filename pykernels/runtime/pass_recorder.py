"""Records launches into a compute pass of the caller."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any

from pykernels.errors import BufferStateError, OutOfMemoryError

from .blocks import Block, OfPass, Storage
from .bound import Call, Command, Params
from .context import Context
from .dispatch import Prepared
from .engine import Engine
from .faults import Faults, Page
from .memory import Pool
from .owners import Check
from .recorder import Recorder, promised, refuse_unwritten
from .scopes import Scope

__all__ = ["PassRecorder", "recording"]


class PassRecorder:
    """Records into a compute pass of the caller, who may end and submit it at any time.

    So its uniform buffers are never reused, and the buffers of its tensors and scratch never
    return to the pool.
    """

    arena = None  # new tensors come from the pool
    program = None  # no program is captured

    def __init__(
        self, engine: Engine, device: Any, pool: Pool, faults: Faults, batches: Recorder,
        pass_: Any,
    ) -> None:  # fmt: skip
        self._batches = batches
        self._engine = engine
        self._device = device
        self._pool = pool
        self._faults = faults
        self._pass = pass_
        # The state of the pass, into which several blocks may record.
        self._pending: OfPass = vars(pass_).setdefault("_pykernels_pending", OfPass(pass_))
        self.params = Params(engine, device, pool)
        self._page: Page | None = None
        self._scratch: list[Storage] = []

    def room(
        self, prepared: Prepared, tensors: Sequence[Any]
    ) -> tuple[Sequence[Block], Page | None]:
        """Scratch for a call, and a page of faults in which its launches have slots."""
        prepared.compile()
        if self.params.used + len(prepared.dispatches) > self.params.slots:
            self.params = Params(self._engine, self._device, self._pool)
        page = None
        if prepared.reports:
            if self._page is not None and not self._page.has_room(len(prepared.watched)):
                self.leave_page()
            if self._page is None:
                self._page = self._faults.recorded()
            page = self._page
        try:
            self._pool.require(prepared.scratch)
        except OutOfMemoryError:
            self._pool.withdraw(promised(tensors))
            raise
        self._scratch = [self._pool.take(n) for n in prepared.scratch]
        return [s.block for s in self._scratch], page

    def record(self, call: Call, scalars: Sequence[float], check: Check | None = None) -> bool:
        """Encode a call, after `room` was called for it."""
        checks = () if check is None else (check,) * call.slots
        page = call.page
        # Other threads may have recorded launches on memory that the pool gave to this thread.
        if any(block.mark >= self._batches.serial for block in call.blocks):
            self._batches.flush()
        for block in call.blocks:
            block.reusable = False
            if block.guarded and block.pending is not self._pending:
                refuse_unwritten(block, call.reads, call.label)
            if block.exposed:
                block.inspect(self._pool.buffers, call.label)
        number = 0 if page is None else page.next_slot
        params = self.params
        commands = params.pack(call, scalars, number)
        # This comes before the encoding, because after an interrupt the caller may submit the
        # unfinished pass.
        params.write_slots(params.used, call.count)
        params.used += call.count
        if page is not None:
            page.launches += call.watched
            page.checks += checks
        for block in call.writes:
            block.wait_for(self._pending)
        self._engine.begin()
        try:
            encode_whole(self._engine.lib, self._pass._internal, commands)
        finally:
            self._engine.end(call.label)
        return True

    def leave_page(self) -> None:
        """Make later launches use another page of faults."""
        if self._page is not None:
            self._page.closed = True
        self._page = None


@contextmanager
def recording(context: Context, compute_pass: Any) -> Iterator[None]:
    """Record the caller's launches inside the block into the caller's pass."""
    context.refuse_in_capture("record")
    context.flush()
    if not isinstance(compute_pass, context.engine.module.GPUComputePassEncoder):
        raise BufferStateError(
            "[record] compute_pass must be a GPUComputePassEncoder of "
            f"{context.engine.module.__name__} but is {type(compute_pass).__name__}"
        )
    if compute_pass._device is not context.raw:
        raise BufferStateError("[record] the pass belongs to another device")
    if getattr(compute_pass, "_pykernels_ended", False):
        raise BufferStateError("[record] the pass has ended")
    recorder = PassRecorder(
        context.engine, context.raw, context.pool, context.faults, context.recorder, compute_pass
    )
    scope = Scope("record", recorder, context)
    try:
        context.enter(scope)
        yield
    finally:
        scope.open = False
        scope.value = None
        context.leave(scope)
        with context.lock:
            recorder.leave_page()


def encode_whole(lib: Any, raw_pass: Any, commands: Sequence[Command]) -> None:
    """Encode all commands into a caller's pass, or none if a signal comes first."""
    calls: list[tuple[Any, ...]] = []
    for pipeline, group, offset, x, y, z in commands:
        calls += (
            (lib.wgpuComputePassEncoderSetPipeline, raw_pass, pipeline.raw),
            (lib.wgpuComputePassEncoderSetBindGroup, raw_pass, 0, group, 1, offset),
            (lib.wgpuComputePassEncoderDispatchWorkgroups, raw_pass, x, y, z),
        )
    _ = [*starmap(operator.call, calls)]
