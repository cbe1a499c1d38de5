"""The free blocks of a device, and the device's byte budget.

Under a budget a new block is only promised. It counts at once, but its buffer is made at its first
use, and pooled buffers are destroyed then if the new buffer needs their room. So the memory of a
call is known before its first buffer is made, and a refused call has allocated nothing.

Signals may interrupt any call. So the counter and the list of blocks change together, in
statements without a call between them.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pykernels.errors import ArgumentError, BufferStateError, OutOfMemoryError

from .blocks import Block, PromisedBlock
from .buffers import Buffers
from .log import logger

__all__ = ["UNUSED", "Budget", "asked_budget", "place", "size_class"]

UNUSED = 512  # a block that waits for reuse is freed after this many batches
FITTED = 1 << 20  # a tensor of this many bytes or more may get a block of a larger class
WIDEST = 4  # that larger class is at most this many times the class that is needed
SWEEP = 64  # batches between two searches for unused blocks


@functools.lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """The smallest class that holds `nbytes`: four classes for each power of two, from 256."""
    if nbytes <= 256:
        return 256
    step = 1 << max((nbytes - 1).bit_length() - 3, 6)
    return -(-nbytes // step) * step


def place(line: Sequence[Block], number: int) -> int:
    """The position for a block of this number among free blocks, which are in descending order of
    their numbers."""
    if not line or line[-1].number > number:
        return len(line)
    return bisect_left(line, -number, key=_behind)


def _behind(block: Block) -> int:
    return -block.number


class Budget:
    """The blocks that wait for reuse, the bytes of all blocks, and the limit of these bytes.

    Attributes:
        buffers: makes the buffers.
        limit: the most bytes of all buffers together.
        serial: number of the batch that is recorded; the recorder sets it.
        before_destroy: submits the recorded work that uses the buffers.
        before_release: drops the references to the given blocks and their bind groups.
        wait: waits until the device has finished the submitted work.
        kept: for each held call, how many temporaries it uses.
    """

    def __init__(self, buffers: Buffers, lock: threading.RLock) -> None:
        self.buffers = buffers
        self._max_size = buffers.largest
        self._lock = lock
        # The free blocks of each size. The block that was made first stands last and is taken next.
        # So a loop that makes the same tensors in each turn gets the same blocks for them, and its
        # launches find their bind groups.
        self._free: dict[int, list[Block]] = {}
        self._scratch: list[Block | None] = []
        self.limit: float = math.inf
        self.serial = 0
        self.before_destroy: Callable[[], None] = lambda: None
        self.before_release: Callable[[set[Block]], None] = lambda blocks: None
        self.wait: Callable[[], object] = lambda: None
        self._sweep_at = SWEEP
        self._total = self._peak = 0  # bytes of all blocks
        self._promised = 0  # bytes of the blocks among them that have no buffer
        self.kept: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hits = self._misses = 0
        buffers.reclaim = self._reclaim
        buffers.refused = lambda size: self._refused(size, "the device has no room for them")

    def _collect(self) -> None:
        """Take back the blocks that tensors have released."""
        raise NotImplementedError

    def _reclaim(self) -> None:
        """Free the pool, because the device has no room."""
        self.trim()
        self.wait()

    # -- blocks of a size ------------------------------------------------------------------------

    def _class(self, nbytes: int) -> int:
        """The size of a block for this many bytes."""
        size = size_class(nbytes)
        return self._max_size if size > self._max_size >= nbytes else size

    def _line(self, size: int, nbytes: int) -> list[Block]:
        """The free blocks of a class. If there is none, a new block is added."""
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

    def _new(self, size: int, nbytes: int) -> Block:
        if nbytes > self._max_size:
            raise self.buffers.too_large(nbytes)
        if self.limit != math.inf:
            if self._total + size > self.limit:
                self._check_room(size)
            return PromisedBlock(size, self._fulfil, True)
        block = Block(self.buffers.make(size))
        block.since = self.serial
        return block

    def _bought(self, size: int) -> Any:
        """A new GPUBuffer, after room for it was made in the budget."""
        if self._total + size > self.limit:
            self._check_room(size)
            self._make_room(size)
        return self.buffers.make(size)

    def fulfil(self, blocks: Iterable[Block | None]) -> None:
        """Make the buffers of promised blocks."""
        for block in blocks:
            if isinstance(block, PromisedBlock):
                block.make(block)

    def _fulfil(self, block: PromisedBlock) -> None:
        """Make room in the budget, and then the buffer of a promised block."""
        with self._lock:
            if not block.promised:  # another thread has made the buffer
                return
            if block.size < 0:
                raise BufferStateError("[memory] the call that makes this tensor was refused")
            self._make_room(block.size)
            buffer = self.buffers.make(block.size)
            block.since = self.serial
            block.keep(buffer)
            self._promised -= block.size
            if self._total - self._promised > self._peak:
                self._peak = self._total - self._promised

    # -- room ------------------------------------------------------------------------------------

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
            # Free blocks do not count, because they may have to be destroyed.
            self._check_room(sum([self._class(nbytes) for nbytes in sizes]), scratch)

    def _check_room(self, needed: int, scratch: int = 0) -> None:
        """Raise unless the budget has room for `needed` more bytes while the first `scratch`
        temporaries stay."""
        self._collect()
        pooled = sum([block.size for block in self._idle(scratch)])
        if self._total - pooled + needed > self.limit:
            raise self._refused(needed, f"the budget is {self.limit}")

    def _make_room(self, needed: int) -> None:
        """Destroy pooled blocks until the budget has room for a buffer of `needed` bytes. An
        earlier check has found that this is possible. Blocks that were released first are destroyed
        first. Waits for the device, because a driver keeps a destroyed buffer until its work is
        done."""
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
        """The unused blocks in the order in which they were released, then the blocks of scratch
        except the first temporaries and the temporaries of held calls."""
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
                # not always the first of its line: blocks before it may have been released later
                i = line.index(block)
                del line[i]
                self._total -= size
            freed += size
            if block.promised:  # an interrupt came after the promise and before its tensor existed
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
        # Blocks of scratch are never released; their marks show when they were last used.
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


def asked_budget() -> int | None:
    """PYKERNELS_MEMORY_BUDGET: bytes that each device may hold."""
    asked = os.environ.get("PYKERNELS_MEMORY_BUDGET", "")
    if not asked:
        return None
    if not asked.isdecimal():
        raise ArgumentError(f"[memory] PYKERNELS_MEMORY_BUDGET must be bytes but is {asked!r}")
    return int(asked)
