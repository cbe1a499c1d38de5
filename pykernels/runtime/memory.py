"""GPU buffers: a pool of size classes with exact statistics and a byte budget.

A `Block` is one GPU buffer. A `Storage` is what tensors hold: when the last tensor lets go of it,
its block returns to the pool, or is forgotten where the caller may still use the buffer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykernels.errors import BufferStateError, DeviceLostError, OutOfMemoryError

from .engine import Engine

__all__ = ["Block", "MemoryStats", "Pool", "Storage"]

# The usage flags of WebGPU, the same numbers in both engines.
COPY_SRC, COPY_DST, STORAGE = 0x04, 0x08, 0x80
_NAMES = {COPY_SRC: "COPY_SRC", COPY_DST: "COPY_DST", STORAGE: "STORAGE"}
USAGE = STORAGE | COPY_SRC | COPY_DST


@dataclass(frozen=True)
class MemoryStats:
    """A snapshot of a device's memory, in bytes of whole buffers.

    `current` is held by tensors (and temporaries in flight), `pooled` waits for reuse; `peak` is
    the largest `current + pooled` so far. Buffers made by others are not counted, nor are the
    device's own for params and readbacks.
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
    """One GPU buffer.

    Attributes:
        foreign: the caller made it and owns it.
        exposed: the caller holds it, and may destroy or map it: it is looked at before use.
        reusable: back to the pool when no tensor holds it; not if it is exposed, or used by work
            that the caller submits at any time.
        mark: serial number of the last batch that uses it.
    """

    __slots__ = ("buffer", "exposed", "foreign", "handle", "mark", "reusable", "size")

    def __init__(self, buffer: Any, foreign: bool = False) -> None:
        self.buffer = buffer
        self.handle = buffer._internal
        self.size: int = buffer.size
        self.foreign = self.exposed = foreign
        self.reusable = not foreign
        self.mark = -1


class Storage:
    """Shared ownership of a block by tensors."""

    __slots__ = ("__weakref__", "block", "pool")

    def __init__(self, block: Block, pool: Pool) -> None:
        self.block = block
        self.pool = pool

    def __del__(self) -> None:
        # A finaliser may run at any point of any thread: only an atomic append here. And so late
        # that this module has no names left: no contextlib.
        try:
            if not self.block.foreign:
                self.pool.returned.append(self.block)
        except AttributeError:
            pass


def size_class(nbytes: int) -> int:
    """The smallest class that holds `nbytes`: four classes for each power of two, from 256."""
    if nbytes <= 256:
        return 256
    step = 1 << max((nbytes - 1).bit_length() - 3, 6)
    return -(-nbytes // step) * step


class Pool:
    """The buffers of one device. `lock` is the device's: making room may submit recorded work."""

    def __init__(self, engine: Engine, device: Any, max_size: int, lock: threading.RLock) -> None:
        self._engine = engine
        self._device = device
        self._max_size = max_size // 16 * 16
        self._free: dict[int, list[Block]] = {}
        self._lock = lock
        self._layout: Any = None
        # Blocks that tensors hold. Were they held by storages alone, then garbage collection of a
        # cycle with a tensor in it would finalise the buffer before its block comes back.
        self._taken: set[Block] = set()
        self.returned: deque[Block] = deque()
        self.budget: int | None = None
        self.before_destroy: Callable[[], None] = lambda: None  # submits what uses the buffers
        self.before_release: Callable[[], None] = lambda: None  # forgets what keeps buffers alive
        self._current = self._pooled = self._peak = 0
        self._hits = self._misses = 0

    def _collect(self) -> None:
        gone = False
        while self.returned:
            block = self.returned.popleft()
            self._current -= block.size
            self._taken.remove(block)
            if block.reusable:
                self._pooled += block.size
                self._free.setdefault(block.size, []).append(block)
            else:
                gone = True
        if gone:
            self.before_release()

    def take(self, nbytes: int, data: memoryview | None = None) -> tuple[Storage, bool]:
        """A storage of at least `nbytes`. A new buffer is born with `data` in it (then True)."""
        size = size_class(nbytes)
        if size > self._max_size >= nbytes:
            size = self._max_size
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
            self._taken.add(block)
            self._peak = max(self._peak, self._current + self._pooled)
        return Storage(block, self), written

    def _new(self, size: int, nbytes: int, data: memoryview | None) -> tuple[Block, bool]:
        if nbytes > self._max_size:
            raise OutOfMemoryError(
                f"[memory] {nbytes} bytes are more than the largest buffer of this device, "
                f"{self._max_size}"
            )
        self._fit(size)
        buffer = self.create(size, USAGE, mapped=data is not None)
        if data is not None:
            try:
                buffer.write_mapped(data, 0)
                buffer.unmap()
            except (self._engine.error_class, RuntimeError) as e:
                raise DeviceLostError(f"[memory] a new buffer could not be written: {e}") from None
        return Block(buffer), data is not None

    def create(self, size: int, usage: int, mapped: bool = False) -> Any:
        """A new GPUBuffer outside the statistics; the pool makes room if the device has none."""
        for last in (False, True):
            try:
                return self._device.create_buffer(
                    label="pykernels", size=size, usage=usage, mapped_at_creation=mapped
                )
            except self._engine.error_class as e:
                error = self._engine.error(e, "memory")
                if last or not isinstance(error, OutOfMemoryError):
                    raise error from None
                self.trim()
        raise AssertionError("unreachable")

    def _fit(self, size: int) -> None:
        """Make room for a new buffer inside the budget."""
        if self.budget is None or self._current + self._pooled + size <= self.budget:
            return
        self.trim()
        if self._current + size > self.budget:
            raise OutOfMemoryError(
                f"[memory] {size} more bytes do not fit: {self._current} of the budget of "
                f"{self.budget} are in use"
            )

    def trim(self) -> int:
        """Free all pooled buffers; the bytes freed."""
        with self._lock:
            self._collect()
            if not self._free:
                return 0
            self.before_destroy()
            self.before_release()
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
                self._current, self._peak, self._pooled, len(self._taken),
                sum(len(b) for b in self._free.values()), self._hits, self._misses, self.budget,
            )  # fmt: skip

    # -- buffers that callers hold ---------------------------------------------------------------

    def adopt(self, buffer: Any) -> Storage:
        """A storage around a buffer that the caller owns."""
        self.inspect(buffer, STORAGE, "from_buffer")
        return Storage(Block(buffer, foreign=True), self)

    def inspect(self, buffer: Any, usage: int, what: str) -> None:
        """Raise if a buffer that others hold cannot be used: a submit would end the process."""
        if buffer._internal is None:
            raise BufferStateError(f"[{what}] the buffer has been released")
        if buffer.map_state != "unmapped":
            raise BufferStateError(
                f"[{what}] the buffer must be unmapped but its map state is {buffer.map_state}"
            )
        if not buffer.usage & usage:
            raise BufferStateError(f"[{what}] the buffer lacks the usage flag {_NAMES[usage]}")
        if buffer.size < 4:
            raise BufferStateError(
                f"[{what}] the buffer must have 4 bytes or more but has {buffer.size}"
            )
        with self._lock:
            if self._layout is None:
                self._layout = storage_layout(self._engine, self._device)
            self._engine.probe(self._device, self._layout, buffer)


def storage_layout(engine: Engine, device: Any) -> Any:
    """The bind group layout of one storage buffer."""
    kind = {"type": "storage"}
    try:
        return device.create_bind_group_layout(
            entries=[{"binding": 0, "visibility": 4, "buffer": kind}]
        )
    except engine.error_class as e:
        raise engine.error(e, "buffer") from None
