"""What a device does that names no tensor: its state, its work and its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

from .dtypes import completes
from .errors import ArgumentError
from .protocols import GPUComputePass
from .runtime.adapters import AdapterInfo
from .runtime.context import Context
from .runtime.engine import EngineName
from .runtime.memory import MemoryStats
from .runtime.profile import Profile, profiled

__all__ = ["DeviceControl"]


class DeviceControl:
    """State, batches and memory of a `Device`."""

    _context: Context

    @property
    def info(self) -> AdapterInfo:
        """Name, type, backend and driver of the adapter; engine and its version."""
        return self._context.info

    @property
    @completes
    def engine(self) -> EngineName:
        """The engine's name."""
        return self._context.engine.name

    @property
    def matrix_shapes(self) -> tuple[str, ...]:
        """What the matrix units multiply in one step, as "f16 x f16 -> f32 16x16x16" (M x N x K);
        empty where there are none or the device was not opened for them."""
        units = self._context.caps.matrix
        return () if units is None else units.described

    @property
    def wgpu_device(self) -> Any:
        """The GPUDevice underneath."""
        return self._context.raw

    def __repr__(self) -> str:
        return f"<pykernels.Device {self.info['name']}, engine {self.engine}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Submit what is recorded and give the device up; its tensors become unusable.

        A device that the caller made is not destroyed. Closing twice is fine.

        Raises:
            IndexRangeError: launches found an index out of range that no synchronisation has
                reported; the device is closed all the same.
        """
        self._context.close()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self._context.flush()

    def sync(self) -> None:
        """Submit all recorded launches and wait until the device has finished them.

        Raises IndexRangeError, once, for what launches since the last synchronisation found wrong.
        """
        self._context.sync()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Launches inside are submitted together at the end (earlier only for a read, or when a
        bounded number of dispatches or of bytes and operations is reached)."""
        self.flush()
        pace = self._context.recorder.pace
        pace.held += 1
        try:
            yield
        finally:
            pace.held -= 1
            self.flush()

    def record(self, compute_pass: GPUComputePass) -> AbstractContextManager[None]:
        """Record this thread's launches inside into a GPUComputePassEncoder that the caller owns.

        The caller ends the pass, submits it, and gets the errors of `finish()`. The launches run
        when it is submitted: a read, or a write from the host, before that does not wait for
        them. Their buffers are not used again by the pool, so tensors may be let go.

        Raises:
            BufferStateError: it is no pass of this device, or has ended.
        """
        return self._context.record(compute_pass)

    def profile(self, *, batches: bool = False) -> AbstractContextManager[Profile]:
        """Time each launch inside on the GPU, or each batch of them; see `Profile`."""
        return profiled(self._context, batches)

    @property
    def submits(self) -> int:
        """How often work was submitted so far."""
        return self._context.recorder.submits

    # -- memory ---------------------------------------------------------------------------------

    def memory_stats(self) -> MemoryStats:
        """Bytes and buffers in use, pooled and at their peak; exact."""
        return self._context.pool.stats()

    def trim(self) -> int:
        """Free the pooled buffers; the bytes freed."""
        self._context.check()
        return self._context.pool.trim()

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Let tensors and pool together hold at most `nbytes` (None: what the device has)."""
        if nbytes is not None and (not isinstance(nbytes, int) or nbytes < 0):
            raise ArgumentError(f"[memory] a budget must be bytes or None but is {nbytes!r}")
        self._context.pool.budget = nbytes
