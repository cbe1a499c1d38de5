"""Records launches into one encoder and one compute pass, and submits them.

The params of a batch lie in one uniform buffer, written once per submit. The raw C calls of
both engines are used here, about four times cheaper than the Python API.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .dispatch import PARAMS_BYTES, Dispatch
from .engine import Engine
from .faults import Faults, Page
from .memory import STORAGE, Block, Pool, Storage

__all__ = ["MAX_BYTES", "MAX_LAUNCHES", "MAX_OPERATIONS", "PassRecorder", "Recorder", "Timer"]

MAX_LAUNCHES = 1024  # in one batch: each has its params
# A batch is submitted before it keeps a slow device busy long enough for a driver's watchdog:
# either of these is 15 to 25 ms on a data-centre GPU and about a second on a small one.
MAX_BYTES = 64 << 30
MAX_OPERATIONS = 10**12
UNIFORM = 0x40 | 0x08  # UNIFORM | COPY_DST


class Timer(Protocol):
    """What a recorder tells a profile that times its dispatches, or (`batches`) whole batches."""

    batches: bool

    def begin(self, label: str, nbytes: int, host: float) -> dict[str, Any] | None:
        """A compute pass begins: its timestamp writes. `host` is the time, `nbytes` are bound."""

    def resolve(self, encoder: Any, dispatches: int, nbytes: int) -> None:
        """The last pass of a batch has ended."""

    def submitted(self) -> None:
        """The batch was submitted."""

    def discard(self) -> None:
        """What was begun and not submitted is lost."""


class Recorder:
    """The launches of one device that are recorded and not yet submitted."""

    def __init__(self, engine: Engine, device: Any, pool: Pool, faults: Faults) -> None:
        self._engine = engine
        self._device = device
        self._pool = pool
        self._faults = faults
        self.make_room: Callable[[], None] = lambda: None  # empties the page of faults
        lib = self._lib = engine.lib
        # Looked up once: these are called for every launch.
        self._set_pipeline: Any = lib.wgpuComputePassEncoderSetPipeline
        self._set_group: Any = lib.wgpuComputePassEncoderSetBindGroup
        self._run: Any = lib.wgpuComputePassEncoderDispatchWorkgroups
        self._raw_device = device._internal
        self._encoder: Any = None
        self._pass: Any = None
        self._raw_pass: Any = None
        self._bound: Any = None  # the pipeline that the pass has set
        self._params = bytearray(PARAMS_BYTES * MAX_LAUNCHES)
        self._prefixes: list[bytes] = [b""] * MAX_LAUNCHES  # what stands in the slots already
        self._offsets: list[Any] = [
            engine.ffi.new("uint32_t[1]", [PARAMS_BYTES * i]) for i in range(MAX_LAUNCHES)
        ]
        self._slot = 0
        self._bytes = 0
        self._operations = 0
        self._exposed: dict[int, Block] = {}
        self.serial = 0
        self.submits = 0
        self.timer: Timer | None = None
        self._uniform: Any = pool.create(PARAMS_BYTES * MAX_LAUNCHES, UNIFORM)

    def bind(self, d: Dispatch, tensors: Sequence[Any], temps: Sequence[Storage]) -> Any:
        """A bind group of `tensors` and, for slots below 0, `temps`; the caller releases it."""
        for entry, slot, delta in d.refs:
            if slot >= 0:
                t = tensors[slot]
                block = t._block
                entry.offset = t._offset + delta
            else:
                block = temps[~slot].block
            entry.buffer = block.handle
            if block.exposed:
                self._inspect(block, d.label)
        d.uniform_entry.buffer = self._uniform._internal
        if d.page_entry is not None:
            d.page_entry.buffer = self._fault_page().block.handle
        engine, group = self._engine, None
        engine.begin()
        try:
            group = self._lib.wgpuDeviceCreateBindGroup(self._raw_device, d.descriptor)
        finally:
            try:
                engine.end(d.label)
            except BaseException:
                if group:
                    self._lib.wgpuBindGroupRelease(group)
                raise
        return group

    def dispatch(
        self, d: Dispatch, group: Any, blocks: Sequence[Block], scalars: Sequence[float]
    ) -> None:
        """Record one dispatch; `blocks` are the buffers that `group` binds.

        Raises struct.error or OverflowError, and records nothing, for unusable scalars.
        """
        if (
            self._slot == MAX_LAUNCHES
            or self._bytes > MAX_BYTES
            or self._operations > MAX_OPERATIONS
        ):
            self.flush()
        if d.watch is not None and self._fault_page().full:
            self.make_room()
        serial = self.serial
        for block in blocks:
            if block.exposed:
                self._inspect(block, d.label)
            block.mark = serial
        if self._raw_pass is None or (self.timer is not None and not self.timer.batches):
            self._open(d)
        slot = self._slot
        self._slot = slot + 1  # before it is used: whatever interrupts, nobody else gets it
        at = slot * PARAMS_BYTES
        prefix = d.prefix
        if self._prefixes[slot] is not prefix:
            self._params[at : at + len(prefix)] = prefix
            self._prefixes[slot] = prefix
        if d.watch is None:
            d.pack_into(self._params, at + len(prefix), *scalars)
        else:
            number = self._fault_page().take(d.op, d.watch)
            d.pack_into(self._params, at + len(prefix), number, *scalars)
        raw = self._raw_pass
        if self._bound is not d.pipeline_raw:
            self._set_pipeline(raw, d.pipeline_raw)
            self._bound = d.pipeline_raw
        self._set_group(raw, 0, group, 1, self._offsets[slot])
        self._run(raw, d.grid_x, d.grid_y, 1)
        self._bytes += d.nbytes
        self._operations += d.operations

    def _fault_page(self) -> Page:
        """Where the next launch reports what it finds wrong."""
        return self._faults.own

    def _inspect(self, block: Block, what: str) -> None:
        """Refuse a buffer that others hold and made unusable; once in a batch, and at its end."""
        if id(block) not in self._exposed:
            self._pool.inspect(block.buffer, STORAGE, what)
            self._exposed[id(block)] = block

    def _open(self, d: Dispatch) -> None:
        """An encoder and a pass; while profiling dispatches, a pass with timestamps for each."""
        try:
            if self._encoder is None:
                self._encoder = self._device.create_command_encoder(label="pykernels")
            if self._pass is not None:
                self._pass.end()
            writes = None
            if self.timer is not None:
                label = "batch" if self.timer.batches else d.label
                writes = self.timer.begin(label, d.nbytes, time.perf_counter())
            self._pass = self._encoder.begin_compute_pass(timestamp_writes=writes)
            self._raw_pass = self._pass._internal
            self._bound = None
        except self._engine.error_class as e:
            self._discard()
            raise self._engine.error(e, d.label) from None

    def flush(self) -> None:
        """Submit what is recorded; if that fails, it is lost as a whole."""
        if self._encoder is None:
            return
        try:
            if self._pass is not None:
                self._pass.end()
            if self.timer is not None:
                self.timer.resolve(self._encoder, self._slot, self._bytes)
            for block in self._exposed.values():
                if block.mark == self.serial:
                    self._pool.inspect(block.buffer, STORAGE, "submit")
            # wgpu ends the process at a submit to a lost device; finish raises before that.
            commands = self._encoder.finish()
            self.write_params()
            self._device.queue.submit([commands])
            self.submits += 1
            if self.timer is not None:
                self.timer.submitted()
        except self._engine.error_class as e:
            raise self._engine.error(e, "submit") from None
        finally:
            self._discard()

    def write_params(self) -> None:
        """Queue the write of the params of all recorded launches."""
        if self._slot:
            data = memoryview(self._params)[: self._slot * PARAMS_BYTES]
            self._engine.write(self._device, self._uniform, 0, data)

    def _discard(self) -> None:
        """Forget what is recorded."""
        self._encoder = self._pass = self._raw_pass = self._bound = None
        self._exposed.clear()
        self._slot = 0
        self._bytes = self._operations = 0
        self.serial += 1
        if self.timer is not None:
            self.timer.discard()


class PassRecorder(Recorder):
    """Records into a compute pass that the caller owns, and ends and submits at any time.

    So its uniform buffers are never used again, and the buffers of its tensors never go back to
    the pool.
    """

    def __init__(self, own: Recorder, pass_: Any) -> None:
        super().__init__(own._engine, own._device, own._pool, own._faults)
        self._own = own
        self._page: Page | None = None
        self._raw_pass = pass_._internal
        self._keep = pass_

    def bind(self, d: Dispatch, tensors: Sequence[Any], temps: Sequence[Storage]) -> Any:
        if self._slot == MAX_LAUNCHES:
            self.flush()
        if d.page_entry is not None and self._fault_page().full:
            self.leave_page()
        return super().bind(d, tensors, temps)

    def dispatch(
        self, d: Dispatch, group: Any, blocks: Sequence[Block], scalars: Sequence[float]
    ) -> None:
        for block in blocks:
            block.reusable = False
        self.serial = self._own.serial  # the mark of a block is about the device's own batch
        self._bound = None  # the caller may have set another pipeline
        self._bytes = self._operations = 0  # the caller decides when to submit
        self._engine.begin()
        try:
            super().dispatch(d, group, blocks, scalars)
        finally:
            self._engine.end(d.label)

    def _fault_page(self) -> Page:
        if self._page is None:
            self._page = self._faults.recorded()
        return self._page

    def leave_page(self) -> None:
        """Later launches get another page of faults."""
        if self._page is not None:
            self._page.closed = True
        self._page = None

    def flush(self) -> None:
        """Write the params; those of later launches go elsewhere."""
        self.write_params()
        self._slot = 0
        self._uniform = self._pool.create(PARAMS_BYTES * MAX_LAUNCHES, UNIFORM)
