"""GPU buffers as blocks, and who holds them.

A `Block` is one GPU buffer. A `Storage` is what tensors hold: when the last tensor lets go of it,
its block returns to the pool (`memory.py`), or is forgotten where the caller may still use the
buffer.
"""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["Arena", "Block", "Lease", "Storage", "storage_of"]


class Block:
    """One GPU buffer.

    Attributes:
        foreign: the caller made it and owns it.
        exposed: the caller holds it, and may destroy or map it: it is looked at before use.
        reusable: back to the pool when no tensor holds it; not if it is exposed, or used by work
            that the caller submits at any time.
        mark: serial number of the last batch that may use it.
        arena: the arena that keeps it, for a program that uses it at any time.
    """

    __slots__ = ("arena", "buffer", "exposed", "foreign", "handle", "mark", "reusable", "size")

    def __init__(self, buffer: Any, foreign: bool = False) -> None:
        self.buffer = buffer
        self.handle = buffer._internal
        self.size: int = buffer.size
        self.foreign = self.exposed = foreign
        self.reusable = not foreign
        self.mark = -1
        self.arena: Arena | None = None


class Storage:
    """Shared ownership of a block by tensors; `record` is there once a tape has seen it."""

    __slots__ = ("__weakref__", "block", "record")

    block: Block
    record: Any


def storage_of(block: Block) -> Storage:
    """A new storage; half the time of an `__init__`, and each new tensor has one."""
    storage = Storage()
    storage.block = block
    return storage


class Lease(weakref.ref[Any]):
    """What the pool knows of a storage (or an arena's owner): once that is gone, the lease is
    appended to `returned`. No Python code runs for it, which a signal could interrupt."""

    __slots__ = ("held",)

    held: Block | Arena


class Arena:
    """The blocks that a captured program may use at any time, taken while it was captured.

    Those that no tensor holds are reused inside the capture, and by nobody else until the owner of
    the arena is gone. `content` is kept as long.
    """

    def __init__(self, content: Any) -> None:
        self.content = content
        self.blocks: list[Block] = []
        self.free: dict[int, list[Block]] = {}
