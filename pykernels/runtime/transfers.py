"""Uploads into and reads of the buffers of one device.

A read submits a copy into a staging buffer under the device's lock. It waits without the lock, and
then copies once from the mapped memory to the caller's memory. Chunks bound the staging memory.

A large write copies once into a staging buffer that is mapped, and submits a copy from there. It
never waits: if no buffer is mapped because the device is still copying, the engine stages the data.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from pykernels.errors import DeviceLostError, OutOfMemoryError

from .blocks import Block
from .buffers import COPY_DST, COPY_SRC
from .engine import Copy, Engine
from .faults import Faults, Snapshot
from .memory import Pool
from .owners import Check, Owner
from .recorder import Recorder
from .signals import MAP_WRITE, SPIN_SOFTWARE, Completion, Signal, pauses

__all__ = ["READ_CHUNK", "Take", "Transfers", "copy_bytes"]

READABLE = 0x1 | COPY_DST
WRITABLE = 0x2 | COPY_SRC
READ_CHUNK = 64 << 20
LARGE = 1 << 20  # bytes
KEPT = 2 * READ_CHUNK  # bytes of free staging buffers for reads, and the same for writes
# Writes of this many bytes go through a staging buffer. The engine stages smaller writes itself,
# without page faults.
STAGED_LEAST, STAGED_MOST = 8 << 20, READ_CHUNK
NDArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
# A function that is called for each chunk, with the chunk's offset in the data and its bytes, which
# are valid until the call returns.
Take: TypeAlias = Callable[[int, memoryview], None]
# The owner that gets the errors, and the checked calls that the data comes from.
Reader: TypeAlias = tuple[Owner, Sequence[Check]]


class Staging:
    """A buffer that is mapped for reading, or for writing, and the signal of its mapping.

    `mapped` is locked while a thread reads its memory.
    """

    __slots__ = ("__weakref__", "_buffer", "mapped", "raw", "signal", "size")

    def __init__(self, buffer: Any, signal: Signal) -> None:
        self._buffer, self.raw, self.signal = buffer, buffer._internal, signal
        self.size: int = buffer.size
        self.mapped = threading.RLock()


class Transfers:
    """Moves whole words between the host and buffers, in order with recorded launches."""

    def __init__(
        self, engine: Engine, device: Any, pool: Pool, recorder: Recorder, lock: threading.RLock,
        faults: Faults, completion: Completion,
    ) -> None:  # fmt: skip
        self._engine, self._device = engine, device
        self._pool, self._recorder, self._lock = pool, recorder, lock
        self._faults, self._completion = faults, completion
        # staging buffers of several sizes, as several threads may read
        self._free: list[Staging] = []
        self._all: weakref.WeakSet[Staging] = weakref.WeakSet()
        # staging buffers that are mapped for writing, or that will be
        self._writers: list[Staging] = []

    def upload(self, block: Block, offset: int, data: memoryview) -> None:
        """Queue a write after recorded launches that use the block. The last word is padded with
        zeros."""
        with self._lock:
            if block.mark >= self._recorder.serial:
                self._recorder.flush()
            if block.exposed:
                self._pool.buffers.inspect(block.buffer, COPY_DST, "write")
            self._recorder.uploads += 1
            whole = len(data) // 4 * 4
            large = STAGED_LEAST <= whole <= STAGED_MOST
            if whole and not (large and self._write_staged(block, offset, data[:whole])):
                self._engine.write(self._device, block.buffer, offset, data[:whole])
            if whole < len(data):
                last = memoryview(bytes(data[whole:]).ljust(4, b"\0"))
                self._engine.write(self._device, block.buffer, offset + whole, last)
            block.settle()

    def _write_staged(self, block: Block, offset: int, data: memoryview) -> bool:
        """Write through a kept staging buffer; False if none is mapped. An interrupt drops the
        staging buffer; if it comes before the submit, nothing is written."""
        staging = self._writer(data.nbytes)
        if staging is None or self._completion.destroyed():
            return False
        if not self._engine.write_from(self._device, staging.raw, block.handle, offset, data):
            return False
        self._engine.signals.map(staging.signal, staging.raw, staging.size, MAP_WRITE)
        self._engine.raise_told("write")
        self._writers.append(staging)
        return True

    def _writer(self, nbytes: int) -> Staging | None:
        """The smallest staging buffer of at least `nbytes` that is mapped for writing. If there is
        none, a new staging buffer; None if the new one is not mapped at once."""
        signals, raw = self._engine.signals, self._device._internal
        fitting = [kept for kept in self._writers if kept.size >= nbytes]
        for kept in sorted(fitting, key=lambda kept: kept.size):
            if signals.done(raw, kept.signal):
                self._writers.remove(kept)
                return kept
        size = 1 << (nbytes - 1).bit_length()
        while self._writers and size + sum([kept.size for kept in self._writers]) > KEPT:
            smaller = [kept for kept in self._writers if kept.size < size]
            if not smaller:
                return None
            self._writers.remove(smaller[0])
        try:
            staging = Staging(self._pool.buffers.create(size, WRITABLE), signals.new("BufferMap"))
        except OutOfMemoryError:
            return None
        signals.map(staging.signal, staging.raw, staging.size, MAP_WRITE)
        self._engine.raise_told("write")
        if signals.done(raw, staging.signal):
            return staging
        self._writers.append(staging)
        return None

    # -- reads ----------------------------------------------------------------------------------

    def read(self, block: Block, offset: int, nbytes: int) -> memoryview:
        """Submit, wait, and read."""
        out = np.empty(nbytes, np.uint8).data
        self.read_into(block, offset, nbytes, functools.partial(copy_bytes, out, 0))
        return out

    def read_into(
        self, block: Block, offset: int, nbytes: int, take: Take, reader: Reader | None = None
    ) -> None:
        """Like `read`, but passes chunk after chunk to `take`. Raise the faults of the reader's
        calls, and of the calls that the data comes from (see `faults`)."""
        for signal in self._read(block, offset, nbytes, take, reader):
            self._completion.wait(signal)

    def submit_read(
        self, block: Block, offset: int, nbytes: int, take: Take, reader: Reader
    ) -> Iterator[Signal]:
        """The steps of `read_into`: the caller passes them to `follow`, or each signal to
        `complete`. The first chunk is submitted here, so it has the current contents of the
        block."""
        steps = self._read(block, offset, nbytes, take, reader)
        return itertools.chain([next(steps)], steps)

    def complete(self, signal: Signal) -> None:
        """Wait for a signal of `submit_read`."""
        self._completion.wait(signal)

    async def follow(self, steps: Iterator[Signal]) -> None:
        """Wait under asyncio for the submitted work; other tasks run meanwhile."""
        for signal in steps:
            for pause in pauses(SPIN_SOFTWARE):  # between pauses other tasks run
                if self._engine.signals.done(self._device._internal, signal):
                    break
                await asyncio.sleep(pause)

    def _read(
        self, block: Block, offset: int, nbytes: int, take: Take, reader: Reader | None
    ) -> Iterator[Signal]:
        """For each chunk: submit, let the caller wait for the yielded signal, and copy."""
        for at in range(0, nbytes, READ_CHUNK):
            n = min(READ_CHUNK, nbytes - at)
            with self._lock:
                self._recorder.flush()
                self._pool.tidy()
                if block.exposed:
                    self._pool.buffers.inspect(block.buffer, COPY_SRC, "read")
                waiting = self._faults.waiting()
                staging = self._start([(block.handle, offset + at, 0, n)], waiting)
            yield staging.signal
            self._finish(staging, n, waiting, functools.partial(take, at))
            with self._lock:
                self._recorder.pace.waited()
                if reader is not None:
                    self._faults.raise_found(*reader)

    def sync(self, owner: Owner, ended: bool = True) -> None:
        """Submit, wait, and raise the faults of an owner's launches, with `ended` also of ended
        owners. Reads the device only if there may be faults."""
        self.poll()
        with self._lock:
            self._recorder.pace.waited()
            self._faults.raise_found(owner, ended=ended)

    def poll(self) -> None:
        """Like `sync`, but keep the faults of launches for their owners."""
        with self._lock:
            self._recorder.flush()
            self._pool.tidy()
            self._engine.begin()
            try:
                idle = self._completion.idle()
            finally:
                self._engine.end("sync")  # here Dawn reports a lost device
            waiting = self._faults.waiting()
            staging = self._start([], waiting) if waiting else None
        if staging is not None:
            self._completion.wait(staging.signal)
            self._finish(staging, 0, waiting, None)
        elif not idle:
            self._completion.wait()
        if self._completion.destroyed():
            raise DeviceLostError("[sync] the device was destroyed")

    def wait(self, deadline: float) -> bool:
        """Wait for the submitted work; False if it is not done at the deadline."""
        return self._completion.destroyed() or self._completion.wait(deadline=deadline)

    # An interrupt between `_start` and `_finish` drops the staging buffer; a staging buffer is
    # reused only after both have ended. The fault pages stay unread.

    def _start(self, copies: list[Copy], waiting: Sequence[Snapshot]) -> Staging:
        """Submit copies of the data and then of fault pages into a buffer that will be mapped."""
        end = copies[0][3] if copies else 0
        for page in waiting:
            copies = [*copies, (page.block.handle, 0, end, page.nbytes)]
            end += page.nbytes
        staging = self._room(end)
        self._engine.copy_and_map(self._device, copies, staging.raw, staging.signal)
        return staging

    def _finish(
        self, staging: Staging, nbytes: int, waiting: Sequence[Snapshot],
        take: Callable[[memoryview], None] | None,
    ) -> None:  # fmt: skip
        """Read the mapped memory: the data, and the fault pages."""
        end = nbytes + sum([page.nbytes for page in waiting])
        parts = []
        # `close` waits for this lock, because closing the device releases the mapping
        with staging.mapped:
            if self._completion.destroyed():
                raise DeviceLostError("[read] the device was lost during the read")
            mapped = self._engine.mapped(staging.raw, end, staging.signal)
            if take is not None:
                take(mapped[:nbytes])
            for page in waiting:
                parts.append(bytes(mapped[nbytes : nbytes + page.nbytes]))
                nbytes += page.nbytes
            self._engine.unmap(staging.raw)
        if waiting:
            with self._lock:
                self._faults.found(waiting, parts)
        if staging.size + sum([kept.size for kept in self._free]) <= KEPT:
            self._free.append(staging)

    def _room(self, nbytes: int) -> Staging:
        """A staging buffer of at least `nbytes`."""
        best: Staging | None = None
        for kept in self._free:
            if kept.size >= nbytes and (best is None or kept.size < best.size):
                best = kept
        if best is not None:
            self._free.remove(best)
            return best
        size = max(min(1 << (nbytes - 1).bit_length(), READ_CHUNK), 65536, nbytes)
        staging = Staging(
            self._pool.buffers.create(size, READABLE), self._engine.signals.new("BufferMap")
        )
        self._all.add(staging)
        return staging

    def close(self, destroy: Callable[[], None] | None = None) -> None:
        """Release the staging buffers, and destroy the device while no thread copies."""
        self._free.clear()
        self._writers.clear()
        with contextlib.ExitStack() as stack:
            for staging in list(self._all):
                stack.enter_context(staging.mapped)
            if destroy is not None:
                destroy()


def copy_bytes(target: memoryview, skip: int, at: int, data: memoryview) -> None:
    """A `Take` that copies into bytes, without the first `skip` bytes of the data."""
    begin, end = max(at, skip), min(at + len(data), skip + len(target))
    source, target = data[begin - at : end - at], target[begin - skip : end - skip]
    if len(source) < LARGE:
        target[:] = source
    else:  # numpy lets other threads run meanwhile, and no variable keeps the mapped memory
        np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(source, np.uint8))
