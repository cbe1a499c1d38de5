"""The methods of a device that involve no tensor: its state, its work and its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, Self

from pykernels.dtypes import completes
from pykernels.errors import ArgumentError, DTypeError
from pykernels.lazy import load

from .adapters import AdapterInfo
from .context import Context
from .engine import EngineName
from .memory import MemoryStats
from .pass_recorder import recording
from .profile import Profile, profiled
from .program import Program
from .protocols import Debugged, Explained, GPUComputePass
from .warmup import warm_up

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
        """The products that a matrix unit computes in one instruction, such as "f16 x f16 -> f32
        16x16x16" (M x N x K). Empty if the device has none or was opened without them."""
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
            "process, or send tensors: the other process puts them on its default device"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Submit the recorded work and close the device. Its tensors become unusable.

        A GPUDevice that the caller made is not destroyed. You may close a device twice.

        Raises:
            IndexRangeError: a launch of any thread or task found an index out of range that no
                synchronisation has reported. The device is closed nevertheless.
        """
        self._context.close()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self._context.flush()

    def sync(self) -> None:
        """Submit all recorded launches and wait until the device has finished them.

        Raises IndexRangeError once if a launch of this thread or task has found an index out of
        range since the last synchronisation. The same holds for launches of threads and tasks that
        have ended.
        """
        self._context.sync()

    def checked(self) -> AbstractContextManager[None]:
        """Synchronise at the end of the block, and raise the errors of all calls inside it.

        These include calls of child tasks, of `asyncio.to_thread` and of copied contexts. So it
        serves a request whose launches and reads are in different threads.

        Raises:
            IndexRangeError: a launch inside found an index out of range. If a read inside has
                raised the error, the end of the block does not raise it again.
        """
        return self._context.checked()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Submit the launches of the block together at its end.

        They are submitted earlier only for a read, or when the number of dispatches, bytes or
        operations reaches a limit. This holds for launches on shared buffers too: call `flush()`
        before your own queue calls inside the block.
        """
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
        """Record this thread's launches of the block into the caller's GPUComputePassEncoder.

        The caller ends the pass, submits it, and gets the errors of `finish()`. The launches run
        when the pass is submitted, after all earlier writes from the host. Until the pass has
        ended, two kinds of calls raise BufferStateError: reads of tensors that the pass will write,
        and launches outside the pass that take such a tensor as an input. The pool does not reuse
        the buffers, so you may delete the tensors.

        Raises:
            BufferStateError: the pass belongs to another device, or has ended.
        """
        return recording(self._context, compute_pass)

    def warmup(
        self,
        *work: Program | Callable[[], object],
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Compile the shaders of programs and calls without running them, so that their first run
        takes no longer than later runs. Use it before a first request or frame with a deadline.

        Several threads compile the pipelines. Then each pipeline is dispatched once without
        workgroups, because some drivers compile only then. Compiled shaders cost next to nothing.

        Args:
            work: captured programs, or functions without arguments that make calls as inside
                `capture`: on existing tensors, without reads and uploads.
            progress: called on this thread with the number of ready pipelines and the number of
                all.

        Raises:
            DTypeError: `work` contains something else, or `progress` cannot be called.
            BufferStateError: a program belongs to another device or cannot run; a function reads or
                uploads; the call is inside a capture or a recorded pass.
            ShaderError: the driver refuses a pipeline.
        """
        warm_up(self._context, work, progress)

    def profile(self, *, batches: bool = False) -> AbstractContextManager[Profile]:
        """Time each launch inside on the GPU, or each batch of them; see `Profile`.

        Raises:
            ArgumentError: `batches` is not a bool.
            BufferStateError: inside a capture.
        """
        return profiled(self._context, batches)

    def debug(
        self, *, invocation: Any = None, limit: int = 1000
    ) -> AbstractContextManager[Debugged]:
        """Collect what `debug("label", value, ...)` writes in the texts of kernels.

        A text for `raw_kernel`, or the source of a kernel that `pykernels build` or `load_kernels`
        builds, may have such statements, each with a label and up to 16 numbers. Launches inside
        the block record the values; all other launches run the text without `debug`.

            with dev.debug(invocation=range(4)) as d:
                kernel(x, y)
            print(d)

        Args:
            invocation: Which invocations are recorded, by their global id: a number or a range
                along x, or a tuple of up to three numbers or ranges, along x, y and z; None for
                all.
            limit: The most records of each kernel; the first ones are kept.

        Raises:
            ArgumentError: an argument has another form.
            BufferStateError: inside a capture or a recorded pass.
        """
        block: AbstractContextManager[Debugged] = load("pykernels.raw.debugging").debugged(
            self, invocation, limit
        )
        return block

    def explain(self, call: Callable[[], object]) -> Explained:
        """Explains which bodies the kernels of `call()` take, and why.

        For each choice of a plan, the result lists all candidates, the predicted and the measured
        time of each, and the reason if a candidate cannot be used. `call` runs many times. The
        result prints as a table.

        Raises:
            BufferStateError: inside a capture.
            DTypeError: call is not a function.
        """
        found: Explained = load("pykernels.bench.explain").explain(self, call)
        return found

    @property
    def submits(self) -> int:
        """The number of submits so far."""
        return self._context.recorder.submits

    # -- memory ---------------------------------------------------------------------------------

    def memory_stats(self) -> MemoryStats:
        """The exact bytes and buffers in use, in the pool, and at their peak."""
        return self._context.pool.stats()

    def trim(self) -> int:
        """Free the buffers of the pool, and return the number of freed bytes."""
        self._context.check()
        return self._context.pool.trim()

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Limit the memory of tensors, captured programs and the pool together to `nbytes`; None
        removes the limit. PYKERNELS_MEMORY_BUDGET sets it for every device that is opened.

        Pooled memory above the budget is freed. If more than the budget is in use, nothing else is
        freed, and no call can allocate more. A call that does not fit raises OutOfMemoryError,
        which states the requested bytes, the bytes in use and the bytes in the pool.
        """
        fits = isinstance(nbytes, int) and not isinstance(nbytes, bool) and nbytes >= 0
        if not (nbytes is None or fits):
            raise ArgumentError(f"[memory] a budget must be bytes or None but is {nbytes!r}")
        self._context.check()
        self._context.set_budget(nbytes)
