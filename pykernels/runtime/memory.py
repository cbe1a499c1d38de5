"""The pool of a device's blocks: size classes, exact statistics and a byte budget.

Signals may interrupt any call: what counts a block and what lists it change together, in
statements without a call between them.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.errors import BufferStateError, OutOfMemoryError

from .blocks import Arena, Block, Lease, Storage, storage_of
from .engine import Engine

__all__ = ["MemoryStats", "Pool"]

# The usage flags of WebGPU, the same numbers in both engines.
COPY_SRC, COPY_DST, STORAGE = 0x04, 0x08, 0x80
_NAMES = {COPY_SRC: "COPY_SRC", COPY_DST: "COPY_DST", STORAGE: "STORAGE"}
USAGE = STORAGE | COPY_SRC | COPY_DST


@dataclass(frozen=True)
class MemoryStats:
    """A snapshot of a device's memory, in bytes of whole buffers.

    `current` is held by tensors and captured programs, `pooled` waits for reuse (the scratch of
    calls among it); `peak` is the largest `current + pooled` so far. Buffers made by others are not
    counted, nor are the device's own for params and readbacks.
    """

    current: int
    peak: int
    pooled: int
    live_buffers: int
    pooled_buffers: int
    hits: int
    misses: int
    budget: int | None


@functools.lru_cache(maxsize=4096)
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
        self._scratch: list[Block] = []
        self._lock = lock
        self._layout: Any = None
        # Blocks that are not free, with the lease of the storage that holds each (None: an arena).
        # Were blocks held by storages alone, then garbage collection of a cycle with a tensor in it
        # would finalise the buffer before its block comes back.
        self._taken: dict[Block, Lease | None] = {}
        self._arenas: dict[Arena, Lease] = {}
        self._returned: deque[Lease] = deque()
        self.budget: int | None = None
        self.before_destroy: Callable[[], None] = lambda: None  # submits what uses the buffers
        self.before_release: Callable[[], None] = lambda: None  # forgets what keeps buffers alive
        self.before_dissolve: Callable[[Any], None] = lambda content: None
        self._stale = False  # must `before_release` be called?
        self._total = self._peak = 0  # bytes of all buffers
        self._hits = self._misses = 0

    def _collect(self) -> None:
        returned = self._returned
        while returned:
            lease: Any = returned[0]
            held: Any = lease.held
            if self._taken.get(held) is lease:
                self._put_back(held, held.arena)
            elif isinstance(held, Arena):
                self._dissolve(held)
            del returned[0]
            lease = held = None  # what a program kept comes back in this loop, too
        if self._stale:
            self.before_release()
            self._stale = False

    def _put_back(self, block: Block, arena: Arena | None) -> None:
        """A block that nobody holds goes where it may be used again: to an arena, or to all."""
        free = self._free if arena is None else arena.free
        size = block.size
        line = free.get(size)
        if line is None:
            line = free[size] = []
        if not block.reusable:
            del self._taken[block]
            self._total -= size
            self._stale = True
        elif arena is None:
            block.arena = None
            del self._taken[block]
            line += (block,)
        else:
            self._taken[block] = None
            line += (block,)

    def _dissolve(self, arena: Arena) -> None:
        """The owner of an arena is gone: its blocks belong to their tensors, or to nobody."""
        blocks = arena.blocks
        while blocks:
            block = blocks[-1]
            if block.arena is arena:
                if self._taken.get(block, arena) is None:
                    self._put_back(block, None)
                block.arena = None
            del blocks[-1]
        self.before_dissolve(arena.content)
        self._arenas.pop(arena, None)

    def contents(self) -> list[Any]:
        """What the arenas keep."""
        with self._lock:
            return [arena.content for arena in self._arenas]

    def take(self, nbytes: int, arena: Arena | None = None) -> Storage:
        """A storage of at least `nbytes`.

        One for an `arena` comes from what is free there, or belongs to it from now on.
        """
        size = self._class(nbytes)
        with self._lock:
            if self._returned:
                storage = self._swap(size, arena)
                if storage is not None:
                    return storage
                self._collect()
            line = arena.free.get(size) if arena is not None else None
            again = bool(line)
            line = line or self._line(size, nbytes)
            block = line[-1]
            storage = storage_of(block)
            lease = Lease(storage, self._returned.append)
            lease.held = block
            del line[-1]
            self._taken[block] = lease
            if again:
                self._hits += 1
            elif arena is not None:
                block.arena = arena
                arena.blocks += (block,)
        return storage

    def _class(self, nbytes: int) -> int:
        """The size of a block for this many bytes."""
        size = size_class(nbytes)
        return self._max_size if size > self._max_size >= nbytes else size

    def _line(self, size: int, nbytes: int) -> list[Block]:
        """The free blocks of a class, one at least."""
        line = self._free.get(size)
        if not line:
            block = self._new(size, nbytes)
            line = self._free.setdefault(size, [])
            line += (block,)
            self._misses += 1
            self._total += size
            if self._total > self._peak:
                self._peak = self._total
        else:
            self._hits += 1
        return line

    def _swap(self, size: int, arena: Arena | None) -> Storage | None:
        """A storage of the block that came back first, if it is of this size: a loop that makes
        the same tensors again needs no list of free blocks."""
        old = self._returned[0]
        block: Any = old.held
        if self._taken.get(block) is not old:
            return None
        if block.size != size or not block.reusable or block.arena is not arena:
            return None
        storage = storage_of(block)
        lease = Lease(storage, self._returned.append)
        lease.held = block
        self._taken[block] = lease
        del self._returned[0]
        self._hits += 1
        return storage

    def arena(self, owner: object, content: Any) -> Arena:
        """An arena whose blocks are free once `owner` is gone."""
        arena = Arena(content)
        lease = Lease(owner, self._returned.append)
        lease.held = arena
        with self._lock:
            self._arenas[arena] = lease
        return arena

    def scratch(self, sizes: Sequence[int]) -> Sequence[Block]:
        """Blocks of these sizes for the temporaries of one call: the n-th is the same for all
        calls, and grows. Launches are in order, so each has it for itself. Counted as pooled."""
        with self._lock:
            return self._scratch_of(sizes)

    def _scratch_of(self, sizes: Sequence[int]) -> Sequence[Block]:
        for _ in range(2):
            for i, nbytes in enumerate(sizes):
                if i >= len(self._scratch) or self._scratch[i].size < nbytes:
                    self._grow_scratch(i, nbytes)
            if len(self._scratch) >= len(sizes):
                return self._scratch[: len(sizes)]
        raise OutOfMemoryError(f"[memory] no room for {sum(sizes)} bytes of scratch")

    def _grow_scratch(self, index: int, nbytes: int) -> None:
        """The block at `index` is replaced by a larger one; nothing, if making room for it freed
        the blocks before it."""
        self._collect()
        if index < len(self._scratch):
            self.before_release()  # calls that know the smaller one
        line = self._line(self._class(nbytes), nbytes)
        have = len(self._scratch)
        block = line[-1]
        if index < have:
            old = self._scratch[index]
            olds = self._free.setdefault(old.size, [])
            del line[-1]
            self._scratch[index] = block
            olds += (old,)
        elif index == have:
            del line[-1]
            self._scratch += (block,)

    def _new(self, size: int, nbytes: int) -> Block:
        if nbytes > self._max_size:
            raise OutOfMemoryError(
                f"[memory] {nbytes} bytes are more than the largest buffer of this device, "
                f"{self._max_size}"
            )
        self._fit(size)
        return Block(self.create(size, USAGE))

    def create(self, size: int, usage: int) -> Any:
        """A new GPUBuffer outside the statistics; the pool makes room if the device has none."""
        for last in (False, True):
            try:
                return self._device.create_buffer(label="pykernels", size=size, usage=usage)
            except self._engine.error_class as e:
                error = self._engine.error(e, "memory")
                if last or not isinstance(error, OutOfMemoryError):
                    raise error from None
                self.trim()
        raise AssertionError("unreachable")

    def _fit(self, size: int) -> None:
        """Make room for a new buffer inside the budget."""
        if self.budget is None or self._total + size <= self.budget:
            return
        self.trim()
        if self._total + size > self.budget:
            raise OutOfMemoryError(
                f"[memory] {size} more bytes do not fit: {self._total} of the budget of "
                f"{self.budget} are in use"
            )

    def trim(self) -> int:
        """Free all pooled buffers; the bytes freed."""
        with self._lock:
            self._collect()
            if not self._free and not self._scratch:
                return 0
            self.before_destroy()
            self.before_release()
            return self._destroy_free()

    def _destroy_free(self) -> int:
        freed = 0
        for line in (self._scratch, *self._free.values()):
            while line:
                block = line[-1]
                del line[-1]
                self._total -= block.size
                freed += block.size
                block.buffer.destroy()
        self._free.clear()
        return freed

    def abandon(self) -> None:
        """After a fork: what tensors let go of stays where it is, and a lock that another thread
        had taken is nobody's."""
        self._returned, self._stale = deque(), False
        self._lock = threading.RLock()

    def stats(self) -> MemoryStats:
        with self._lock:
            self._collect()
            free = [b.size for line in (self._scratch, *self._free.values()) for b in line]
            return MemoryStats(
                self._total - sum(free), self._peak, sum(free), len(self._taken), len(free),
                self._hits, self._misses, self.budget,
            )  # fmt: skip

    # -- buffers that callers hold ---------------------------------------------------------------

    def adopt(self, buffer: Any) -> Storage:
        """A storage around a buffer that the caller owns."""
        self.inspect(buffer, STORAGE, "from_buffer")
        return storage_of(Block(buffer, foreign=True))

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
