"""GPU buffers: a pool of size classes with exact statistics and a byte budget.

A `Block` is one GPU buffer. A `Storage` is what tensors hold: when the last tensor lets go of it,
its block returns to the pool (or, for a buffer that somebody else made, is forgotten).
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .engine import Engine
from .errors import BufferStateError, OutOfMemoryError

__all__ = ["Block", "MemoryStats", "Pool", "Storage"]

# STORAGE | COPY_SRC | COPY_DST, the same numbers in both engines.
USAGE = 0x80 | 0x04 | 0x08


@dataclass(frozen=True)
class MemoryStats:
    """A snapshot of a device's memory, in bytes of whole buffers.

    `current` is held by tensors (and temporaries in flight), `pooled` waits for reuse; `peak` is
    the largest `current + pooled` so far. Buffers made by others are not counted.
    """

    current: int
    peak: int
    pooled: int
    live_buffers: int
    pooled_buffers: int
    hits: int
    misses: int
    budget: int | None


class Block:
    """One GPU buffer and the serial number of the last batch that uses it."""

    __slots__ = ("buffer", "foreign", "handle", "mark", "size")

    def __init__(self, buffer: Any, size: int, foreign: bool) -> None:
        self.buffer = buffer
        self.handle = buffer._internal
        self.size = size
        self.foreign = foreign
        self.mark = -1


class Storage:
    """Shared ownership of a block by tensors."""

    __slots__ = ("__weakref__", "block", "pool")

    def __init__(self, block: Block, pool: Pool) -> None:
        self.block = block
        self.pool = pool

    def __del__(self) -> None:
        # A finaliser may run at any point of any thread: only an atomic append here.
        with contextlib.suppress(AttributeError):
            if not self.block.foreign:
                self.pool.returned.append(self.block)


def size_class(nbytes: int) -> int:
    """The smallest class that holds `nbytes`: four classes for each power of two, from 256."""
    if nbytes <= 256:
        return 256
    step = 1 << max((nbytes - 1).bit_length() - 3, 6)
    return -(-nbytes // step) * step


class Pool:
    """The buffers of one device."""

    def __init__(self, engine: Engine, device: Any, max_size: int) -> None:
        self._engine = engine
        self._device = device
        self._max_size = max_size
        self._free: dict[int, list[Block]] = {}
        self._lock = threading.Lock()
        self.returned: deque[Block] = deque()
        self.budget: int | None = None
        self.before_destroy: Callable[[], None] = lambda: None
        self._current = self._pooled = self._peak = 0
        self._live = self._hits = self._misses = 0

    def _collect(self) -> None:
        while self.returned:
            block = self.returned.popleft()
            self._current -= block.size
            self._live -= 1
            self._pooled += block.size
            self._free.setdefault(block.size, []).append(block)

    def take(self, nbytes: int, data: memoryview | None = None) -> tuple[Storage, bool]:
        """A storage of at least `nbytes`. A new buffer is born with `data` in it (then True)."""
        size = size_class(nbytes)
        if size > self._max_size >= nbytes:
            size = self._max_size // 16 * 16
        with self._lock:
            self._collect()
            free = self._free.get(size)
            if free:
                block, written = free.pop(), False
                self._pooled -= size
                self._hits += 1
            else:
                block, written = self._new(size, nbytes, data)
                self._misses += 1
            self._current += size
            self._live += 1
            self._peak = max(self._peak, self._current + self._pooled)
        return Storage(block, self), written

    def _new(self, size: int, nbytes: int, data: memoryview | None) -> tuple[Block, bool]:
        if nbytes > self._max_size:
            raise OutOfMemoryError(
                f"[memory] {nbytes} bytes are more than the largest buffer of this device, "
                f"{self._max_size}"
            )
        self._fit(size)
        mapped = data is not None
        try:
            buffer = self._create(size, mapped)
        except self._engine.error_class as e:
            error = self._engine.error(e, "memory")
            if not isinstance(error, OutOfMemoryError):
                raise error from None
            self._trim()
            try:
                buffer = self._create(size, mapped)
            except self._engine.error_class as e2:
                raise self._engine.error(e2, "memory") from None
        if data is not None:
            buffer.write_mapped(data, 0)
            buffer.unmap()
        return Block(buffer, size, False), mapped

    def _create(self, size: int, mapped: bool) -> Any:
        return self._device.create_buffer(
            label="pykernels", size=size, usage=USAGE, mapped_at_creation=mapped
        )

    def _fit(self, size: int) -> None:
        """Make room for a new buffer inside the budget."""
        if self.budget is None or self._current + self._pooled + size <= self.budget:
            return
        self._trim()
        if self._current + size > self.budget:
            raise OutOfMemoryError(
                f"[memory] {size} more bytes do not fit: {self._current} of the budget of "
                f"{self.budget} are in use"
            )

    def trim(self) -> int:
        """Free all pooled buffers; the bytes freed."""
        with self._lock:
            self._collect()
            return self._trim()

    def _trim(self) -> int:
        self.before_destroy()  # recorded launches may use them: submit first
        freed = 0
        for blocks in self._free.values():
            for block in blocks:
                block.buffer.destroy()
                freed += block.size
        self._free.clear()
        self._pooled -= freed
        return freed

    def stats(self) -> MemoryStats:
        with self._lock:
            self._collect()
            return MemoryStats(
                self._current, self._peak, self._pooled, self._live,
                sum(len(b) for b in self._free.values()), self._hits, self._misses, self.budget,
            )  # fmt: skip

    def adopt(self, buffer: Any) -> Storage:
        """A storage around a buffer that somebody else made and keeps owning."""
        check_foreign(buffer)
        return Storage(Block(buffer, buffer.size, True), self)


def check_foreign(buffer: Any) -> None:
    """Refuse a foreign buffer that a launch could not bind."""
    if buffer._internal is None:
        raise BufferStateError("[buffer] the buffer has been released")
    if buffer.map_state != "unmapped":
        raise BufferStateError(f"[buffer] the buffer is {buffer.map_state}: unmap it first")
    if not buffer.usage & 0x80:
        raise BufferStateError("[buffer] the buffer lacks the usage flag STORAGE")
