"""Blocks, which are GPU buffers, and their owners.

A `Block` is one GPU buffer. Tensors hold a `Storage`. When the last tensor releases its storage,
the block returns to the pool (`memory.py`), unless the caller may still use the buffer.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["Arena", "Block", "Lease", "Pending", "PromisedBlock", "Storage", "storage_of"]


STORAGE = 0x80  # the usage flag of WebGPU
_next_number = itertools.count().__next__


class Pending:
    """The reason that blocks do not contain their recorded values yet; `why` is empty once they
    do."""

    why = ""


class OfProgram(Pending):
    """A captured program will write the blocks."""

    def __init__(self) -> None:
        self.why = "belongs to a program that is still captured"


class OfPass(Pending):
    """The caller's compute pass will write the blocks; it can run only after it has ended."""

    def __init__(self, compute_pass: Any) -> None:
        self._pass = weakref.ref(compute_pass)

    @property
    def why(self) -> str:  # type: ignore[override]
        compute_pass = self._pass()
        if compute_pass is None or getattr(compute_pass, "_pykernels_ended", False):
            return ""
        return "is written by a pass that has not ended: submit the pass first"


class Block:
    """One GPU buffer.

    Attributes:
        foreign: the caller made it and owns it.
        exposed: the caller may destroy or map it, so it is checked before each use.
        pending: the work that will write it but has not run yet; None if there is no such work, or
            if other work has written it since.
        guarded: True if exposed or pending. A remembered launch checks only this flag.
        reusable: it returns to the pool when no tensor holds it. False if it is exposed, or used
            by work that the caller may submit at any time.
        mark: serial number of the last batch that may use it.
        number: its place in the order of creation; of the free blocks of a size, the pool takes the
            one that was made first.
        since: for a free block, the serial number of the batch that was recorded when it was
            released.
        arena: the arena that keeps it for a program, which may run at any time.
        promised: it has no buffer yet.
        counted: True if a promised block already counts against the byte budget.
        make: the function that makes the buffer of a promised block.
    """

    promised = False
    counted: bool

    __slots__ = (
        "arena", "buffer", "counted", "exposed", "foreign", "guarded", "handle", "make", "mark",
        "number", "pending", "reusable", "since", "size",
    )  # fmt: skip

    def __init__(self, buffer: Any, foreign: bool = False) -> None:
        self.buffer = buffer
        self.handle = buffer._internal
        self.size: int = buffer.size
        self.foreign = self.exposed = self.guarded = foreign
        self.reusable = not foreign
        self.mark = self.since = -1
        self.number = _next_number()
        self.arena: Arena | None = None
        self.pending: Pending | None = None

    def inspect(self, buffers: Any, what: str) -> None:
        """Raise if the caller's buffer cannot be used. `buffers` are those of the device."""
        buffers.inspect(self.buffer, STORAGE, what)

    def expose(self) -> None:
        """Note that the caller receives the buffer."""
        self.exposed = self.guarded = True
        self.reusable = False

    def wait_for(self, pending: Pending) -> None:
        """Forbid reads of its contents until `pending` has run or other work has written them."""
        self.pending = pending
        self.guarded = True

    def settle(self) -> None:
        """Allow reads of its contents."""
        self.pending = None
        self.guarded = self.exposed

    def unwritten(self) -> str:
        """The reason that its contents must not be read; empty if they may be read."""
        if self.pending is None:
            return ""
        why = self.pending.why
        if not why:
            self.settle()
        return why


class PromisedBlock(Block):
    """A block whose buffer is made at its first use. From then on the object is a `Block`. If it is
    never used, no buffer is made.

    Under a byte budget every new block is promised and counts from the start, so that a call that
    does not fit is refused before a buffer is made. In a capture every block is promised and does
    not count. It gets its own buffer if a caller asks for the buffer, or if a tensor still holds it
    at the end of the capture; otherwise it becomes a part of a shared buffer.
    """

    promised = True

    __slots__ = ()

    def __init__(self, size: int, make: Callable[[PromisedBlock], None], counted: bool) -> None:
        self.size = size
        self.foreign = self.exposed = self.guarded = self.reusable = False
        self.mark = self.since = -1
        self.number = _next_number()
        self.arena = self.pending = None
        self.make = make
        self.counted = counted

    def __getattr__(self, name: str) -> Any:
        if name not in ("buffer", "handle"):
            raise AttributeError(name)
        self.make(self)
        return object.__getattribute__(self, name)

    def keep(self, buffer: Any) -> None:
        """Become a block with this buffer."""
        self.buffer = buffer
        self.handle = buffer._internal
        self.reusable = not self.exposed
        self.__class__ = Block  # type: ignore[assignment]


class Storage:
    """Shared ownership of a block by tensors.

    `record` exists once a tape has seen the storage. `checks` names the open checked calls that its
    values come from (see owners.py). `whole` is set if its tensors are views of one tensor: the
    first byte and the layout of that tensor. A deep copy of the views copies that tensor once, and
    makes views of the copy.
    """

    __slots__ = ("__weakref__", "block", "checks", "record", "whole")

    block: Block
    checks: Any
    record: Any
    whole: tuple[int, Any]


def storage_of(block: Block) -> Storage:
    """A new storage. This takes half the time of an `__init__`, which matters because each new
    tensor makes a Storage."""
    storage = Storage()
    storage.block = block
    storage.checks = ()
    return storage


class Lease(weakref.ref[Any]):
    """Tells the pool that a storage (or an arena's owner) was deleted: the lease is then appended
    to `returned`. No Python code runs for this, so no signal can interrupt it."""

    __slots__ = ("held",)

    held: Block | Arena


class Arena:
    """The blocks that a capture took for its program, or the blocks of a held call (`whole.py`).

    A program may run at any time, so no other work uses the blocks until the owner of the arena is
    deleted. `content` lives until then, and all blocks wait for `pending`. A held call reuses its
    `free` blocks.
    """

    def __init__(self, content: Any, pending: Pending) -> None:
        self.content = content
        self.pending = pending
        self.blocks: list[Block] = []
        self.free: dict[int, list[Block]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of its buffers."""
        return sum(block.size for block in self.blocks if not block.promised)
