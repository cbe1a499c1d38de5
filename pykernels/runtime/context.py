"""What launches share on one device: its caps, memory, pipelines, caches and recorders."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pykernels.errors import BufferStateError, DeviceLostError, DTypeError, FeatureError
from pykernels.faults import PAGE_BYTES
from pykernels.plan import MATRIX_FEATURE, Caps, Kernel, MatrixUnits
from pykernels.tuning import Tuning, for_adapter

from .adapters import AdapterInfo, info_of
from .blocks import Arena, Block, Storage
from .calls import Calls
from .dispatch import Prepared
from .engine import Engine
from .faults import Faults
from .matrix import units_of
from .memory import USAGE, Pool
from .pipelines import Pipelines
from .recorder import PassRecorder, Recorder
from .transfers import Transfers

__all__ = ["Context"]

_contexts: weakref.WeakSet[Context] = weakref.WeakSet()


class Context:
    """One GPUDevice of an engine and everything that lives on it.

    Args:
        raw: the GPUDevice.
        facade: what users hold; tensors give it back as their device.
        copy: the kernel that copies inputs and outputs where a call cannot take them as they are.
        checks: False compiles shaders without the engine's runtime checks.
        owned: is the GPUDevice ours, to be destroyed by `close`?
    """

    def __init__(
        self, engine: Engine, raw: Any, facade: Any, copy: Kernel, *, checks: bool, owned: bool
    ) -> None:
        self.engine = engine
        self.raw = raw
        self.facade = facade
        self.copy = copy
        self.checks = checks
        self.owned = owned
        self.dead = ""  # why it cannot be used any more
        self.thread = threading.get_ident() if engine.one_thread_only(raw) else None
        self.guarded = self.thread is not None  # must each launch call `check`?
        self.lock = threading.RLock()
        self.features = engine.features(raw)
        self.limits: dict[str, int] = dict(raw.limits)
        info = self.info
        tuning = for_adapter(info["name"], info["type"]).tuning
        matrix = units_of(engine, raw.adapter) if MATRIX_FEATURE in self.features else None
        self.caps = _caps(self.features, self.limits, tuning, matrix)
        self.plans: dict[Any, Prepared] = {}
        self.constants: dict[Any, Any] = {}  # tensors that functions keep for later calls
        self.calls = Calls()
        self.pipelines = Pipelines(engine, raw, checks)
        self.pool = Pool(engine, raw, self.limits["max-buffer-size"], self.lock)
        self.faults = Faults(self._new_page, self._clear_page)
        completion = engine.completion(raw)
        self.recorder = Recorder(engine, raw, self.pool, self.faults, self.calls, completion)
        # Other than the device's own, by thread: of captures, and of passes of callers.
        self.recorders: dict[int, Any] = {}
        self.pool.before_destroy = self.recorder.flush
        self.pool.before_release = self.forget_bind_groups
        self.pool.before_dissolve = lambda recording: self.faults.close(recording.pages)
        self.transfers = Transfers(
            engine, raw, self.pool, self.recorder, self.lock, self.faults, completion
        )
        self.adopted: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        # Stands in for optional tensors that are not given.
        self.null = Block(self.pool.create(256 * 8, USAGE))
        self.debug = os.environ.get("PYKERNELS_DEBUG", "") not in ("", "0")
        _contexts.add(self)

    def _new_page(self) -> Block:
        return Block(self.pool.create(PAGE_BYTES, USAGE))

    def _clear_page(self, block: Block, nbytes: int) -> None:
        self.engine.write(self.raw, block.buffer, 0, memoryview(bytes(nbytes)))

    @property
    def info(self) -> AdapterInfo:
        """Name, type, backend and driver of the adapter; engine and its version."""
        return info_of(self.engine, self.raw.adapter)

    # -- state ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the device cannot be used here and now."""
        if self.dead:
            raise DeviceLostError(f"[device] {self.dead}")
        if self.thread is not None and threading.get_ident() != self.thread:
            raise FeatureError(
                "[device] this Dawn device was made by others without the feature "
                "implicit-device-synchronization: use it on one thread only"
            )

    def refuse(self, what: str, where: str) -> None:
        """Raise inside a capture, or where this thread records into a pass of a caller's."""
        if self.recorders and threading.get_ident() in self.recorders:
            raise BufferStateError(f"[{what}] not possible {where}")

    def refuse_in_capture(self, what: str) -> None:
        """Raise where this thread captures: the host cannot take part in a program."""
        if self.recorders and self._arena() is not None:
            raise BufferStateError(
                f"[{what}] not possible inside a capture, which records launches only: do it "
                "before or after"
            )

    def _arena(self) -> Arena | None:
        """Where memory comes from that this thread takes while it captures."""
        recorder = self.recorders.get(threading.get_ident())
        return None if recorder is None else recorder.arena

    def kill(self, reason: str) -> None:
        """From now on `check` raises."""
        self.dead = reason
        self.guarded = True

    def close(self) -> None:
        """Submit what is recorded, free what is pooled, and give the device up; then raise what
        launches found wrong and no synchronisation reported."""
        if self.dead:
            return
        self.check()
        self.refuse_in_capture("close")
        with self.lock:
            self.constants.clear()
            try:
                self.recorder.flush()
                with suppress(DeviceLostError):  # then nothing can be known
                    self.transfers.poll()
                self.pool.trim()
            finally:
                self.kill("the device is closed")
                self.forget_calls()
                self.transfers.close(self.raw.destroy if self.owned else None)
            self.faults.raise_pending()

    def forget_calls(self) -> None:
        """Clear the caches of prepared calls and their bind groups."""
        self.plans.clear()
        self.forget_bind_groups()

    def forget_bind_groups(self) -> None:
        """Keep no buffer alive that the pool frees."""
        self.calls.clear()
        for recording in self.pool.contents():
            recording.variants.clear()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self.check()
        with self.lock:
            self.recorder.flush()

    def sync(self) -> None:
        """Submit all recorded launches, wait for them, and raise what they found wrong."""
        self.check()
        self.refuse_in_capture("sync")
        self.transfers.sync()

    @contextmanager
    def record(self, compute_pass: Any) -> Iterator[None]:
        """Record this thread's launches inside into a pass of the caller's."""
        self.refuse_in_capture("record")
        self.flush()
        if not isinstance(compute_pass, self.engine.module.GPUComputePassEncoder):
            raise BufferStateError(
                "[record] compute_pass must be a GPUComputePassEncoder of "
                f"{self.engine.module.__name__} but is {type(compute_pass).__name__}"
            )
        if compute_pass._device is not self.raw:
            raise BufferStateError("[record] the pass belongs to another device")
        if getattr(compute_pass, "_pykernels_ended", False):
            raise BufferStateError("[record] the pass has ended")
        thread = threading.get_ident()
        recorder = PassRecorder(
            self.engine, self.raw, self.pool, self.faults, self.recorder, compute_pass
        )
        outer = self.recorders.get(thread)
        self.recorders[thread] = recorder
        try:
            yield
        finally:
            if outer is None:
                del self.recorders[thread]
            else:
                self.recorders[thread] = outer
            with self.lock:
                recorder.leave_page()

    # -- memory ---------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Storage:
        """Uninitialised memory."""
        if self.recorders:
            return self.pool.take(nbytes, arena=self._arena())
        return self.pool.take(nbytes)

    def upload(self, data: memoryview) -> Storage:
        """Memory with these bytes in it."""
        self.refuse_in_capture("upload")
        storage = self.pool.take(max(data.nbytes, 4))
        self.transfers.upload(storage.block, 0, data)
        return storage

    def expose(self, storage: Storage) -> Any:
        """The GPUBuffer of a storage, for the caller; `adopt` knows it again."""
        block = storage.block
        with self.lock:
            if block.mark >= self.recorder.serial and not self.dead:
                self.recorder.flush()
            block.exposed = True
            block.reusable = False
            self.adopted[id(block.buffer)] = storage
            return block.buffer

    def adopt(self, buffer: Any) -> Storage:
        """The storage around a GPUBuffer that the caller holds (one per buffer)."""
        self.check()
        if not isinstance(buffer, self.engine.module.GPUBuffer):
            raise DTypeError(
                f"[from_buffer] buffer must be a GPUBuffer of {self.engine.module.__name__} but "
                f"is {type(buffer).__module__}.{type(buffer).__name__}"
            )
        if buffer._device is not self.raw:
            raise BufferStateError("[from_buffer] the buffer belongs to another device")
        with self.lock:
            found = self.adopted.get(id(buffer))
            if found is None:
                found = self.adopted[id(buffer)] = self.pool.adopt(buffer)
            return found


def _caps(
    features: frozenset[str], limits: dict[str, int], tuning: Tuning, matrix: MatrixUnits | None
) -> Caps:
    return Caps(
        f16="shader-f16" in features,
        subgroups="subgroups" in features,
        alignment=max(limits["min-storage-buffer-offset-alignment"], 32),
        max_invocations=limits["max-compute-invocations-per-workgroup"],
        max_workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        max_binding=limits["max-storage-buffer-binding-size"] // 4 * 4,
        max_groups=limits["max-compute-workgroups-per-dimension"],
        tuning=tuning,
        matrix=matrix,
    )


def _after_fork() -> None:
    for context in list(_contexts):
        context.kill("it belongs to the parent process, and does not survive a fork")
        context.pool.abandon()
        # Nothing of it may ever be released: in the child that would end in a crash or hang.
        for thing in (context, *context.adopted.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
