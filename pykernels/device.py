"""Devices: adapter choice, batches, tensors, and what happens to all of it at the end."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .adapters import AdapterInfo, choose, info_of, list_adapters
from .dtypes import DTypeLike, dtype_of
from .engine import Engine, EngineName, engine_of, get_engine
from .errors import (
    ArgumentError,
    BufferStateError,
    DeviceLostError,
    DTypeError,
    FeatureError,
    NoAdapterError,
    PyKernelsError,
)
from .faults import PAGE_BYTES, Faults
from .host import as_array, bytes_of, shape_of
from .launch import Hot
from .layout import contiguous_strides, layout
from .memory import USAGE, Block, MemoryStats, Pool, Storage
from .pipelines import Pipelines
from .plan import Caps
from .profile import Profile
from .recorder import PassRecorder, Recorder
from .transfers import Transfers
from .tuning import for_adapter

if TYPE_CHECKING:
    from .plan import Kernel
    from .prepare import Dispatch, Prepared
    from .protocols import GPUComputePass, GPUDevice
    from .tensor import Tensor

__all__ = ["AdapterInfo", "Device", "default_device", "list_adapters"]

_devices: weakref.WeakSet[Device] = weakref.WeakSet()
_devices_lock = threading.RLock()


class Device:
    """One GPU (or software) device and everything that lives on it.

    Args:
        adapter: None for the best one (a GPU before a software driver), a number as in
            `list_adapters(engine)`, or a part of the adapter's name in any case.
        engine: "wgpu" (default) or "dawn".
        checks: False compiles shaders without the runtime checks of naga or Tint.

    Raises:
        NoAdapterError: no adapter fits.
    """

    def __init__(
        self,
        adapter: int | str | None = None,
        *,
        engine: EngineName | None = None,
        checks: bool = True,
    ) -> None:
        e = get_engine(engine or "wgpu")
        chosen = choose(e.adapters(), adapter, e)
        try:
            raw = e.open(chosen, checks)
        except (e.error_class, RuntimeError) as error:
            raise NoAdapterError(f"the adapter gives no device: {error}") from None
        self._init(e, raw, checks, owned=True)

    @classmethod
    def from_wgpu(cls, device: GPUDevice) -> Device:
        """Work on a GPUDevice that somebody else made; it stays theirs.

        Each GPUDevice has one Device: asking again returns it, until it is closed. A Dawn device
        without the feature implicit-device-synchronization works only on the thread that asks
        first; elsewhere its methods raise FeatureError.
        """
        engine = engine_of(device)
        with _devices_lock:
            for known in list(_devices):
                if known._raw is device and not known._dead:
                    return known
            self = cls.__new__(cls)
            self._init(engine, device, checks=True, owned=False)
            return self

    def _init(self, engine: Engine, raw: Any, checks: bool, owned: bool) -> None:
        self._engine = engine
        self._raw = raw
        self._owned = owned
        self._checks = checks
        self._dead = ""  # why the device cannot be used any more
        self._thread = threading.get_ident() if engine.one_thread_only(raw) else None
        self._guarded = self._thread is not None  # must each launch call _check?
        self._lock = threading.RLock()
        self.features = engine.features(raw)
        self.limits: dict[str, int] = dict(raw.limits)
        lim = self.limits
        self._caps = Caps(
            f16="shader-f16" in self.features,
            subgroups="subgroups" in self.features,
            alignment=max(lim["min-storage-buffer-offset-alignment"], 32),
            max_invocations=lim["max-compute-invocations-per-workgroup"],
            max_workgroup_bytes=lim["max-compute-workgroup-storage-size"],
            max_binding=lim["max-storage-buffer-binding-size"] // 4 * 4,
            max_groups=lim["max-compute-workgroups-per-dimension"],
            tuning=for_adapter(self.info["name"], self.info["type"]).tuning,
        )
        self._plans: dict[Any, Prepared] = {}
        self._hot = Hot(engine.lib)
        self._pipelines = Pipelines(engine, raw, checks)
        self._pool = Pool(engine, raw, lim["max-buffer-size"], self._lock)
        self._faults = Faults(self._new_page, self._clear_page)
        self._recorder = Recorder(engine, raw, self._pool, self._faults)
        self._external: dict[int, PassRecorder] = {}  # by thread
        self._pool.before_destroy = self._recorder.flush
        self._pool.before_release = self._hot.clear
        self._transfers = Transfers(
            engine, raw, self._pool, self._recorder, self._lock, self._faults
        )
        self._recorder.make_room = self._transfers.look
        self._adopted: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        # Stands in for optional tensors that are not given.
        self._null = Block(self._pool.create(256 * 8, USAGE))
        self._debug = os.environ.get("PYKERNELS_DEBUG", "") not in ("", "0")
        with _devices_lock:
            _devices.add(self)

    # -- state ----------------------------------------------------------------------------------

    @property
    def info(self) -> AdapterInfo:
        """Name, type, backend and driver of the adapter; engine and its version."""
        return info_of(self._engine, self._raw.adapter)

    @property
    def engine(self) -> EngineName:
        """The engine's name."""
        return self._engine.name

    @property
    def wgpu_device(self) -> Any:
        """The GPUDevice underneath."""
        return self._raw

    def __repr__(self) -> str:
        return f"<pykernels.Device {self.info['name']}, engine {self.engine}>"

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check(self) -> None:
        """Raise if the device cannot be used here and now."""
        if self._dead:
            raise DeviceLostError(f"[device] {self._dead}")
        if self._thread is not None and threading.get_ident() != self._thread:
            raise FeatureError(
                "[device] this Dawn device was made by others without the feature "
                "implicit-device-synchronization: use it on one thread only"
            )

    def _new_page(self) -> Block:
        return Block(self._pool.create(PAGE_BYTES, USAGE))

    def _clear_page(self, block: Block, nbytes: int) -> None:
        self._engine.write(self._raw, block.buffer, 0, memoryview(bytes(nbytes)))

    def _kill(self, reason: str) -> None:
        self._dead = reason
        self._guarded = True

    def close(self) -> None:
        """Submit what is recorded and give the device up; its tensors become unusable.

        A device of somebody else's is not destroyed. Closing twice is fine.
        """
        if self._dead:
            return
        self._check()
        with self._lock:
            try:
                self._recorder.flush()
                self._pool.trim()
            finally:
                self._kill("the device is closed")
                self._plans.clear()
                self._hot.clear()
                self._transfers.close()
                if self._owned:
                    self._raw.destroy()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self._check()
        with self._lock:
            self._recorder.flush()

    def sync(self) -> None:
        """Submit all recorded launches and wait until the device has finished them.

        Raises IndexRangeError, once, for what launches since the last synchronisation found wrong.
        """
        self._check()
        self._transfers.read(self._null, 0, 4)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Launches inside are submitted together at the end (earlier only for a read, or when a
        bounded number of dispatches or bytes is reached)."""
        self.flush()
        try:
            yield
        finally:
            self.flush()

    @contextmanager
    def record(self, compute_pass: GPUComputePass) -> Iterator[None]:
        """Record this thread's launches inside into a GPUComputePassEncoder of the caller's.

        Ending the pass and submitting are the caller's, and so are errors of `finish()`. The
        launches run when he submits: a read, or a write from the host, before that does not wait
        for them. Their buffers are not used again by the pool, so tensors may be let go.

        Raises:
            BufferStateError: it is no pass of this device, or has ended.
        """
        self.flush()
        if not isinstance(compute_pass, self._engine.module.GPUComputePassEncoder):
            raise BufferStateError(
                "[record] compute_pass must be a GPUComputePassEncoder of "
                f"{self._engine.module.__name__} but is {type(compute_pass).__name__}"
            )
        if compute_pass._device is not self._raw:
            raise BufferStateError("[record] the pass belongs to another device")
        thread = threading.get_ident()
        with self._lock:
            outer = self._external.get(thread)
            recorder = PassRecorder(self._recorder, compute_pass)
            self._external[thread] = recorder
        try:
            yield
        finally:
            with self._lock:
                if outer is None:
                    del self._external[thread]
                else:
                    self._external[thread] = outer
                recorder.leave_page()
                recorder.write_params()

    @contextmanager
    def profile(self, *, batches: bool = False) -> Iterator[Profile]:
        """Time each launch inside on the GPU, or each batch of them; see `Profile`."""
        self.flush()
        with self._lock:
            outer = self._recorder.profile
            profile = Profile(self._engine, self._raw, self, batches)
            self._recorder.profile = profile
        try:
            yield profile
        finally:
            with self._lock:
                try:
                    self.flush()
                finally:
                    self._recorder.profile = outer
                profile.collect()

    def _debug_flush(
        self, kernel: Kernel, dispatches: Sequence[Dispatch], recorder: Recorder
    ) -> None:
        """PYKERNELS_DEBUG: say what was launched, and submit it by itself."""
        for d in dispatches:
            line = f"pykernels: {kernel.name}: {d.label} grid {d.grid_x}x{d.grid_y}"
            print(line, file=sys.stderr)
        try:
            recorder.flush()
        except PyKernelsError as e:
            raise type(e)(f"[{kernel.name}] {e}") from None

    @property
    def submits(self) -> int:
        """How often work was submitted so far."""
        return self._recorder.submits

    # -- memory ---------------------------------------------------------------------------------

    def memory_stats(self) -> MemoryStats:
        """Bytes and buffers in use, pooled and at their peak; exact."""
        return self._pool.stats()

    def trim(self) -> int:
        """Free the pooled buffers; the bytes freed."""
        self._check()
        return self._pool.trim()

    def set_memory_budget(self, nbytes: int | None) -> None:
        """Let tensors and pool together hold at most `nbytes` (None: what the device has)."""
        if nbytes is not None and (not isinstance(nbytes, int) or nbytes < 0):
            raise ArgumentError(f"[memory] a budget must be bytes or None but is {nbytes!r}")
        self._pool.budget = nbytes

    def _make(self, storage: Storage, shape: Sequence[int], dtype: DTypeLike) -> Tensor:
        from .tensor import Tensor

        dt = dtype_of(dtype)
        lay = layout(tuple(shape), contiguous_strides(shape, dt.itemsize), dt)
        return Tensor(self, storage, 0, lay)

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """An uninitialised tensor."""
        self._check()
        dims = shape_of(shape)
        dt = dtype_of(dtype)
        nbytes = math.prod(dims) * dt.itemsize
        return self._make(self._pool.take(max(nbytes, 4))[0], dims, dt.name)

    def zeros(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """A tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """A tensor of ones."""
        return self.full(shape, 1, dtype)

    def full(
        self, shape: int | Sequence[int], value: float, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """A tensor with one value everywhere."""
        from .kernels import fill

        t = self.empty(shape, dtype)
        fill(t, value)
        return t

    def rand(
        self, shape: int | Sequence[int], dtype: DTypeLike = "float32", *, seed: int = 0
    ) -> Tensor:
        """Uniform random numbers in [0, 1) from numpy's generator on the host (float dtypes)."""
        dt = dtype_of(dtype)
        if dt.kind != "f":
            raise DTypeError(f"[rand] dtype must be a float dtype but is {dt.name}")
        values = np.random.default_rng(seed).random(shape_of(shape), np.float32)
        t = self.tensor(values)
        return t if dt.name == "float32" else t.astype(dt.name)

    def tensor(self, array: Any) -> Tensor:
        """A copy of a numpy array (or of what `numpy.asarray` takes) on the device.

        Raises DTypeError for a dtype that tensors do not have, float64 among them.
        """
        self._check()
        a = as_array(array, "tensor")
        dt = dtype_of(a.dtype, "array dtype")
        data = bytes_of(np.ascontiguousarray(a))
        with self._lock:
            storage, written = self._pool.take(max(data.nbytes, 4), data if data.nbytes else None)
            if not written and data.nbytes:
                self._transfers.upload(storage.block, 0, data)
        return self._make(storage, a.shape, dt.name)

    def expose(self, block: Block) -> Any:
        """A block's GPUBuffer, for somebody else."""
        with self._lock:
            if block.mark == self._recorder.serial and not self._dead:
                self._recorder.flush()
            block.exposed = True
            block.reusable = False
            return block.buffer

    def adopt(self, buffer: Any) -> Storage:
        """The storage around somebody else's GPUBuffer (one per buffer)."""
        self._check()
        if not isinstance(buffer, self._engine.module.GPUBuffer):
            raise DTypeError(
                f"[from_buffer] buffer must be a GPUBuffer of {self._engine.module.__name__} but "
                f"is {type(buffer).__module__}.{type(buffer).__name__}"
            )
        if buffer._device is not self._raw:
            raise BufferStateError("[from_buffer] the buffer belongs to another device")
        with self._lock:
            found = self._adopted.get(id(buffer))
            if found is None:
                found = self._adopted[id(buffer)] = self._pool.adopt(buffer)
            return found


_default: dict[Literal["device"], Device] = {}
_default_lock = threading.Lock()


def default_device() -> Device:
    """The device that numpy arguments run on: wgpu's default device, shared with other users."""
    with _default_lock:
        device = _default.get("device")
        if device is None or device._dead:
            engine = get_engine("wgpu")
            if not engine.adapters():
                choose([], None, engine)
            device = Device.from_wgpu(engine.default_device())
            _default["device"] = device
        return device


def _after_fork() -> None:
    global _devices_lock, _default_lock
    _devices_lock, _default_lock = threading.RLock(), threading.Lock()
    for device in list(_devices):
        device._kill("it belongs to the parent process, and does not survive a fork")
        # Nothing of it may ever be released: in the child that would end in a crash or hang.
        device._hot.entries.clear()
        for thing in (device, *device._adopted.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    _default.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
