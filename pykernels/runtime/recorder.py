"""Records launches and submits them in batches.

A launch packs its params and appends all commands of its call to a queue. `flush` encodes the
queue into one compute pass of one encoder. It uses raw C calls of both engines, which take about a
quarter of the time of the Python API. One uniform buffer holds the params of a batch; each submit
writes it once.

Signals may interrupt any call. An interrupted launch has recorded nothing, and an interrupted flush
has submitted nothing and keeps the queue. So there is no call between changes that belong together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from pykernels.errors import BufferStateError, PyKernelsError
from pykernels.wgsl.watch import HEAD, SLOT, SLOTS

from .blocks import Block
from .bound import MAX_LAUNCHES, BatchParams, Call, Calls, Command
from .dispatch import Prepared
from .engine import Engine
from .faults import Faults, Page
from .memory import Pool
from .owners import Check, Owner
from .pace import Pace
from .protocols import Note, TimedBatch, Timer
from .signals import Completion

__all__ = ["Recorder", "promised", "refuse_unwritten"]

# After so many programs that were encoded in advance and not submitted, inputs must come twice as
# often before their program is encoded in advance.
MANY_AHEAD = 16


class Recorder:
    """The recorded launches of one device that are not submitted yet.

    The caller of each method must hold the device's lock.

    Attributes:
        serial: number of the batch that is recorded.
        uploads: how often the host wrote to buffers.
        ahead: how many programs were encoded in advance and not submitted since.
    """

    def __init__(
        self, engine: Engine, device: Any, pool: Pool, faults: Faults, calls: Calls,
        completion: Completion,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._raw_device = device._internal
        self._raw_queue = device.queue._internal
        self._pool = pool
        self._faults = faults
        self._completion = completion
        self.params = BatchParams(engine, device, pool, calls)
        self.pace = Pace()
        self._queue: list[Command] = []
        self._notes: list[Note] = []  # notes for the commands of the queue, if there is a timer
        self._size = self._work = 0.0  # units of all commands in the queue, and of their work alone
        self._exposed: dict[Block, None] = {}
        self.serial = 0
        self.submits = self.uploads = self.ahead = 0
        self.timer: Timer | None = None

    # -- recording ------------------------------------------------------------------------------

    def room(
        self, prepared: Prepared, tensors: Sequence[Any]
    ) -> tuple[Sequence[Block], Page | None]:
        """Scratch for a call, and a page of faults in which its launches have slots."""
        prepared.compile()
        page = self._faults.own(len(prepared.watched)) if prepared.reports else None
        return self._pool.scratch(prepared.scratch, promised(tensors)), page

    def record(self, call: Call, scalars: Sequence[float], check: Check | None = None) -> bool:
        """Record a call as a whole. Returns False if its bind groups do not fit any more.

        `check` belongs to the launches that report indices out of range, if there are any.
        `scalars` are plain numbers: packing them must not run code of the caller. Raises
        struct.error or OverflowError, and records nothing, if they do not fit.
        """
        params, page, watched, order = self.params, call.page, call.watched, call.order
        number = 0
        checks: tuple[Check, ...] = ()
        packed = call.pack(*(scalars if order is None else [scalars[i] for i in order]))
        if len(self._queue) + call.count > MAX_LAUNCHES:
            self.flush()
        if page is not None:
            slots, taken = call.slots, len(page.launches)
            if page is not self._faults.current or taken + slots > SLOTS:
                if page is not self._faults.own(slots):
                    return False
                taken = len(page.launches)
            number = HEAD + SLOT * taken
            if check is not None:  # no call may stand between the statements that record
                checks = (check,) if slots == 1 else (check,) * slots
        pace, serial = self.pace, self.serial
        due = pace.due
        for block in call.blocks:
            if block.guarded:
                refuse_unwritten(block, call.reads, call.label)
                if block.exposed:
                    self._inspect(block, call.label)
                    due = 0.0
            block.mark = serial
        used, kept = params.used, params.serial
        if not watched and (
            packed == call.kept
            or (packed == call.last and params.keep(call, scalars, packed, serial))
        ):
            commands, kept = call.commands, serial
        else:
            again = call.filled.get(used)
            if (
                again is not None and again[0] is params.filled[used]
                and again[1] == number and again[2] == packed
            ):  # fmt: skip
                commands = again[3]
            else:
                commands = params.fill(call, scalars, number, packed)
            used += call.count
        notes = () if self.timer is None else call.notes(time.perf_counter())
        self._queue += commands
        if notes:
            self._notes += notes
        params.used = used
        params.serial = kept
        call.last = packed
        call.serial = serial
        self._size += call.size
        self._work += call.work
        if page is not None:
            page.launches += watched
            page.checks += checks
            self._faults.open = True
        if self._size >= due or self._work >= pace.most:
            self._submit_if_due(shared=not due)
        return True

    def _submit_if_due(self, shared: bool) -> None:
        """Submit, unless a batch is held back. `shared`: the last call uses a buffer that the
        caller holds, and the caller's own queue calls may come next."""
        pace, limit = self.pace, MAX_LAUNCHES
        held = pace.whole if shared else pace.held
        if self._work >= pace.most or not held or len(self._queue) >= limit:
            self.flush()

    def replay(self, program: Any, owner: Owner | None) -> None:
        """Record all commands of a captured program (`program.Variant`), or none of them. `owner`
        is the owner that runs it, or None if the program has no pages of faults."""
        guarded = [block for block in program.blocks if block.guarded]
        for block in guarded:
            if block.pending is not program.pending:
                refuse_unwritten(block, program.needs, "program")
        if owner is not None:
            self._hand_over(program, owner)
        if self._waits_for(program):
            self._submit_whole(program)
            return
        pace, before, shared = self.pace, len(self._queue), False
        for block in guarded:
            if block.exposed:
                self._inspect(block, "program")
                shared = True
        # the number of the last batch that may use these blocks
        last = self.serial + len(program.pieces)
        for block in program.blocks:
            block.mark = last
        notes = () if self.timer is None else program.notes(time.perf_counter())
        self._queue += program.commands
        self._notes += notes
        program.runs[0] += 1
        if program.pending.why:
            program.pending.why = ""
            for block in guarded:
                if block.pending is program.pending:
                    block.settle()
        for count, size, amount in program.pieces:
            before += count
            self._size += size
            self._work += amount
            due = self._size >= pace.due and not pace.held
            if due or self._work >= pace.most or before >= MAX_LAUNCHES:
                self.flush(before)
                before = 0
        if shared and not pace.whole:
            self.flush()

    def _hand_over(self, program: Any, owner: Owner) -> None:
        """Start an owner's next run of a program. The faults of other runs in its pages are
        copied and cleared on the device, without waiting."""
        faults, engine = self._faults, self._engine
        moves = faults.moves(program.pages, owner, (program.mark, self.uploads))
        faults.open = True
        if moves is None:
            return
        if moves.aside:
            self.flush()
        change = map(setattr, moves.pages, repeat("term"), moves.terms)
        if not moves.cleared:
            _ = [*change]
            return
        lib, gc = engine.lib, engine.ffi.gc
        copies = {p.term: p.block.handle for p in moves.aside}
        engine.begin()
        try:
            encoder = gc(
                lib.wgpuDeviceCreateCommandEncoder(self._raw_device, engine.ffi.NULL),
                lib.wgpuCommandEncoderRelease,
            )
            for page in moves.cleared:
                source = page.block.handle
                if page.term in copies:
                    lib.wgpuCommandEncoderCopyBufferToBuffer(
                        encoder, source, 0, copies[page.term], 0, page.nbytes
                    )
                lib.wgpuCommandEncoderClearBuffer(encoder, source, 0, page.nbytes)
            raw = lib.wgpuCommandEncoderFinish(encoder, engine.ffi.NULL)
            commands = gc(raw, lib.wgpuCommandBufferRelease)
        finally:
            engine.end("program")
        buffers = engine.ffi.new("WGPUCommandBuffer[1]", [commands])
        engine.begin()
        try:
            _ = [*map(lib.wgpuQueueSubmit, (self._raw_queue,), (1,), (buffers,))]
            faults.aside += moves.aside
            _ = [*change]
        finally:
            engine.end("program")

    def _waits_for(self, program: Any) -> bool:
        """True if the device is idle and nothing is recorded, so that the program, which has run
        before, is submitted at once."""
        pace = self.pace
        return (
            program.runs[0] > 0 and not self._queue and self.timer is None and not pace.held
            and program.work < pace.most and self._completion.idle()
        )  # fmt: skip

    def _submit_whole(self, program: Any) -> None:
        """Submit a program in one command buffer, and encode the buffer for its next run meanwhile.

        If the program were recorded into growing batches, the device would finish a batch of short
        dispatches before the host has encoded the next batch.
        """
        engine = self._engine
        for block in program.blocks:
            if block.exposed:
                block.inspect(self._pool.buffers, "program")
            block.mark = self.serial
        given = [self._encode(program.commands if program.encoded is None else (), None)]
        if program.encoded is not None:
            # wgpu ends the process at a submit to a lost device; the end of an encoder reports the
            # loss before that. The empty command buffer is submitted too, because wgpu keeps the
            # memory of a command buffer that is never submitted.
            given.append(program.encoded)
        buffers = engine.ffi.new("WGPUCommandBuffer[]", given)
        engine.begin()
        try:
            _ = [*map(engine.lib.wgpuQueueSubmit, (self._raw_queue,), (len(given),), (buffers,))]
            program.encoded = None
            program.runs[0] += 1
            self.ahead -= len(given) - 1
            self.serial += 1
            self.submits += 1
        finally:
            engine.end("submit")
        self._pool.serial = self.serial
        self.pace.submitted(program.work, True)
        # These inputs may be forgotten before they come again, and wgpu keeps the memory of what is
        # never submitted (90 KB on llvmpipe). So its number grows with the logarithm of the runs.
        if program.times >= 2 << self.ahead // MANY_AHEAD:
            program.encoded = self._encode(program.commands, None)
            self.ahead += 1

    def prime(self, command: Command, blocks: Sequence[Block]) -> None:
        """Submit a dispatch of no workgroups by itself, because some drivers compile a pipeline at
        its first dispatch. `blocks` has all blocks that its bind group binds."""
        for block in blocks:
            if block.exposed:
                block.inspect(self._pool.buffers, "warmup")
        engine = self._engine
        pipeline, group, offset, *_ = command
        commands = self._encode([(pipeline, group, offset, 0, 1, 1)], None)
        engine.begin()
        try:
            engine.lib.wgpuQueueSubmit(
                self._raw_queue, 1, engine.ffi.new("WGPUCommandBuffer[1]", [commands])
            )
            self.submits += 1
        finally:
            engine.end("warmup")

    def _inspect(self, block: Block, what: str) -> None:
        """Raise for a caller's buffer that became unusable. A batch calls this once for each
        buffer, and again at its end."""
        if block not in self._exposed:
            block.inspect(self._pool.buffers, what)
            self._exposed[block] = None

    # -- submitting -----------------------------------------------------------------------------

    def flush(self, count: int | None = None) -> None:
        """Submit the recorded commands, or the first `count` of them.

        If the engine refuses the work, all of it is lost. If a signal interrupts, the queue keeps
        it.
        """
        queue, rest, rest_notes = self._queue, [], []
        if not queue:
            return
        if count is not None:
            queue, rest, rest_notes = queue[:count], queue[count:], self._notes[count:]
        engine, timer = self._engine, self.timer
        batch = None if timer is None else timer.batch()
        try:
            for block in self._exposed:
                if block.mark >= self.serial:
                    block.inspect(self._pool.buffers, "submit")
            commands = self._encode(queue, batch)
            self.params.write()
            idle = self._completion.idle()
            buffers = engine.ffi.new("WGPUCommandBuffer[1]", [commands])
            amount, full = self._work, self._size >= self.pace.due
            engine.begin()
        except PyKernelsError:
            self._queue, self._notes, self._exposed = [], [], {}
            self._size = self._work = 0.0
            self.params.used = 0
            self.serial += 1
            raise
        try:
            # wgpu ends the process at a submit to a lost device; encoding raised before that.
            _ = [*map(engine.lib.wgpuQueueSubmit, (self._raw_queue,), (1,), (buffers,))]
            self._queue, self._notes = rest, rest_notes
            self._size = self._work = 0.0
            self.serial += 1
            self.submits += 1
            self.params.used = 0
            if timer is not None:
                timer.done += (batch,)
            if not rest:
                self._exposed = {}
        finally:
            engine.end("submit")
        self._pool.serial = self.serial
        self.pace.submitted(amount, idle, full)

    def _encode(self, queue: Sequence[Command], batch: TimedBatch | None) -> Any:
        """A raw command buffer. If dispatches are timed, each has its own pass."""
        engine = self._engine
        lib, gc, null = engine.lib, engine.ffi.gc, engine.ffi.NULL
        each = batch is not None and self.timer is not None and not self.timer.batches
        step = 1 if each else max(len(queue), 1)
        engine.begin()
        try:
            encoder = gc(
                lib.wgpuDeviceCreateCommandEncoder(self._raw_device, null),
                lib.wgpuCommandEncoderRelease,
            )
            for first in range(0, len(queue), step):
                descriptor = null
                if batch is not None:
                    descriptor = batch.begin(self._notes[first : first + step])
                raw_pass = gc(
                    lib.wgpuCommandEncoderBeginComputePass(encoder, descriptor),
                    lib.wgpuComputePassEncoderRelease,
                )
                encode(lib, raw_pass, queue[first : first + step])
                lib.wgpuComputePassEncoderEnd(raw_pass)
            if batch is not None:
                batch.resolve(encoder)
            commands = lib.wgpuCommandEncoderFinish(encoder, null)
        finally:
            engine.end("submit")
        return gc(commands, lib.wgpuCommandBufferRelease)


def promised(tensors: Sequence[Any]) -> Sequence[Block]:
    """The blocks of a call's new tensors that have no buffers yet."""
    blocks = [t._block for t in tensors if t is not None and t._layout.size]
    return [block for block in blocks if block.promised]


def refuse_unwritten(block: Block, reads: Sequence[Block], label: str) -> None:
    """Raise if a call reads a block that has no values yet. If the call only writes the block,
    allow reads from now on."""
    why = block.unwritten()
    if why and block in reads:
        raise BufferStateError(f"[{label.partition(' ')[0]}] an input {why}")
    if why:
        block.settle()


def encode(lib: Any, raw_pass: Any, commands: Sequence[Command]) -> None:
    """Encode commands into our own pass."""
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_group = lib.wgpuComputePassEncoderSetBindGroup
    run = lib.wgpuComputePassEncoderDispatchWorkgroups
    bound = last = None
    for command in commands:
        pipeline, group, offset, x, y, z = command
        if command is not last:  # else the pass is set up already
            if pipeline is not bound:
                set_pipeline(raw_pass, pipeline.raw)
                bound = pipeline
            set_group(raw_pass, 0, group, 1, offset)
            last = command
        run(raw_pass, x, y, z)
