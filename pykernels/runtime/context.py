"""The state that launches on one device share: capabilities, memory, pipelines, recorder."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pykernels.contract import PARAMS_BYTES, SUBGROUP_MATRIX
from pykernels.errors import (
    BufferStateError,
    DeviceLostError,
    DTypeError,
    FeatureError,
    PyKernelsError,
)
from pykernels.steps import Kernel
from pykernels.tuning import for_adapter

from .adapters import AdapterInfo, caps_of, info_of
from .blocks import Arena, Block, Storage, storage_of
from .bound import Calls
from .budget import asked_budget
from .buffers import USAGE, Buffers
from .dispatch import Prepared
from .engine import Engine
from .faults import Faults
from .matrix import units_of
from .memory import Pool
from .owners import Owner, current
from .pipelines import Pipelines
from .recorder import Recorder
from .scopes import Scope, entered, innermost, leave
from .transfers import Transfers

__all__ = ["Context", "budgeted", "living"]

_contexts: weakref.WeakSet[Context] = weakref.WeakSet()
budgeted: set[weakref.ref[Context]] = set()  # the contexts with a byte budget
_numbers = itertools.count()


class Context:
    """One GPUDevice of an engine and everything that lives on it.

    Args:
        raw: the GPUDevice.
        facade: the Device that users hold; `Tensor.device` returns it.
        copy: the kernel that copies inputs and outputs that a call cannot use directly.
        checks: False compiles shaders without the engine's runtime checks.
        owned: True if pykernels made the GPUDevice, so that `close` destroys it.
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
        # gives the order in which devices were opened, which is the order of closing
        self.number = next(_numbers)
        self.dead = ""  # the reason that it cannot be used any more
        self.thread = threading.get_ident() if engine.one_thread_only(raw) else None
        self.guarded = self.thread is not None  # True if each launch must call `check`
        self.lock = threading.RLock()
        self.features = engine.features(raw)
        self.limits: dict[str, int] = dict(raw.limits)
        info = self.info
        matrix = units_of(engine, raw.adapter) if SUBGROUP_MATRIX.name in self.features else None
        tuning = for_adapter(
            info["name"], info["type"], driver=info["driver"],
            engine=engine.name if matrix is None else f"{engine.name}-matrix",
            workgroup_bytes=self.limits["max-compute-workgroup-storage-size"],
        ).tuning  # fmt: skip
        self.caps = caps_of(self.features, self.limits, tuning, matrix)
        self.plans: dict[Any, Prepared] = {}
        self.constants: dict[Any, Any] = {}  # tensors that `pk.rope` keeps for later calls
        self.calls = Calls()
        # the kind of each sampler that a caller has passed
        self.samplers: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.traces: dict[Any, Any] = {}  # calls of layer two that can be repeated (`call.again`)
        self.pipelines = Pipelines(engine, raw, checks)
        buffers = Buffers(engine, raw, self.limits["max-buffer-size"], self.lock)
        self.pool = Pool(buffers, self.lock)
        self.faults = Faults(self._new_page, self._clear_page)
        completion = engine.completion(raw)
        self.recorder = Recorder(engine, raw, self.pool, self.faults, self.calls, completion)
        self.scopes: dict[Scope, None] = {}  # open captures and passes of callers
        self.noted = False  # True if each launch must look up its owner or block
        self.pool.before_destroy = self.recorder.flush
        self.pool.before_release = self.forget_blocks
        self.pool.wait = completion.wait
        self.pool.before_dissolve = lambda recording: self.faults.close(recording.pages)
        self.transfers = Transfers(
            engine, raw, self.pool, self.recorder, self.lock, self.faults, completion
        )
        self.adopted: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        # Bound in the place of optional tensors that are not given.
        self.null = Block(self.pool.buffers.create(PARAMS_BYTES * 8, USAGE))
        self.debug = os.environ.get("PYKERNELS_DEBUG", "") not in ("", "0")
        self.checks_indices = os.environ.get("PYKERNELS_DEBUG") == "2"
        self.guarded |= self.checks_indices
        self.debugging: Any = None  # the open block of Device.debug
        self.set_budget(asked_budget())
        _contexts.add(self)

    def _new_page(self, nbytes: int) -> Block:
        return Block(self.pool.buffers.create(nbytes, USAGE))

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
                "[device] this Dawn device was made by other code without the feature "
                "implicit-device-synchronization: use it on one thread only"
            )

    def refuse(self, what: str, where: str) -> None:
        """Raise inside a capture, or while the caller records into its own pass."""
        self.run_held()
        if self.scopes and self.recorder_of(what) is not self.recorder:
            raise BufferStateError(f"[{what}] not possible {where}")

    def refuse_in_capture(self, what: str) -> None:
        """Raise inside a capture: a program cannot contain work of the host."""
        if self.scopes and self._arena() is not None:
            scope = innermost("capture", "record", on=self)
            kind = getattr(scope and scope.value, "refusal", BufferStateError)
            raise kind(
                f"[{what}] not possible inside a capture, which records launches only: do it "
                "before or after"
            )

    def refuse_unwritten(self, what: str, block: Block) -> None:
        """Raise for a block that does not contain its recorded values yet."""
        why = block.unwritten()
        if why:
            raise BufferStateError(f"[{what}] the tensor {why}")

    def _arena(self) -> Arena | None:
        """The arena from which a capture of the caller allocates."""
        scope = innermost("capture", "record", on=self)
        return None if scope is None or not scope.mine else scope.value.arena

    def held(self) -> Any:
        """The object that holds the caller's launches until the end of its call (`whole.Held`)."""
        scope = innermost("call")
        found = None if scope is None or not scope.mine else scope.value.get(self)
        return None if found is None or found.running else found

    def run_held(self) -> None:
        """Run the launches that the caller's call holds, because the device is needed now."""
        if self.scopes:
            held = self.held()
            if held is not None:
                held.run()
            trace = self.tracing()
            if trace is not None:
                trace.spoil()

    def tracing(self) -> Any:
        """The trace of the caller's call (`call.again`)."""
        scope = innermost("trace", on=self)
        return None if scope is None or not scope.mine else scope.value

    def recorder_of(self, call: str) -> Any:
        """The recorder that takes the caller's calls: of the device's batches, a capture or a pass.

        Raises BufferStateError for a task or thread that was started inside an open block.
        """
        scope = innermost("capture", "record", on=self)
        if scope is None:
            return self.recorder
        scope.check(call)
        return scope.value

    def caller(self) -> Owner:
        """The owner that gets the errors of a call made here and now."""
        scope = None if entered.get() is None else innermost("checked", on=self)
        if scope is None:
            return current()
        owner: Owner = scope.value
        return owner

    def settle(self) -> None:
        """Set whether launches must look up their owner or block. Needs the lock."""
        self.noted = False  # this is set first, because another thread may enter a block meanwhile
        if self.scopes:
            for scope in [s for s in [*self.scopes] if not s.open]:
                self.scopes.pop(scope, None)
        if self.scopes or self.faults.open:
            self.noted = True

    def captured(self) -> Callable[[], Any] | None:
        """A function that returns the program of the caller's capture; None outside of captures."""
        scope = innermost("capture", "record", on=self)
        return None if scope is None or not scope.mine else scope.value.program

    def debug_into(self, block: Any) -> None:
        """Let launches write records of `debug` statements for a block of `Device.debug`. If the
        block is None, launches write no records."""
        self.debugging = block
        bound = self.thread is not None or self.checks_indices
        self.guarded = bound or bool(self.dead) or block is not None

    def kill(self, reason: str) -> None:
        """Make `check` raise from now on."""
        self.dead = reason
        self.guarded = True

    def close(self) -> None:
        """Submit the recorded work, free the pool and close the device. Then raise errors of
        launches that no synchronisation has reported."""
        if self.dead:
            return
        self.check()
        self.refuse_in_capture("close")
        self.run_held()
        with self.lock:
            self.constants.clear()
            try:
                self.recorder.flush()
                with suppress(DeviceLostError):  # if the device is lost, its faults are lost too
                    self.transfers.poll()
                self.pool.trim()
            finally:
                self.kill("the device is closed")
                self.forget_calls()
                self.transfers.close(self.raw.destroy if self.owned else None)
            self.faults.raise_found(self.caller(), all_=True)

    def end(self, deadline: float) -> bool:
        """Submit the recorded work, wait for the device, and close it, at the end of the process.
        If the work is not done at the deadline (of `time.monotonic`), returns False and destroys
        nothing."""
        if not self.lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            return False
        try:
            with suppress(PyKernelsError):
                self.recorder.flush()
            if not self.transfers.wait(deadline):
                return False
            self.forget_calls()
            self.transfers.close(self.raw.destroy if self.owned else None)
        finally:
            self.lock.release()
        return True

    def leak(self) -> None:
        """Keep everything of the device: a release would end the process, or hang it."""
        for thing in (self, self.engine.signals, *self.adopted.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))

    def forget_calls(self) -> None:
        """Clear the caches of prepared calls and their bind groups."""
        self.plans.clear()
        self.traces.clear()
        self.forget_bind_groups()

    def forget_bind_groups(self) -> None:
        """Forget all bind groups, except the ones of programs for the inputs of their capture."""
        self.calls.clear()
        for recording in self.pool.contents():
            recording.variants.clear()

    def forget_blocks(self, blocks: set[Block]) -> None:
        """Drop all references to these blocks, which the pool frees."""
        self.calls.forget(blocks)
        for recording in self.pool.contents():
            recording.forget(blocks)

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self.check()
        self.run_held()
        with self.lock:
            self.recorder.flush()

    def sync(self) -> None:
        """Submit all recorded launches, wait for them, and raise the errors of the caller's
        launches and of owners that have ended."""
        self.check()
        self.refuse_in_capture("sync")
        self.run_held()
        self.transfers.sync(self.caller())

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Synchronise at the end, and raise the errors of all calls inside the block."""
        self.check()
        self.refuse_in_capture("checked")
        self.run_held()
        scope = Scope("checked", None, self)
        owner = scope.value = Owner(scope, "a checked block")
        try:
            entered.set(scope)
            yield
            self.check()
            self.refuse_in_capture("sync")
            self.run_held()
            self.transfers.sync(owner, False)
        finally:
            scope.open = False
            owner.closed = True
            leave(scope)

    def enter(self, scope: Scope) -> None:
        """Send calls of the caller's thread or task to the recorder of this block."""
        entered.set(scope)
        self.scopes[scope] = None
        self.noted = True

    def leave(self, scope: Scope) -> None:
        """Note that the block has ended. If a signal comes before this call, `settle` forgets the
        block."""
        self.scopes.pop(scope, None)
        leave(scope)

    # -- memory ---------------------------------------------------------------------------------

    def set_budget(self, nbytes: int | None) -> None:
        """Limit the bytes of tensors, programs and the pool together; None removes the limit."""
        self.traces.clear()  # the traces own some memory
        self.pool.set_budget(nbytes)
        if nbytes is None:
            budgeted.discard(weakref.ref(self))
        else:
            budgeted.add(weakref.ref(self, budgeted.discard))

    def allocate(self, nbytes: int) -> Storage:
        """Uninitialised memory. Under a budget its buffer is made at its first use."""
        if self.scopes:
            arena = self._arena()
            if arena is not None:
                return self.pool.take(nbytes, arena=arena)
            held = self.held()
            if held is not None:
                return self.pool.take_for_call(nbytes, held.arena)
            trace = self.tracing()
            if trace is not None:
                storage = self.pool.take(nbytes)
                trace.allocated(storage, nbytes)
                return storage
        return self.pool.take(nbytes)

    def allocate_now(self, nbytes: int) -> Storage:
        """Like `allocate`, but makes the buffer at once, except in a capture and in a held call."""
        storage = self.allocate(nbytes)
        if storage.block.arena is None:
            self.pool.fulfil((storage.block,))
        return storage

    def upload(self, data: memoryview) -> Storage:
        """A new storage with these contents."""
        self.refuse_in_capture("upload")
        if self.scopes:
            held = self.held()
            if held is not None:
                uploaded: Storage = held.upload(data)
                return uploaded
        storage = self.pool.take(max(data.nbytes, 4))
        self.transfers.upload(storage.block, 0, data)
        trace = self.tracing() if self.scopes else None
        if trace is not None:
            trace.uploaded(storage, data.nbytes)
        return storage

    def own(self, data: bytes) -> Storage:
        """Internal memory with these contents, never from the pool or a capture."""
        block = Block(self.pool.buffers.create(256, USAGE))
        self.transfers.upload(block, 0, memoryview(data))
        return storage_of(block)

    def expose(self, storage: Storage) -> Any:
        """The GPUBuffer of a storage, for the caller; `adopt` recognises it."""
        block = storage.block
        self.run_held()
        with self.lock:
            if block.mark >= self.recorder.serial and not self.dead:
                self.recorder.flush()
            block.expose()
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
                found = self.adopted[id(buffer)] = self.pool.buffers.adopt(buffer)
            return found


def living() -> list[Context]:
    """The contexts in use, in the order in which they were opened."""
    return sorted((c for c in list(_contexts) if not c.dead), key=lambda c: c.number)


def _after_fork() -> None:
    for context in list(_contexts):
        context.kill("it belongs to the parent process, and does not survive a fork")
        context.pool.abandon()
        context.leak()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
