"""The pool of a device's blocks: size classes, exact statistics and a byte budget.

Under a budget a new block is a promise: it counts, and what is pooled has to go for it, but its
buffer is made, and room for that, where the block is first used. So what a call takes is known
before the first buffer is made, and a call that is refused has taken nothing.

Signals may interrupt any call. So the counter and the list of blocks change together, in
statements without a call between them.
"""

from __future__ import annotations

import functools
import math
import operator
import threading
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.errors import BufferStateError, OutOfMemoryError

from .blocks import Arena, Block, Lease, Pending, PromisedBlock, Storage, storage_of
from .engine import Engine
from .log import logger

__all__ = ["MemoryStats", "Pool"]

# The usage flags of WebGPU, the same numbers in both engines.
COPY_SRC, COPY_DST, STORAGE = 0x04, 0x08, 0x80
_NAMES = {COPY_SRC: "COPY_SRC", COPY_DST: "COPY_DST", STORAGE: "STORAGE"}
USAGE = STORAGE | COPY_SRC | COPY_DST
UNUSED = 512  # batches after which a block that waits for reuse is given back
FITTED = 1 << 20  # bytes from which on a tensor may get a block of a larger class
WIDEST = 4  # times as large as it needs
SWEEP = 64  # batches between two looks for such


@dataclass(frozen=True)
class MemoryStats:
    """A snapshot of a device's memory, in bytes of whole buffers.

    Tensors and captured programs hold `current`. `pooled` waits for reuse; it includes the scratch
    of calls. `peak` is the largest `current + pooled` so far, and `budget` bounds that sum.
    `internal` is the memory of the device's own buffers outside that sum: params, buffers for
    reads, and pages for faults. Buffers of the caller are not counted.
    """

    current: int
    peak: int
    pooled: int
    live_buffers: int
    pooled_buffers: int
    hits: int
    misses: int
    budget: int | None
    internal: int


@functools.lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """The smallest class that holds `nbytes`: four classes for each power of two, from 256."""
    if nbytes <= 256:
        return 256
    step = 1 << max((nbytes - 1).bit_length() - 3, 6)
    return -(-nbytes // step) * step


def _place(line: Sequence[Block], number: int) -> int:
    """Where a block of this number belongs among free ones, the largest number first."""
    if not line or line[-1].number > number:
        return len(line)
    return bisect_left(line, -number, key=_behind)


def _behind(block: Block) -> int:
    return -block.number


class Pool:
    """The buffers of one device. `lock` is the device's lock, as making room may submit work.

    Attributes:
        limit: the most bytes of all buffers together.
        serial: number of the batch that is recorded, as the recorder tells.
        before_destroy: submits what uses the buffers.
        before_release: drops the references to these buffers and their bind groups.
        before_dissolve: the program of an arena is gone; what the arena kept.
        wait: waits until the device has finished the submitted work.
        kept: how many temporaries the held calls of each owner use.
    """

    def __init__(self, engine: Engine, device: Any, max_size: int, lock: threading.RLock) -> None:
        self._engine = engine
        self._device = device
        self._max_size = max_size // 16 * 16
        self.alignment = 256  # of bindings; the largest that WebGPU allows
        # By size, the first block that was made at the end. It is the next one that is taken, so
        # that a loop which makes the same tensors in each turn gets the same blocks for them, and
        # its launches find their bind groups.
        self._free: dict[int, list[Block]] = {}
        self._scratch: list[Block | None] = []
        self._lock = lock
        self._layout: Any = None
        # Blocks that are not free, with the lease of the storage that holds each (None: an arena).
        # Were blocks held by storages alone, then garbage collection of a cycle with a tensor in it
        # would finalise the buffer before its block comes back.
        self._taken: dict[Block, Lease | None] = {}
        self._arenas: dict[Arena, Lease] = {}
        self._returned: deque[Lease] = deque()
        self.limit: float = math.inf
        self.serial = 0
        self.before_destroy: Callable[[], None] = lambda: None
        self.before_release: Callable[[set[Block]], None] = lambda blocks: None
        self.before_dissolve: Callable[[Any], None] = lambda content: None
        self.wait: Callable[[], object] = lambda: None
        self._gone: set[Block] = set()  # must be told to `before_release`
        self._sweep_at = SWEEP
        self._internal: list[weakref.ref[Any]] = []
        self._total = self._peak = 0  # bytes of all blocks
        self._promised = 0  # those of them that have no buffer yet
        self.kept: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
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
        if self._gone:
            self.before_release(self._gone)
            self._gone = set()

    def _put_back(self, block: Block, arena: Arena | None) -> None:
        """Return an unused block to its arena, or to the free blocks of the pool."""
        if block.promised and not block.counted:
            del self._taken[block]
            return
        if block.promised and arena is None:
            self.withdraw((block,))
            return
        free = self._free if arena is None else arena.free
        size = block.size
        line = free.get(size)
        if line is None:
            line = free[size] = []
        block.since = self.serial
        if not block.reusable and not block.promised:
            self._gone.add(block)
            del self._taken[block]
            self._total -= size
        else:
            at = _place(line, block.number)
            if arena is None:
                block.arena = None
                block.settle()
                del self._taken[block]
            else:
                self._taken[block] = None
            line[at:at] = (block,)

    def _dissolve(self, arena: Arena) -> None:
        """An arena's owner was deleted: its blocks belong to their tensors, or become free."""
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

    def dissolve(self, arena: Arena) -> None:
        """The blocks of an arena are of their tensors, or free, from now on."""
        with self._lock:
            self._dissolve(arena)

    def contents(self) -> list[Any]:
        """The bytes that the arenas keep."""
        with self._lock:
            return [arena.content for arena in self._arenas]

    def take(self, nbytes: int, arena: Arena | None = None) -> Storage:
        """A storage of at least `nbytes`; one for an `arena` has no buffer yet."""
        if arena is not None:
            return self._promise(nbytes, arena)
        size = self._class(nbytes)
        with self._lock:
            if self._total > self.limit or self.serial >= self._sweep_at:
                self._tidy()
                if self._total > self.limit:
                    self._check_room(size)  # what is promised needs some of the pool
            if self._returned:
                storage = self._swap(size) if len(self._returned) == 1 else None
                if storage is not None:
                    return storage
                self._collect()
            line = self._line(size, nbytes)
            block = line[-1]
            storage = storage_of(block)
            lease = Lease(storage, self._returned.append)
            lease.held = block
            del line[-1]
            self._taken[block] = lease
        return storage

    def take_for_call(self, nbytes: int, arena: Arena) -> Storage:
        """A storage of a block that no other call gets before the arena ends: one that the held
        call itself let go of, or one of the pool."""
        size = self._class(nbytes)
        with self._lock:
            self.tidy()
            self._collect()
            line = arena.free.get(size)
            again = bool(line)
            if not again and self._total > self.limit:
                self._check_room(size)
            line = line or self._line(size, nbytes)
            block = line[-1]
            storage = storage_of(block)
            lease = Lease(storage, self._returned.append)
            lease.held = block
            del line[-1]
            self._taken[block] = lease
            if again:
                self._hits += 1
            else:
                block.arena = arena
                block.pending = arena.pending  # no call: see above
                block.guarded = True
                arena.blocks += (block,)
        return storage

    def _promise(self, nbytes: int, arena: Arena) -> Storage:
        """A storage of a block that belongs to the arena, in whole bindings."""
        if nbytes > self._max_size:
            raise self._too_large(nbytes)
        size = -(-max(nbytes, 1) // self.alignment) * self.alignment
        with self._lock:
            if self._returned:
                self._collect()
            block = PromisedBlock(size, self._keep, False)
            storage = storage_of(block)
            lease = Lease(storage, self._returned.append)
            lease.held = block
            block.arena = arena
            block.pending = arena.pending  # no call: see above
            block.guarded = True
            self._taken[block] = lease
            arena.blocks += (block,)
        return storage

    def _keep(self, block: PromisedBlock) -> None:
        """Give a promised block of a capture a buffer of its own."""
        with self._lock:
            if not block.promised:  # another thread was first
                return
            size = self._class(block.size)
            line = self._free.get(size)
            if line:
                if self._total > self.limit:
                    self._check_room(size)
                made = line[-1]
                self.before_release({made})  # calls that know it
                block.mark = made.mark
                block.keep(made.buffer)
                block.size = size
                del line[-1]
                self._hits += 1
            else:
                block.keep(self._bought(size))
                block.size = size
                self._misses += 1
                self._total += size
                if self._total - self._promised > self._peak:
                    self._peak = self._total - self._promised

    def settle_arena(self, arena: Arena, sizes: Sequence[int]) -> list[Block]:
        """Its capture has ended: shared buffers of these sizes, and one for each promised block
        that a storage holds. The other promised blocks are no longer its own."""
        self._collect()
        held = [b for b in arena.blocks if b.promised and b in self._taken]
        needed = sum(sizes) + sum([self._class(block.size) for block in held])
        if self._total + needed > self.limit:
            self._check_room(needed)
        arena.blocks = [b for b in arena.blocks if not b.promised or b in self._taken]
        self.fulfil(held)
        return [self._shared(size, arena) for size in sizes]

    def _shared(self, size: int, arena: Arena) -> Block:
        """A buffer of exactly this size, which goes with the arena."""
        block = Block(self._bought(size))
        block.reusable = False
        block.arena = arena
        self._misses += 1
        self._total += size
        if self._total - self._promised > self._peak:
            self._peak = self._total - self._promised
        self._taken[block] = None
        arena.blocks += (block,)
        return block

    def held(self, block: Block) -> bool:
        """Does a storage hold it?"""
        return self._taken.get(block) is not None

    def collect(self) -> None:
        """Take back what tensors have let go of."""
        with self._lock:
            self._collect()

    @property
    def largest(self) -> int:
        """Bytes that the largest buffer may have."""
        return self._max_size

    def _class(self, nbytes: int) -> int:
        """The size of a block for this many bytes."""
        size = size_class(nbytes)
        return self._max_size if size > self._max_size >= nbytes else size

    def _line(self, size: int, nbytes: int) -> list[Block]:
        """The free blocks of a class, at least one."""
        line = self._free.get(size)
        if not line and size >= FITTED:
            line = self._wider(size)
        if not line:
            block = self._new(size, nbytes)
            line = self._free.setdefault(size, [])
            line += (block,)
            self._misses += 1
            self._total += size
            if block.promised:
                self._promised += size
            elif self._total > self._peak:
                self._peak = self._total
        else:
            self._hits += 1
        return line

    def _wider(self, size: int) -> list[Block] | None:
        """The free blocks of the nearest larger class, so that memory of another size is used
        before more is made."""
        most = WIDEST * size
        fitting = [n for n, line in self._free.items() if size < n <= most and line]
        return self._free[min(fitting)] if fitting else None

    def _swap(self, size: int) -> Storage | None:
        """A storage of the only block that returned, if it is the one that would be taken. So a
        loop that makes the same tensor again needs no list of free blocks."""
        old = self._returned[0]
        block: Any = old.held
        if self._taken.get(block) is not old:
            return None
        line = self._free.get(size)
        if line and line[-1].number < block.number:
            return None
        if block.size != size or not block.reusable or block.arena is not None or block.guarded:
            return None
        storage = storage_of(block)
        lease = Lease(storage, self._returned.append)
        lease.held = block
        self._taken[block] = lease
        del self._returned[0]
        self._hits += 1
        return storage

    def arena(self, owner: object, content: Any, pending: Pending) -> Arena:
        """An arena whose blocks become free when `owner` is deleted."""
        arena = Arena(content, pending)
        lease = Lease(owner, self._returned.append)
        lease.held = arena
        with self._lock:
            self._arenas[arena] = lease
        return arena

    def scratch(self, sizes: Sequence[int], promised: Sequence[Block] = ()) -> Sequence[Block]:
        """Blocks of these sizes for the temporaries of one call: the n-th is the same for all
        calls, and grows. Launches are in order, so each has it for itself. Counted as pooled.

        `promised` are the call's new tensors, which get their buffers once all have room."""
        have = self._scratch[: len(sizes)]
        blocks = [b for b, n in zip(have, sizes, strict=False) if b is not None and b.size >= n]
        if len(blocks) == len(sizes) and not promised:
            return blocks
        with self._lock:
            return self._grow_scratch(sizes, promised)

    def _grow_scratch(self, sizes: Sequence[int], promised: Sequence[Block]) -> Sequence[Block]:
        for _ in range(2):
            try:
                found = self.promise_scratch(sizes)
            except OutOfMemoryError:
                self.withdraw(promised)
                raise
            self.fulfil((*promised, *found))
            if len(found) == len(sizes) and all(map(operator.is_, found, self._scratch)):
                return found  # else the device had no room, and gave back some of them
        raise self._refused(sum(sizes), "the device has no room for them")

    def promise_scratch(self, sizes: Sequence[int]) -> list[Block]:
        self._collect()
        scratch = self._scratch
        scratch += [None] * (len(sizes) - len(scratch))
        small = {b: i for i, b in enumerate(scratch[: len(sizes)]) if b and b.size < sizes[i]}
        if small:
            self.before_release({*small})  # calls that know them
            self._leave_scratch(small)
        missing = [i for i, block in enumerate(scratch[: len(sizes)]) if block is None]
        self.require([sizes[i] for i in missing], len(sizes))
        for i in missing:
            line = self._line(self._class(sizes[i]), sizes[i])
            block = line[-1]
            block.since = self.serial
            del line[-1]
            scratch[i] = block
        return [block for block in scratch[: len(sizes)] if block is not None]

    def _leave_scratch(self, places: Mapping[Block, int]) -> None:
        """Add these blocks to the free blocks of the pool."""
        for block, i in places.items():
            if block.promised:
                self._drop_scratch(i, block)
                continue
            line = self._free.setdefault(block.size, [])
            block.since = self.serial
            self._scratch[i] = None
            line += (block,)

    # -- making buffers, and room for them --------------------------------------------------------

    def require(self, sizes: Sequence[int], scratch: int = 0) -> None:
        """Make room for all blocks of these sizes. If they do not fit, raise OutOfMemoryError
        before taking any. The first `scratch` temporaries stay."""
        if self.limit == math.inf:
            return
        self.tidy()
        free = {size: len(line) for size, line in self._free.items()}
        needed = 0
        for nbytes in sizes:
            size = self._class(nbytes)
            if free.get(size):
                free[size] -= 1
            else:
                needed += size
        if self._total + needed > self.limit:
            # None of those that are free may count: they could have to go.
            self._check_room(sum([self._class(nbytes) for nbytes in sizes]), scratch)

    def _new(self, size: int, nbytes: int) -> Block:
        if nbytes > self._max_size:
            raise self._too_large(nbytes)
        if self.limit != math.inf:
            if self._total + size > self.limit:
                self._check_room(size)
            return PromisedBlock(size, self._fulfil, True)
        block = Block(self._make(size, USAGE))
        block.since = self.serial
        return block

    def _bought(self, size: int) -> Any:
        """A new GPUBuffer that the budget has room for."""
        if self._total + size > self.limit:
            self._check_room(size)
            self._make_room(size)
        return self._make(size, USAGE)

    def _too_large(self, nbytes: int) -> OutOfMemoryError:
        return OutOfMemoryError(
            f"[memory] {nbytes} bytes are more than the largest buffer of this device, "
            f"{self._max_size}"
        )

    def fulfil(self, blocks: Iterable[Block | None]) -> None:
        """Make the buffers of those that are promised."""
        for block in blocks:
            if isinstance(block, PromisedBlock):
                block.make(block)

    def _fulfil(self, block: PromisedBlock) -> None:
        """Make the buffer of a promised block that the budget has room for."""
        with self._lock:
            if not block.promised:  # another thread was first
                return
            if block.size < 0:
                raise BufferStateError("[memory] the call that makes this tensor was refused")
            self._make_room(block.size)
            buffer = self._make(block.size, USAGE)
            block.since = self.serial
            block.keep(buffer)
            self._promised -= block.size
            if self._total - self._promised > self._peak:
                self._peak = self._total - self._promised

    def withdraw(self, blocks: Iterable[Block]) -> None:
        """Blocks that count and whose buffers were not made are not wanted any more, whoever holds
        them."""
        with self._lock:
            self._withdraw(blocks)

    def _withdraw(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            size = block.size
            if block.promised and block.counted and block in self._taken:
                del self._taken[block]
                block.size = -1
                self._total -= size
                self._promised -= size

    def withdraw_scratch(self) -> None:
        """The same for temporaries."""
        with self._lock:
            self._withdraw_scratch()

    def _withdraw_scratch(self) -> None:
        for i, block in enumerate(self._scratch):
            if block is not None and block.promised:
                self._drop_scratch(i, block)

    @property
    def temporaries(self) -> Sequence[Block | None]:
        """The blocks of scratch."""
        return (*self._scratch,)

    def _drop_scratch(self, i: int, block: Block) -> None:
        self._total -= block.size
        self._promised -= block.size
        self._scratch[i] = None

    def create(self, size: int, usage: int) -> Any:
        """A new GPUBuffer of the device's own, counted as internal."""
        buffer = self._make(size, usage)
        self._internal = [ref for ref in self._internal if ref() is not None]
        self._internal.append(weakref.ref(buffer))
        return buffer

    def _make(self, size: int, usage: int) -> Any:
        """A new GPUBuffer; the pool makes room if the device has none."""
        for last in (False, True):
            try:
                return self._device.create_buffer(label="pykernels", size=size, usage=usage)
            except self._engine.error_class as e:
                error = self._engine.error(e, "memory")
                if not isinstance(error, OutOfMemoryError):
                    raise error from None
                if last:
                    raise self._refused(size, "the device has no room for them") from None
                self.trim()
                self.wait()
        raise AssertionError("unreachable")

    def _check_room(self, needed: int, scratch: int = 0) -> None:
        """Raise unless the budget has room for that many more bytes besides what is in use; the
        first `scratch` temporaries stay."""
        self._collect()
        pooled = sum([block.size for block in self._idle(scratch)])
        if self._total - pooled + needed > self.limit:
            raise self._refused(needed, f"the budget is {self.limit}")

    def _make_room(self, needed: int) -> None:
        """Destroy pooled blocks until the budget has room for a buffer of that many bytes, which it
        was found to have. Blocks that were released first are destroyed first. Waits for the
        device, because a driver keeps a destroyed buffer until its work is done."""
        over, doomed = self._total - self._promised + needed - self.limit, list[Block]()
        if over <= 0:
            return
        self._collect()
        for block in self._idle():
            if over <= 0:
                break
            if not block.promised:
                over -= block.size
                doomed.append(block)
        if doomed:
            self.before_destroy()
            freed = self._destroy(doomed)
            logger.debug("freed %d bytes of the pool, to make room for %d", freed, needed)
            self.wait()

    def _refused(self, asked: int, why: str) -> OutOfMemoryError:
        pooled = sum(block.size for block in self._idle())
        used = self._total - pooled - self._promised
        text = (
            f"[memory] {asked + self._promised} more bytes do not fit: {used} are in use and "
            f"{pooled} pooled, and {why}"
        )
        logger.info("%s", text)
        return OutOfMemoryError(text)

    def _idle(self, scratch: int = 0) -> list[Block]:
        """The unused blocks in the order in which they were released, then scratch without the
        first temporaries and those of held calls."""
        free = [block for line in self._free.values() for block in line]
        free.sort(key=lambda block: block.since)
        for places in self.kept.values():
            scratch = max(scratch, places)
        rest = reversed(self._scratch[scratch:])
        return free + [b for b in rest if b is not None and not b.promised]

    def _destroy(self, blocks: Sequence[Block]) -> int:
        """Destroy blocks from `_idle`; returns the number of freed bytes."""
        self.before_release({*blocks})
        freed = 0
        for block in blocks:
            line: list[Any] = self._free.get(block.size, [])
            size = block.size
            if block in self._scratch:
                i = self._scratch.index(block)
                self._scratch[i] = None
                self._total -= size
            else:
                i = line.index(block)  # not always 0: one before it may be in use for longer
                del line[i]
                self._total -= size
            freed += size
            if block.promised:  # an interrupt came between the promise and its tensor
                self._promised -= size
            else:
                block.buffer.destroy()
        return freed

    def tidy(self) -> None:
        """Free blocks that recent batches did not use, or that exceed a lowered budget."""
        if self._total > self.limit or self.serial >= self._sweep_at:
            with self._lock:
                self._tidy()

    def _tidy(self) -> None:
        self._sweep_at = self.serial + SWEEP
        self._collect()
        if self._total - self._promised > self.limit:
            self._free_all()
            return
        # Scratch is not let go of: its mark tells when it was used.
        long_ago = self.serial - UNUSED
        old = [block for block in self._idle() if max(block.since, block.mark) < long_ago]
        if old:
            logger.debug("freed %d bytes that were pooled for long", self._destroy(old))

    def trim(self) -> int:
        """Free all pooled buffers; returns the number of freed bytes."""
        with self._lock:
            self._collect()
            return self._free_all()

    def _free_all(self) -> int:
        idle = self._idle()
        if not idle:
            return 0
        self.before_destroy()
        return self._destroy(idle)

    def set_budget(self, nbytes: int | None) -> None:
        """Limit tensors, programs and the pool together; pooled memory above the limit is freed."""
        with self._lock:
            self.limit = math.inf if nbytes is None else nbytes
            self.tidy()
        if nbytes is not None:
            logger.info("the budget is %d bytes", nbytes)

    def abandon(self) -> None:
        """After a fork: what tensors let go of stays where it is, and a lock that another thread
        had taken is nobody's."""
        self._returned, self._gone = deque(), set()
        self._lock = threading.RLock()

    def stats(self) -> MemoryStats:
        with self._lock:
            self._collect()
            free = [block.size for block in self._idle()]
            budget = None if self.limit == math.inf else int(self.limit)
            internal = [buffer.size for ref in self._internal if (buffer := ref()) is not None]
            return MemoryStats(
                self._total - sum(free), self._peak, sum(free), len(self._taken), len(free),
                self._hits, self._misses, budget, sum(internal),
            )  # fmt: skip

    # -- buffers that callers hold ---------------------------------------------------------------

    def adopt(self, buffer: Any) -> Storage:
        """A storage around a buffer that the caller owns."""
        self.inspect(buffer, STORAGE, "from_buffer")
        return storage_of(Block(buffer, foreign=True))

    def inspect(self, buffer: Any, usage: int, what: str) -> None:
        """Raise if a caller's buffer cannot be used, because a submit would end the process."""
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
