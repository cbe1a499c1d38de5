"""Runs dispatches and reads by raw calls of an engine, to compare them with launches."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import pykernels as pk

__all__ = ["Command", "RawLoop", "RawRead", "RawWrite", "recorded", "waiter"]

Array: TypeAlias = np.ndarray[Any, Any]
# A dispatch as raw handles of the engine: pipeline, bind group, its dynamic offset, grid.
Command: TypeAlias = tuple[Any, Any, Any, int, int]
MAP_READ, MAP_WRITE, COPY_SRC, COPY_DST = 0x1, 0x2, 0x04, 0x08
NEVER = (1 << 64) - 1


def recorded(dev: pk.Device, call: Callable[[], object]) -> list[Command]:
    """Run a call, and return its dispatches. They can be dispatched again only until the next
    launch, which may overwrite their params."""
    with dev.batch():
        call()
        return list(dev._context.recorder._queue)


def waiter(dev: pk.Device) -> Callable[[], None]:
    """Returns a function that waits for all submitted work."""
    engine, raw = dev._context.engine, dev._context.raw
    lib, ffi = engine.lib, engine.ffi
    if engine.name == "wgpu":
        device = raw._internal
        return lambda: lib.wgpuDevicePoll(device, True, ffi.NULL)
    queue, wait = raw.queue._internal, _future_waiter(engine)
    info = ffi.new("WGPUQueueWorkDoneCallbackInfo *")
    info.mode = lib.WGPUCallbackMode_AllowProcessEvents
    info.callback = lib._wgpu_dawn_WGPUQueueWorkDoneCallback
    return lambda: wait(lib.wgpuQueueOnSubmittedWorkDone(queue, info[0]))


def _future_waiter(engine: Any) -> Callable[[Any], None]:
    """Returns a function that waits for a future of Dawn."""
    lib = engine.lib
    instance = importlib.import_module("wgpudawn.backends.dawn._helpers").get_wgpu_instance()
    info = engine.ffi.new("WGPUFutureWaitInfo *")

    def wait(future: Any) -> None:
        info.future.id, info.completed = future.id, 0
        lib.wgpuInstanceWaitAny(instance, 1, info, NEVER)

    return wait


class RawLoop:
    """Repeats the dispatches of a call without running code of pykernels: bind groups and params
    are created beforehand."""

    def __init__(self, dev: pk.Device, call: Callable[[], object]) -> None:
        self.dev, self.call = dev, call
        engine, raw = dev._context.engine, dev._context.raw
        self._lib, self._null = engine.lib, engine.ffi.NULL
        self._device, self._queue = raw._internal, raw.queue._internal
        self._buffers = engine.ffi.new("WGPUCommandBuffer[1]")
        self._wait = waiter(dev)

    def __call__(self, n: int, submits: int) -> float:
        """Seconds of n calls in `submits` submits, including the wait at the end."""
        return self.repeat(recorded(self.dev, self.call), n, submits)

    def repeat(self, commands: list[Command], n: int, submits: int) -> float:
        """Seconds of n repetitions of these dispatches."""
        work = commands * n
        size = -(-len(work) // submits)
        parts = [work[at : at + size] for at in range(0, len(work), size)]
        self._wait()
        started = time.perf_counter()
        for part in parts:
            self._submit(part)
        self._wait()
        return time.perf_counter() - started

    def _submit(self, commands: list[Command]) -> None:
        lib, null = self._lib, self._null
        set_pipeline, set_group, run = (
            lib.wgpuComputePassEncoderSetPipeline, lib.wgpuComputePassEncoderSetBindGroup,
            lib.wgpuComputePassEncoderDispatchWorkgroups,
        )  # fmt: skip
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, null)
        compute = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
        bound = None
        for pipeline, group, offset, x, y, z in commands:
            if pipeline is not bound:
                set_pipeline(compute, pipeline.raw)
                bound = pipeline
            set_group(compute, 0, group, 1, offset)
            run(compute, x, y, z)
        lib.wgpuComputePassEncoderEnd(compute)
        self._buffers[0] = lib.wgpuCommandEncoderFinish(encoder, null)
        lib.wgpuQueueSubmit(self._queue, 1, self._buffers)
        lib.wgpuCommandBufferRelease(self._buffers[0])
        lib.wgpuComputePassEncoderRelease(compute)
        lib.wgpuCommandEncoderRelease(encoder)


class RawRead:
    """A read that is written by hand: it copies into a staging buffer that is reused, maps it with
    one shared callback, polls on the calling thread, and copies once to the host."""

    def __init__(self, dev: pk.Device, t: pk.Tensor) -> None:
        context = dev._context
        engine = self._engine = context.engine
        lib, ffi = engine.lib, engine.ffi
        self._t, self._device = t, context.raw._internal
        self._queue, self._buffers = context.raw.queue._internal, ffi.new("WGPUCommandBuffer[1]")
        self._keep = context.raw.create_buffer(size=t.nbytes, usage=MAP_READ | COPY_DST)
        self._staging = self._keep._internal
        self._done: list[int] = []
        info = self._info = ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode = lib.WGPUCallbackMode_AllowProcessEvents
        if engine.name == "dawn":
            info.callback = lib._wgpu_dawn_WGPUBufferMapCallback
            self._wait = _future_waiter(engine)
        else:
            kind = "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)"
            self._callback = ffi.callback(kind, lambda status, *rest: self._done.append(status))
            info.callback = self._callback
            self._wait = self._poll

    def _poll(self, future: Any) -> None:
        lib, null = self._engine.lib, self._engine.ffi.NULL
        while not self._done:
            lib.wgpuDevicePoll(self._device, True, null)
        self._done.clear()

    def __call__(self, out: Array | None = None) -> Array:
        """Read the tensor into `out` or into a new array."""
        lib, ffi, t = self._engine.lib, self._engine.ffi, self._t
        null, nbytes = ffi.NULL, t.nbytes
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, null)
        lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder, t._block.handle, t.offset, self._staging, 0, nbytes
        )
        self._buffers[0] = lib.wgpuCommandEncoderFinish(encoder, null)
        lib.wgpuQueueSubmit(self._queue, 1, self._buffers)
        self._wait(lib.wgpuBufferMapAsync(self._staging, MAP_READ, 0, nbytes, self._info[0]))
        found = np.empty(t.shape, t.dtype) if out is None else out
        source = lib.wgpuBufferGetConstMappedRange(self._staging, 0, nbytes)
        ffi.memmove(ffi.from_buffer(found), source, nbytes)
        lib.wgpuBufferUnmap(self._staging)
        lib.wgpuCommandBufferRelease(self._buffers[0])
        lib.wgpuCommandEncoderRelease(encoder)
        return found


class RawWrite:
    """A copy into a staging buffer that stays mapped: the least time of a write."""

    def __init__(self, dev: pk.Device, nbytes: int) -> None:
        context = dev._context
        self._ffi = context.engine.ffi
        usage = MAP_WRITE | COPY_SRC
        self._keep = context.raw.create_buffer(size=nbytes, usage=usage, mapped_at_creation=True)
        lib = context.engine.lib
        self._target = lib.wgpuBufferGetMappedRange(self._keep._internal, 0, nbytes)
        self._nbytes = nbytes

    def __call__(self, array: Array) -> None:
        """Copy a contiguous array."""
        self._ffi.memmove(self._target, self._ffi.from_buffer(array), self._nbytes)

    def close(self) -> None:
        """Release the buffer."""
        self._keep.destroy()
