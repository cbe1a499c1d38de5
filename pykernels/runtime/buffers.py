"""The GPU buffers of a device: buffers that it makes, and buffers of callers."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from pykernels.errors import BufferStateError, OutOfMemoryError

from .blocks import STORAGE, Block, Storage, storage_of
from .engine import Engine
from .resources import Kind, TextureBlock, entry_of

__all__ = ["COPY_DST", "COPY_SRC", "STORAGE", "USAGE", "Buffers"]

# The usage flags of WebGPU, the same numbers in both engines.
COPY_SRC, COPY_DST = 0x04, 0x08
_NAMES = {COPY_SRC: "COPY_SRC", COPY_DST: "COPY_DST", STORAGE: "STORAGE"}
USAGE = STORAGE | COPY_SRC | COPY_DST


class Buffers:
    """Makes the buffers of one device, and checks the buffers of callers.

    Attributes:
        largest: bytes that the largest buffer may have.
        lock: the device's lock.
        reclaim: frees the pool and waits for the device; called if the device has no room.
        refused: makes the error for a size that has no room even after `reclaim`.
    """

    def __init__(self, engine: Engine, device: Any, max_size: int, lock: threading.RLock) -> None:
        self._engine = engine
        self._device = device
        self._layout: Any = None
        self._texture_layouts: dict[Kind, Any] = {}
        self._internal: list[weakref.ref[Any]] = []
        self.largest = max_size // 16 * 16
        self.lock = lock
        self.reclaim: Callable[[], object] = lambda: None
        self.refused: Callable[[int], OutOfMemoryError]

    def make(self, size: int, usage: int = USAGE) -> Any:
        """A new GPUBuffer; unused memory is freed first if the device has too little."""
        for last in (False, True):
            try:
                return self._device.create_buffer(label="pykernels", size=size, usage=usage)
            except self._engine.error_class as e:
                error = self._engine.error(e, "memory")
                if not isinstance(error, OutOfMemoryError):
                    raise error from None
                if last:
                    raise self.refused(size) from None
                self.reclaim()
        raise AssertionError("unreachable")

    def create(self, size: int, usage: int) -> Any:
        """A new GPUBuffer of the device's own, counted as internal."""
        buffer = self.make(size, usage)
        self._internal = [ref for ref in self._internal if ref() is not None]
        self._internal.append(weakref.ref(buffer))
        return buffer

    @property
    def internal(self) -> int:
        """Bytes of the device's own buffers."""
        return sum([buffer.size for ref in self._internal if (buffer := ref()) is not None])

    def too_large(self, nbytes: int) -> OutOfMemoryError:
        """The error for a buffer of `nbytes` bytes."""
        return OutOfMemoryError(
            f"[memory] {nbytes} bytes are more than the largest buffer of this device, "
            f"{self.largest}"
        )

    # -- buffers that callers hold ---------------------------------------------------------------

    def adopt(self, buffer: Any) -> Storage:
        """A storage around a buffer that the caller owns."""
        self.inspect(buffer, STORAGE, "from_buffer")
        return storage_of(Block(buffer, foreign=True))

    def inspect(self, buffer: Any, usage: int, what: str) -> None:
        """Raise if a caller's buffer cannot be used: a submit with it would end the process."""
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
        with self.lock:
            if self._layout is None:
                entry = {"binding": 0, "visibility": 4, "buffer": {"type": "storage"}}
                self._layout = _layout(self._engine, self._device, entry, "buffer")
            self._engine.probe(self._device, self._layout, buffer)

    def inspect_texture(self, block: TextureBlock, what: str) -> None:
        """Raise if a caller's texture cannot be used, or if its view is not of the block's kind."""
        if block.buffer._internal is None or block.view._internal is None:
            raise BufferStateError(f"[{what}] the texture has been released")
        with self.lock:
            layout = self._texture_layouts.get(block.kind)
            if layout is None:
                layout = _layout(self._engine, self._device, entry_of(0, block.kind), "texture")
                self._texture_layouts[block.kind] = layout
            self._engine.probe_texture(self._device, layout, block.view, what)


def _layout(engine: Engine, device: Any, entry: dict[str, Any], what: str) -> Any:
    """The bind group layout of one binding."""
    try:
        return device.create_bind_group_layout(entries=[entry])
    except engine.error_class as e:
        raise engine.error(e, what) from None
