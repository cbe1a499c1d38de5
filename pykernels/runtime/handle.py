"""The part of a tensor that a launch needs."""

from __future__ import annotations

from typing import Any

from pykernels.tensors.layout import Layout, Window

from .blocks import Storage
from .context import Context

__all__ = ["Handle"]


class Handle:
    """Elements of a buffer: the buffer's context, and the location of the elements.

    A bind group depends only on `_location`; every launch reads it.
    """

    __slots__ = (
        "__weakref__", "_block", "_context", "_layout", "_location", "_offset", "_storage",
    )  # fmt: skip

    def __init__(self, context: Context, storage: Storage, offset: int, lay: Layout) -> None:
        self._context = context
        self._storage = storage
        block = self._block = storage.block
        self._offset = offset
        self._layout = lay
        self._location = (lay, block, offset)

    @property
    def _window(self) -> Window:
        """The bytes of the buffer from the first to the last element."""
        return Window(self._offset + self._layout.lo, self._offset + self._layout.hi)

    @property
    def _padded(self) -> bool:
        """True if a binding may be rounded up to 16 bytes. A caller's buffer may end before
        that."""
        return -(-(self._offset + self._layout.hi) // 16) * 16 <= self._block.size

    @property
    def _key(self) -> tuple[Any, ...]:
        """Everything that a plan depends on."""
        alignment = self._context.caps.alignment
        return self._layout, self._offset % alignment, self._padded
