"""Records launches into one encoder and one compute pass, and submits them.

Params go into 256-byte slots of one uniform buffer, written once per submit. The raw C calls of
both engines are used here, about four times cheaper than the Python API.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .engine import Engine
from .errors import BufferStateError, DeviceLostError
from .memory import Block, Storage, check_foreign

if TYPE_CHECKING:
    from .launch import Dispatch
    from .profile import Profile

__all__ = ["MAX_BYTES", "SLOTS", "SLOT_BYTES", "Recorder"]

SLOT_BYTES = 256
SLOTS = 256
# A batch is submitted before it keeps a slow device busy long enough for a driver's watchdog:
# 64 GiB is 15 ms on a data-centre GPU and about a second on a small one.
MAX_BYTES = 64 << 30
UNIFORM = 0x40 | 0x08  # UNIFORM | COPY_DST


class Recorder:
    """The launches of one device that are recorded and not yet submitted.

    With `pass_` the launches go into a compute pass that the caller owns: each flush of params
    then takes a fresh uniform buffer, and ending and submitting are the caller's.
    """

    def __init__(self, engine: Engine, device: Any, pass_: Any = None) -> None:
        self._engine = engine
        self._device = device
        self._lib: Any = engine.lib
        self._raw_device = device._internal
        self._external = pass_ is not None
        self._encoder: Any = None
        self._pass: Any = pass_
        self._raw_pass: Any = pass_._internal if pass_ is not None else None
        self._params = bytearray(SLOT_BYTES * SLOTS)
        self._bound: Any = None  # the pipeline that the pass has set
        self._offset_p: Any = engine.ffi.new("uint32_t[1]")
        self._uniform: Any = None
        self._uniform_raw: Any = None
        self._slot = 0
        self._bytes = 0
        self._foreign: dict[int, Block] = {}
        self.serial = 0
        self.submits = 0
        self.dispatches = 0
        self.profile: Profile | None = None
        self._new_uniform()

    def _new_uniform(self) -> None:
        try:
            self._uniform = self._device.create_buffer(
                label="pykernels params", size=SLOT_BYTES * SLOTS, usage=UNIFORM
            )
        except self._engine.error_class as e:
            raise self._engine.error(e, "params") from None
        self._uniform_raw = self._uniform._internal

    @property
    def pending(self) -> bool:
        return self._slot > 0

    def bind(self, d: Dispatch, tensors: Sequence[Any], temps: Sequence[Storage]) -> Any:
        """A bind group of `tensors` and, for slots below 0, `temps`; the caller releases it."""
        foreign = False
        for entry, slot, delta in d.refs:
            if slot >= 0:
                t = tensors[slot]
                block = t._block
                entry.offset = t._offset + delta
            else:
                block = temps[~slot].block
            entry.buffer = block.handle
            if block.foreign:
                foreign = True
        d.uniform_entry.buffer = self._uniform_raw
        if foreign:
            return self._checked_group(d)
        return self._lib.wgpuDeviceCreateBindGroup(self._raw_device, d.descriptor)

    def dispatch(self, d: Dispatch, group: Any, blocks: Sequence[Block], tail: bytes) -> None:
        """Record one dispatch; `blocks` are the buffers that `group` binds."""
        if self._slot == SLOTS or self._bytes > MAX_BYTES:
            self.flush()
        serial = self.serial
        for block in blocks:
            block.mark = serial
            if block.foreign:
                self._foreign[id(block)] = block
        if self._raw_pass is None:
            self._open()
        if self.profile is not None and not self._external:
            self._open_timed(d)
        lib = self._lib
        at = self._slot * SLOT_BYTES
        params = self._params
        end = at + len(d.prefix)
        params[at:end] = d.prefix
        params[end : end + len(tail)] = tail
        self._offset_p[0] = at
        raw = self._raw_pass
        if self._bound is not d.pipeline_raw:
            lib.wgpuComputePassEncoderSetPipeline(raw, d.pipeline_raw)
            self._bound = d.pipeline_raw
        lib.wgpuComputePassEncoderSetBindGroup(raw, 0, group, 1, self._offset_p)
        lib.wgpuComputePassEncoderDispatchWorkgroups(raw, d.grid_x, d.grid_y, 1)
        self._slot += 1
        self._bytes += d.nbytes
        self.dispatches += 1

    def _checked_group(self, d: Dispatch) -> Any:
        """A bind group over a buffer of somebody else's, which may have been destroyed."""
        self._engine.begin()
        try:
            return self._lib.wgpuDeviceCreateBindGroup(self._raw_device, d.descriptor)
        finally:
            self._engine.end()

    def _open(self) -> None:
        try:
            self._encoder = self._device.create_command_encoder(label="pykernels")
            if self.profile is None:
                self._pass = self._encoder.begin_compute_pass()
                self._raw_pass = self._pass._internal
        except self._engine.error_class as e:
            self.discard()
            raise self._engine.error(e, "launch") from None

    def _open_timed(self, d: Dispatch) -> None:
        """A compute pass of its own for this dispatch, between two timestamps."""
        assert self.profile is not None
        if self._pass is not None:
            self._pass.end()
        writes = self.profile.begin(d.label, d.nbytes, time.perf_counter())
        self._pass = self._encoder.begin_compute_pass(timestamp_writes=writes)
        self._raw_pass = self._pass._internal
        self._bound = None

    def flush(self, *extra: Any) -> None:
        """Submit what is recorded, then the command buffers in `extra`."""
        if self._external:
            self._write_params()
            self._new_uniform()
            return
        if not self._slot and not extra:
            return
        engine = self._engine
        try:
            buffers = []
            if self._slot:
                if self._pass is not None:
                    self._pass.end()
                if self.profile is not None:
                    self.profile.resolve(self._encoder)
                self._probe()
                buffers.append(self._encoder.finish())
                self._write_params()
            self._device.queue.submit([*buffers, *extra])
            self.submits += 1
        except engine.error_class as e:
            raise engine.error(e, "submit") from None
        finally:
            self.discard()

    def _write_params(self) -> None:
        if self._slot:
            data = memoryview(self._params)[: self._slot * SLOT_BYTES]
            self._device.queue.write_buffer(self._uniform, 0, data)

    def _probe(self) -> None:
        """Refuse foreign buffers that were destroyed or mapped since they were recorded.

        Submitting one would end the process (wgpu). A checked bind group raises instead.
        """
        for block in self._foreign.values():
            check_foreign(block.buffer)
            probe(self._engine, self._device, block.buffer)

    def discard(self) -> None:
        """Forget what is recorded, without submitting it."""
        if self._external:
            return
        self._encoder = self._pass = self._raw_pass = self._bound = None
        self._foreign.clear()
        self._slot = 0
        self._bytes = 0
        self.serial += 1


_probe_layouts: dict[int, tuple[Any, Any]] = {}


def probe(engine: Engine, device: Any, buffer: Any) -> None:
    """Raise BufferStateError if a buffer cannot be bound on this device."""
    known = _probe_layouts.get(id(device))
    if known is None or known[0] is not device:
        layout = device.create_bind_group_layout(
            entries=[{"binding": 0, "visibility": 4, "buffer": {"type": "storage"}}]
        )
        _probe_layouts.clear()
        _probe_layouts[id(device)] = known = (device, layout)
    try:
        size = buffer.size // 4 * 4
        device.create_bind_group(
            layout=known[1],
            entries=[
                {"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": min(size, 256)}}
            ],
        )
    except engine.error_class as e:
        error = engine.error(e, "buffer")
        if isinstance(error, DeviceLostError):
            raise error from None
        raise BufferStateError(f"[buffer] the buffer cannot be used: {e}") from None
