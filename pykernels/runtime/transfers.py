"""Uploads into and readbacks from the buffers of one device."""

from __future__ import annotations

import threading
from typing import Any

from pykernels.errors import DeviceLostError

from .engine import Engine
from .faults import Faults
from .memory import COPY_DST, COPY_SRC, Block, Pool
from .recorder import Recorder

__all__ = ["Transfers"]

MAP_READ = 0x1 | COPY_DST
READ_CHUNK = 64 << 20


class Transfers:
    """Moves whole words between the host and buffers, in order with recorded launches."""

    def __init__(
        self, engine: Engine, device: Any, pool: Pool, recorder: Recorder, lock: threading.RLock,
        faults: Faults,
    ) -> None:  # fmt: skip
        self._engine, self._device = engine, device
        self._pool, self._recorder, self._lock = pool, recorder, lock
        self._faults = faults
        self._staging: Any = None

    def upload(self, block: Block, offset: int, data: memoryview) -> None:
        """Queue a write; recorded launches that use the block go first."""
        with self._lock:
            if block.mark >= self._recorder.serial:
                self._recorder.flush()
            if block.exposed:
                self._pool.inspect(block.buffer, COPY_DST, "write")
            self._engine.write(self._device, block.buffer, offset, data)

    def read(self, block: Block, offset: int, size: int) -> bytearray:
        """Submit, wait, and read; raise what launches found wrong (see `faults`)."""
        out = bytearray(size)
        with self._lock:
            self._recorder.flush()
            if block.exposed:
                self._pool.inspect(block.buffer, COPY_SRC, "read")
            waiting = self._faults.waiting()
            for at in range(0, size, READ_CHUNK):
                n = min(READ_CHUNK, size - at)
                out[at : at + n] = self._read_chunk(block, offset + at, n)
            self._faults.found(waiting, [self._read_chunk(w.block, 0, w.nbytes) for w in waiting])
            self._faults.raise_pending()
        return out

    def poll(self) -> None:
        """Submit, wait, and keep what launches found wrong for the next read."""
        with self._lock:
            self._recorder.flush()
            waiting = self._faults.waiting()
            self._faults.found(waiting, [self._read_chunk(w.block, 0, w.nbytes) for w in waiting])

    def _read_chunk(self, block: Block, offset: int, size: int) -> memoryview:
        total = size
        staging, self._staging = self._room(total), None
        try:
            encoder = self._device.create_command_encoder()
            encoder.copy_buffer_to_buffer(block.buffer, offset, staging, 0, size)
            # wgpu ends the process at a submit to a lost device; finish raises before that.
            self._device.queue.submit([encoder.finish()])
            self._engine.wait(self._device, staging.map_async("READ_NOSYNC", 0, total))
            data: memoryview = staging.read_mapped(0, total, copy=True)
            staging.unmap()
        except self._engine.error_class as e:
            raise self._engine.error(e, "read") from None
        except (RuntimeError, AttributeError) as e:
            raise DeviceLostError(f"[read] the device was lost while it was read from: {e}") from e
        self._staging = staging  # only one that nothing happened to is used again
        return data.cast("B")

    def _room(self, size: int) -> Any:
        """A mappable buffer of at least `size` bytes."""
        if self._staging is None or self._staging.size < size:
            room = min(max(1 << max(size - 1, 1).bit_length(), 65536), READ_CHUNK)
            self._staging = self._pool.create(room, MAP_READ)
        return self._staging

    def close(self) -> None:
        """Let the readback buffer go."""
        self._staging = None
