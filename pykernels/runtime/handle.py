"""What a launch needs of a tensor."""

from __future__ import annotations

from pykernels.layout import Layout

from .context import Context
from .memory import Storage

__all__ = ["Handle"]


class Handle:
    """Elements in a buffer: the context that the buffer belongs to, and where they lie in it.

    `_key` is all that a plan depends on, `_location` all that a bind group depends on.
    """

    __slots__ = (
        "__weakref__", "_block", "_context", "_key", "_layout", "_location", "_offset", "_padded",
        "_storage",
    )  # fmt: skip

    def __init__(self, context: Context, storage: Storage, offset: int, lay: Layout) -> None:
        block = storage.block
        self._context = context
        self._storage = storage
        self._block = block
        self._offset = offset
        self._layout = lay
        # May a binding be rounded up to 16 bytes? Only a buffer made by others can end before.
        self._padded = padded = -(-(offset + lay.hi) // 16) * 16 <= block.size
        self._key = (lay, offset % context.caps.alignment, padded)
        self._location = (lay, block, offset)
