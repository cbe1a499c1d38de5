"""Signals of an engine that a buffer is mapped, or that submitted work is done.

A wait holds no lock and returns to Python at least every 10 ms, so that Ctrl-C works. An abandoned
wait needs no cleanup: nothing is freed that the engine may still use.
"""

from __future__ import annotations

import abc
import functools
import math
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

__all__ = [
    "SPIN_SOFTWARE", "Completion", "DawnSignals", "Kind", "Signals", "WgpuSignals", "pauses",
]  # fmt: skip

Kind: TypeAlias = Literal["BufferMap", "QueueWorkDone"]
_STATUS: dict[Kind, str] = {
    "BufferMap": "WGPUMapAsyncStatus",
    "QueueWorkDone": "WGPUQueueWorkDoneStatus",
}
# The arguments of a callback: status, message, userdata1, userdata2.
_ARGUMENTS = struct.Struct("<i?QQ")
SUCCESS = 1
MAP_READ, MAP_WRITE = 1, 2
# Seconds of waiting without pauses, because pauses end 50 to 100 us late. The time is shorter for a
# software driver, whose threads need the cores.
SPIN, SPIN_SOFTWARE = 2e-3, 2e-4
SHORTEST, LONGEST = 5e-5, 1e-3  # seconds of a pause
WAIT_NS = 10_000_000


def pauses(spin: float) -> Iterator[float]:
    """Seconds to sleep before each check: 0 during `spin`, then an eighth of the time waited so
    far."""
    begun = time.perf_counter()
    while (waited := time.perf_counter() - begun) < spin:
        yield 0.0
    while True:
        yield min(max(waited / 8, SHORTEST), LONGEST)
        waited = time.perf_counter() - begun


class Signal:
    """One event to wait for. It is reused only after it came.

    Attributes:
        info: the argument of the raw call.
        status: the status from wgpu, 0 until its callback was called.
        future: Dawn's future, with the field that `wgpuInstanceWaitAny` writes.
    """

    __slots__ = ("callback", "future", "info", "status")

    callback: Any
    future: Any
    info: Any
    status: bytearray


class Signals(abc.ABC):
    """The signals of one engine."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib

    @abc.abstractmethod
    def new(self, kind: Kind) -> Signal:
        """A signal that has not come."""

    @abc.abstractmethod
    def map(self, signal: Signal, buffer: Any, nbytes: int, mode: int = MAP_READ) -> None:
        """Map the first bytes of a raw buffer, for reading or for writing."""

    @abc.abstractmethod
    def after_submitted(self, signal: Signal, queue: Any) -> None:
        """Request that the signal comes when all work submitted to the raw queue so far is done."""

    @abc.abstractmethod
    def done(self, device: Any, signal: Signal) -> bool:
        """True if the signal has come. Never blocks. `device` is the raw device."""

    @abc.abstractmethod
    def mapped(self, signal: Signal, buffer: Any, nbytes: int) -> Any:
        """The address of the mapped bytes, NULL if the mapping failed."""

    @abc.abstractmethod
    def completion(self, device: Any) -> Completion:
        """The completion of a GPUDevice."""

    def writable(self, buffer: Any, nbytes: int) -> Any:
        """The address of bytes that are mapped for writing, NULL if the mapping failed."""
        return self._lib.wgpuBufferGetMappedRange(buffer, 0, nbytes)

    def wait(
        self, device: Any, signal: Signal, spin: float, deadline: float = math.inf
    ) -> bool:  # fmt: skip
        """Wait until the signal has come; False at the deadline (of `time.monotonic`)."""
        for pause in pauses(spin):
            if self.done(device, signal):
                return True
            if time.monotonic() > deadline:
                return False
            if pause:
                self._pause(signal, pause)
        raise AssertionError("unreachable")

    def _pause(self, signal: Signal, seconds: float) -> None:
        time.sleep(seconds)

    def _info(self, kind: Kind, mode: str, status: bytearray) -> tuple[Any, Any]:
        """The argument of a raw call. It contains a callback, which writes the values that it gets
        to `status`.

        The callback is a C function, struct's pack_into. A callback in Python could raise
        KeyboardInterrupt, which cffi would print and drop.
        """
        callback = self._ffi.callback(
            f"void({_STATUS[kind]}, WGPUStringView, uintptr_t, uintptr_t)",
            functools.partial(_ARGUMENTS.pack_into, status, 0),
        )
        info = self._ffi.new(f"WGPU{kind}CallbackInfo *")
        info.mode = getattr(self._lib, f"WGPUCallbackMode_{mode}")
        info.callback = self._ffi.cast(f"WGPU{kind}Callback", callback)
        return info, callback


class WgpuSignals(Signals):
    """wgpu calls back from any poll of any thread. Its own blocking poll cannot be interrupted."""

    def __init__(self, ffi: Any, lib: Any) -> None:
        super().__init__(ffi, lib)
        self._waiting: set[Signal] = set()  # a signal must live until wgpu calls back

    def new(self, kind: Kind) -> Signal:
        for given_up in [s for s in self._waiting.copy() if s.status[0]]:
            self._waiting.discard(given_up)
        signal = Signal()
        signal.status = bytearray(_ARGUMENTS.size)
        signal.info, signal.callback = self._info(kind, "AllowProcessEvents", signal.status)
        return signal

    def map(self, signal: Signal, buffer: Any, nbytes: int, mode: int = MAP_READ) -> None:
        signal.status[0] = 0
        self._waiting.add(signal)
        self._lib.wgpuBufferMapAsync(buffer, mode, 0, nbytes, signal.info[0])

    def after_submitted(self, signal: Signal, queue: Any) -> None:
        signal.status[0] = 0
        self._waiting.add(signal)
        self._lib.wgpuQueueOnSubmittedWorkDone(queue, signal.info[0])

    def done(self, device: Any, signal: Signal) -> bool:
        if not signal.status[0]:
            self._lib.wgpuDevicePoll(device, 0, self._ffi.NULL)
            if not signal.status[0]:
                return False
        self._waiting.discard(signal)
        return True

    def mapped(self, signal: Signal, buffer: Any, nbytes: int) -> Any:
        if signal.status[0] != SUCCESS:
            return self._ffi.NULL
        return self._lib.wgpuBufferGetConstMappedRange(buffer, 0, nbytes)

    def completion(self, device: Any) -> Completion:
        return WgpuCompletion(self, device)


class DawnSignals(Signals):
    """Dawn's futures report that they are done; the callbacks, which Dawn requires, do nothing.

    Dawn calls them inside WaitAny only. An abandoned future stays in Dawn and takes some 100 bytes.
    """

    def __init__(self, ffi: Any, lib: Any, instance: Callable[[], Any]) -> None:
        super().__init__(ffi, lib)
        # made at first use, because callers may change the settings before that
        self._instance = instance
        ignored = bytearray(_ARGUMENTS.size)
        self._infos = {kind: self._info(kind, "WaitAnyOnly", ignored) for kind in _STATUS}

    def new(self, kind: Kind) -> Signal:
        signal = Signal()
        signal.info = self._infos[kind][0]
        signal.future = self._ffi.new("WGPUFutureWaitInfo *")
        return signal

    def map(self, signal: Signal, buffer: Any, nbytes: int, mode: int = MAP_READ) -> None:
        signal.future.completed = 0
        future = self._lib.wgpuBufferMapAsync(buffer, mode, 0, nbytes, signal.info[0])
        signal.future.future = future

    def after_submitted(self, signal: Signal, queue: Any) -> None:
        signal.future.completed = 0
        signal.future.future = self._lib.wgpuQueueOnSubmittedWorkDone(queue, signal.info[0])

    def done(self, device: Any, signal: Signal) -> bool:
        if not signal.future.completed:
            self._lib.wgpuInstanceWaitAny(self._instance(), 1, signal.future, 0)
        return bool(signal.future.completed)

    def mapped(self, signal: Signal, buffer: Any, nbytes: int) -> Any:
        return self._lib.wgpuBufferGetConstMappedRange(buffer, 0, nbytes)

    def completion(self, device: Any) -> Completion:
        return DawnCompletion(self, device)

    def _pause(self, signal: Signal, seconds: float) -> None:
        self._lib.wgpuInstanceWaitAny(self._instance(), 1, signal.future, WAIT_NS)


class Completion(abc.ABC):
    """Tells whether the work of one device is done. `idle` needs the device's lock, `wait` no
    lock."""

    def __init__(self, signals: Signals, device: Any) -> None:
        self._signals = signals
        self._device = device
        software = device.adapter.info["adapter_type"] == "CPU"
        self._spin = SPIN_SOFTWARE if software else SPIN

    @abc.abstractmethod
    def idle(self) -> bool:
        """True if all of our work is done. Never blocks. Work of other code on the device may count
        as ours."""

    def destroyed(self) -> bool:
        """True if a request for mapped memory would end the process."""
        return False

    def wait(self, signal: Signal | None = None, deadline: float = math.inf) -> bool:
        """Return when the signal has come, or when all work submitted to the device so far is done.
        False at the deadline (of `time.monotonic`)."""
        if signal is None:
            signal = self._signals.new("QueueWorkDone")
            self._signals.after_submitted(signal, self._device.queue._internal)
        return self._signals.wait(self._device._internal, signal, self._spin, deadline)


class WgpuCompletion(Completion):
    """A poll returns whether the queue is empty."""

    def __init__(self, signals: WgpuSignals, device: Any) -> None:
        super().__init__(signals, device)
        self._poll, self._null = signals._lib.wgpuDevicePoll, signals._ffi.NULL

    def idle(self) -> bool:
        # The result is a C bool, and only its lowest byte is defined.
        return bool(self._poll(self._device._internal, 0, self._null) & 0xFF)

    def destroyed(self) -> bool:
        return self._device._poller is None


class DawnCompletion(Completion):
    """Requests a signal for the submitted work only when a caller asks for it, so a submit itself
    has no extra cost."""

    def __init__(self, signals: DawnSignals, device: Any) -> None:
        super().__init__(signals, device)
        self._signal: Signal | None = None

    def idle(self) -> bool:
        signals, device = self._signals, self._device
        if self._signal is not None:
            if not signals.done(device._internal, self._signal):
                return False
            self._signal = None
        signal = signals.new("QueueWorkDone")
        signals.after_submitted(signal, device.queue._internal)
        self._signal = signal
        return signals.done(device._internal, signal)
