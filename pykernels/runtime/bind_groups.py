"""The bind groups of launches that may come again on the same views."""

from __future__ import annotations

from typing import Any, TypeAlias

from .dispatch import Dispatch
from .memory import Block

__all__ = ["BindGroupCache", "Record"]

# A dispatch, its bind group, and the buffers that the bind group binds.
Record: TypeAlias = tuple[Dispatch, Any, tuple[Block, ...]]


class BindGroupCache:
    """Launches by kernel, options and the locations of all tensors.

    Only buffers of the pool are in it, and it is cleared before the pool destroys any: it never
    keeps memory alive.
    """

    LIMIT = 8192

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.entries: dict[Any, tuple[Record, ...]] = {}

    def add(self, key: Any, records: tuple[Record, ...]) -> None:
        if len(self.entries) >= self.LIMIT:
            self.clear()
        self.entries[key] = records

    def clear(self) -> None:
        while self.entries:
            for _, group, _ in self.entries.popitem()[1]:
                self._lib.wgpuBindGroupRelease(group)

    def __del__(self) -> None:
        self.clear()
