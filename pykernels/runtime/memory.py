"""The pool of a device's blocks: storages of tensors, arenas of programs, scratch of calls.

Signals may interrupt any call. So the counter and the list of blocks change together, in
statements without a call between them.
"""

from __future__ import annotations

import math
import operator
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.errors import OutOfMemoryError

from .blocks import Arena, Block, Lease, Pending, PromisedBlock, Storage, storage_of
from .budget import Budget, place
from .buffers import Buffers

__all__ = ["MemoryStats", "Pool"]

FEW = 3  # up to this many returned blocks (the results of a call, say) are searched without sorting


@dataclass(frozen=True)
class MemoryStats:
    """A snapshot of a device's memory, in bytes of whole buffers.

    Tensors and captured programs hold `current`. `pooled` waits for reuse; it includes the scratch
    of calls. `peak` is the largest `current + pooled` so far, and `budget` bounds that sum.
    `internal` is the memory of the device's own buffers outside that sum: params, buffers for
    reads, and pages in which kernels note indices out of range. Buffers of the caller are not
    counted.
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


class Pool(Budget):
    """The blocks of one device. `lock` must be the device's lock, because making room may submit
    work.

    Attributes:
        before_dissolve: gets the content of an arena whose program was deleted.
    """

    def __init__(self, buffers: Buffers, lock: threading.RLock) -> None:
        super().__init__(buffers, lock)
        self.alignment = 256  # alignment of bindings, the largest that WebGPU allows
        # Blocks that are not free, each with the lease of the storage that holds it; None if an
        # arena holds it.
        # If only storages held blocks, garbage collection of a cycle with a tensor in it would
        # finalise the buffer before its block returns.
        self._taken: dict[Block, Lease | None] = {}
        self._arenas: dict[Arena, Lease] = {}
        self._returned: deque[Lease] = deque()
        self._gone: set[Block] = set()  # blocks to pass to `before_release`
        self.before_dissolve: Callable[[Any], None] = lambda content: None

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
            # deleting a lease may return more blocks to this loop, those of a deleted program
            lease = held = None
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
            at = place(line, block.number)
            if arena is None:
                block.arena = None
                block.settle()
                del self._taken[block]
            else:
                self._taken[block] = None
            line[at:at] = (block,)

    def collect(self) -> None:
        """Take back the blocks that tensors have released."""
        with self._lock:
            self._collect()

    def held(self, block: Block) -> bool:
        """True if a storage holds this block."""
        return self._taken.get(block) is not None

    # -- storages ---------------------------------------------------------------------------------

    def take(self, nbytes: int, arena: Arena | None = None) -> Storage:
        """A storage of at least `nbytes`. A storage for an `arena` has no buffer yet."""
        if arena is not None:
            return self._promise(nbytes, arena)
        size = self._class(nbytes)
        with self._lock:
            if self._total > self.limit or self.serial >= self._sweep_at:
                self._tidy()
                if self._total > self.limit:
                    self._check_room(size)  # promised blocks count against the room, too
            if self._returned:
                storage = self._swap(size) if len(self._returned) <= FEW else None
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

    def _swap(self, size: int) -> Storage | None:
        """A storage of one of the few blocks that returned, if `take` would choose the same block
        after sorting. So a loop that makes the same tensors again does not use the list of free
        blocks."""
        returned, taken = self._returned, self._taken
        block: Any = None
        at = 0
        for i in range(len(returned)):  # other threads append their blocks behind these
            lease: Any = returned[i]
            one: Any = lease.held
            if taken.get(one) is not lease:
                return None
            if one.size == size and (block is None or one.number < block.number):
                block, at = one, i
        if block is None:
            return None
        line = self._free.get(size)
        if line and line[-1].number < block.number:
            return None
        if not block.reusable or block.arena is not None or block.guarded:
            return None
        storage = storage_of(block)
        lease = Lease(storage, returned.append)
        lease.held = block
        taken[block] = lease
        del returned[at]
        self._hits += 1
        return storage

    def withdraw(self, blocks: Iterable[Block]) -> None:
        """Forget promised blocks that count against the budget and have no buffer, even if storages
        hold them."""
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

    # -- arenas -----------------------------------------------------------------------------------

    def arena(self, owner: object, content: Any, pending: Pending) -> Arena:
        """An arena whose blocks become free when `owner` is deleted."""
        arena = Arena(content, pending)
        lease = Lease(owner, self._returned.append)
        lease.held = arena
        with self._lock:
            self._arenas[arena] = lease
        return arena

    def take_for_call(self, nbytes: int, arena: Arena) -> Storage:
        """A storage of a block that no other call gets before the arena ends: a block that the held
        call released, or a block of the pool."""
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
                block.pending = arena.pending  # a statement without a call, because of signals
                block.guarded = True
                arena.blocks += (block,)
        return storage

    def _promise(self, nbytes: int, arena: Arena) -> Storage:
        """A storage of a promised block of the arena; its size is a multiple of the alignment."""
        if nbytes > self._max_size:
            raise self.buffers.too_large(nbytes)
        size = -(-max(nbytes, 1) // self.alignment) * self.alignment
        with self._lock:
            if self._returned:
                self._collect()
            block = PromisedBlock(size, self._keep, False)
            storage = storage_of(block)
            lease = Lease(storage, self._returned.append)
            lease.held = block
            block.arena = arena
            block.pending = arena.pending  # a statement without a call, because of signals
            block.guarded = True
            self._taken[block] = lease
            arena.blocks += (block,)
        return storage

    def _keep(self, block: PromisedBlock) -> None:
        """Give a promised block of a capture a buffer of its own."""
        with self._lock:
            if not block.promised:  # another thread has made the buffer
                return
            size = self._class(block.size)
            line = self._free.get(size)
            if line:
                if self._total > self.limit:
                    self._check_room(size)
                made = line[-1]
                self.before_release({made})  # forgets the calls that bind the block
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
        """After the end of a capture, make shared buffers of these sizes, and a buffer for each
        promised block that a storage holds. The arena gives up the other promised blocks."""
        self._collect()
        held = [b for b in arena.blocks if b.promised and b in self._taken]
        needed = sum(sizes) + sum([self._class(block.size) for block in held])
        if self._total + needed > self.limit:
            self._check_room(needed)
        arena.blocks = [b for b in arena.blocks if not b.promised or b in self._taken]
        self.fulfil(held)
        return [self._shared(size, arena) for size in sizes]

    def _shared(self, size: int, arena: Arena) -> Block:
        """A buffer of exactly this size, which is deleted with the arena."""
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

    def _dissolve(self, arena: Arena) -> None:
        """End an arena whose owner was deleted. Blocks with tensors belong to these tensors from
        then on; the other blocks become free."""
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
        """End an arena: from now on its blocks belong to their tensors or are free."""
        with self._lock:
            self._dissolve(arena)

    def contents(self) -> list[Any]:
        """The contents of all arenas."""
        with self._lock:
            return [arena.content for arena in self._arenas]

    # -- scratch ----------------------------------------------------------------------------------

    def scratch(self, sizes: Sequence[int], promised: Sequence[Block] = ()) -> Sequence[Block]:
        """Blocks of these sizes for the temporaries of one call. The n-th temporaries of all calls
        share one block, which is replaced by a larger one if it is too small. Launches run in
        order, so no two calls use a block at the same time. The blocks count as pooled.

        `promised` are the blocks of the call's new tensors, which get their buffers when there is
        room for all of them."""
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
                # else the device had no room, and freeing memory has freed some of these blocks
                return found
        raise self._refused(sum(sizes), "the device has no room for them")

    def promise_scratch(self, sizes: Sequence[int]) -> list[Block]:
        self._collect()
        scratch = self._scratch
        scratch += [None] * (len(sizes) - len(scratch))
        small = {b: i for i, b in enumerate(scratch[: len(sizes)]) if b and b.size < sizes[i]}
        if small:
            self.before_release({*small})  # forgets the calls that bind these blocks
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
            at = place(line, block.number)
            block.since = self.serial
            self._scratch[i] = None
            line[at:at] = (block,)

    def withdraw_scratch(self) -> None:
        """Forget the promised blocks of scratch."""
        with self._lock:
            self._withdraw_scratch()

    def _withdraw_scratch(self) -> None:
        for i, block in enumerate(self._scratch):
            if block is not None and block.promised:
                self._drop_scratch(i, block)

    def _drop_scratch(self, i: int, block: Block) -> None:
        self._total -= block.size
        self._promised -= block.size
        self._scratch[i] = None

    @property
    def temporaries(self) -> Sequence[Block | None]:
        """The blocks of scratch."""
        return (*self._scratch,)

    # -- facts ------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """After a fork: forget the blocks that tensors have released, and replace the lock, which
        another thread may have held."""
        self._returned, self._gone = deque(), set()
        self._lock = self.buffers.lock = threading.RLock()

    def stats(self) -> MemoryStats:
        with self._lock:
            self._collect()
            free = [block.size for block in self._idle()]
            budget = None if self.limit == math.inf else int(self.limit)
            return MemoryStats(
                self._total - sum(free), self._peak, sum(free), len(self._taken), len(free),
                self._hits, self._misses, budget, self.buffers.internal,
            )  # fmt: skip
