"""What a device does that names no tensor: its state, its work and its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, Self

from .dtypes import completes
from .errors import ArgumentError, DTypeError
from .lazy import load
from .protocols import Explained, GPUComputePass
from .runtime.adapters import AdapterInfo
from .runtime.capture import Program
from .runtime.context import Context
from .runtime.engine import EngineName
from .runtime.memory import MemoryStats
from .runtime.profile import Profile, profiled
from .runtime.warmup import warm_up

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

    def __reduce__(self) -> NoReturn:
        raise DTypeError(
            "[pickle] a Device belongs to its process and cannot be pickled: open one in each "
            "process, or send tensors, which are read for the default device of the other one"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Submit what is recorded and give the device up; its tensors become unusable.

        A device that the caller made is not destroyed. Closing twice is fine.

        Raises:
            IndexRangeError: launches, of whatever thread or task, found an index out of range that
                no synchronisation has reported; the device is closed all the same.
        """
        self._context.close()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self._context.flush()

    def sync(self) -> None:
        """Submit all recorded launches and wait until the device has finished them.

        Raises IndexRangeError, once, for what launches of this thread or task (or of one that has
        ended) found wrong since its last synchronisation.
        """
        self._context.sync()

    def checked(self) -> AbstractContextManager[None]:
        """Synchronise at the end of the block, and raise what calls inside found wrong.

        These are the calls of child tasks, of `asyncio.to_thread` and of copied contexts, too: for
        a request whose launches and reads are in different threads.

        Raises:
            IndexRangeError: a launch inside found an index out of range. A read inside raises it,
                too, then the end does not.
        """
        return self._context.checked()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Launches inside are submitted together at the end (earlier only for a read, or when a
        bounded number of dispatches or of bytes and operations is reached). That holds for calls
        on buffers that you share, too: `flush()` before your own queue calls inside."""
        self.flush()
        pace = self._context.recorder.pace
        pace.held += 1
        pace.whole += 1
        try:
            yield
        finally:
            pace.held -= 1
            pace.whole -= 1
            self.flush()

    def record(self, compute_pass: GPUComputePass) -> AbstractContextManager[None]:
        """Record this thread's launches inside into a GPUComputePassEncoder that the caller owns.

        The caller ends the pass, submits it, and gets the errors of `finish()`. The launches run
        when it is submitted: a write from the host before that comes before them, and until the
        pass has ended, reads of what it will write raise BufferStateError, as do launches outside
        of it that take that as an input. Their buffers are not used again by the pool, so tensors
        may be let go.

        Raises:
            BufferStateError: it is no pass of this device, or has ended.
        """
        return self._context.record(compute_pass)

    def warmup(
        self,
        *work: Program | Callable[[], object],
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Compile what programs and calls need, so that their first run takes no longer than the
        next: before a first request or frame that has a deadline. Nothing of them runs.

        Pipelines are compiled on several threads, then each is dispatched once with no workgroups,
        as some drivers compile only then. What was compiled before costs next to nothing.

        Args:
            work: captured programs, or functions without arguments that make calls as inside
                `capture`: on tensors that exist, without reads and uploads.
            progress: called on this thread with the number of pipelines that are ready, and of all.

        Raises:
            DTypeError: something else in `work`, or a `progress` that cannot be called.
            BufferStateError: a program of another device, or one that cannot run; a read or upload
                in a function; inside a capture or a recorded pass.
            ShaderError: the driver refuses a pipeline.
        """
        warm_up(self._context, work, progress)

    def profile(self, *, batches: bool = False) -> AbstractContextManager[Profile]:
        """Time each launch inside on the GPU, or each batch of them; see `Profile`.

        Raises:
            ArgumentError: `batches` is no bool.
            BufferStateError: inside a capture.
        """
        return profiled(self._context, batches)

    def explain(self, call: Callable[[], object]) -> Explained:
        """Why the kernels of `call()` take the bodies that they take: for each choice of a plan all
        candidates, what the plan predicts and what each takes, and what rules the others out. The
        call is made many times; printed, the answer is a table.

        Raises:
            BufferStateError: inside a capture.
            DTypeError: call is no function.
        """
        found: Explained = load("pykernels.bench.explain").explain(self, call)
        return found

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
        """Let tensors, captured programs and the pool together hold at most `nbytes` (None: what
        the device has). PYKERNELS_MEMORY_BUDGET sets it for every device that is opened.

        What is pooled above it is freed. Below what is in use nothing is freed, and nothing more is
        allocated. A call that does not fit raises OutOfMemoryError with the bytes that it asks
        for, those in use and those pooled.
        """
        fits = isinstance(nbytes, int) and not isinstance(nbytes, bool) and nbytes >= 0
        if not (nbytes is None or fits):
            raise ArgumentError(f"[memory] a budget must be bytes or None but is {nbytes!r}")
        self._context.check()
        self._context.pool.set_budget(nbytes)
