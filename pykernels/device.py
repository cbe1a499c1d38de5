"""Devices: adapter choice, pipelines, batches, uploads and readbacks."""

from __future__ import annotations

import importlib.resources
import json
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .dtypes import DTypeLike, dtype_of
from .engine import Engine, EngineName, engine_of, get_engine, installed
from .errors import DeviceLostError, DTypeError, NoAdapterError, ShaderError, ShapeError
from .launch import Hot
from .layout import contiguous_strides, layout
from .memory import USAGE, Block, MemoryStats, Pool, Storage, check_foreign
from .plan import Caps
from .profile import Profile
from .recorder import Recorder, probe

if TYPE_CHECKING:
    from .launch import Dispatch, Prepared
    from .plan import Kernel
    from .tensor import Tensor

__all__ = ["AdapterInfo", "Device", "default_device", "list_adapters"]

MAP_READ = 0x1 | 0x8  # MAP_READ | COPY_DST
READ_CHUNK = 64 << 20
_devices: weakref.WeakSet[Device] = weakref.WeakSet()


class AdapterInfo(dict[str, Any]):
    """What is known of an adapter: name, type, backend, driver, engine, features, limits."""

    def __repr__(self) -> str:
        return f"<{self['name']}, {self['type']}, {self['backend']}, engine {self['engine']}>"


def _adapter_info(engine: Engine, adapter: Any) -> AdapterInfo:
    info = adapter.info
    return AdapterInfo(
        name=info["device"],
        type=info["adapter_type"],
        backend=info["backend_type"],
        driver=info["description"],
        vendor=info["vendor"],
        engine=engine.name,
        engine_version=engine.version,
    )


def list_adapters(engine: EngineName | None = None) -> list[AdapterInfo]:
    """The adapters of an engine (of all engines that are installed), best first."""
    names: list[EngineName] = [engine] if engine else [n for n in ("wgpu", "dawn") if installed(n)]  # type: ignore[misc]
    return [_adapter_info(e, a) for e in map(get_engine, names) for a in e.adapters()]


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
        chosen = _choose(e.adapters(), adapter, e)
        try:
            raw = e.open(chosen, checks)
        except (e.error_class, RuntimeError) as error:
            raise NoAdapterError(f"the adapter gives no device: {error}") from None
        self._init(e, raw, checks, owned=True)

    @classmethod
    def from_wgpu(cls, device: Any) -> Device:
        """Work on a GPUDevice that somebody else made; it stays theirs."""
        self = cls.__new__(cls)
        self._init(engine_of(device), device, checks=True, owned=False)
        return self

    def _init(self, engine: Engine, raw: Any, checks: bool, owned: bool) -> None:
        self._engine = engine
        self._raw = raw
        self._owned = owned
        self._checks = checks
        self._dead = ""
        self._lock = threading.RLock()
        self._thread = threading.get_ident() if engine.one_thread_only(raw) else None
        if self._thread is not None:
            self._dead = "one thread"  # makes every launch go through _check
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
        )
        self._plans: dict[Any, Prepared] = {}
        self._hot = Hot(engine.lib)
        self._pipelines = Pipelines(engine, raw, checks)
        self._pool = Pool(engine, raw, lim["max-buffer-size"])
        self._pool.before_destroy = self._before_destroy
        self._adopted: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
        self._recorder = Recorder(engine, raw)
        self._own_recorder = self._recorder
        # Stands in for optional tensors that are not given.
        self._null = Block(raw.create_buffer(size=2048, usage=USAGE), 2048, False)
        self._staging: Any = None
        self._debug = os.environ.get("PYKERNELS_DEBUG", "") not in ("", "0")
        _devices.add(self)

    # -- state ----------------------------------------------------------------------------------

    @property
    def info(self) -> AdapterInfo:
        """Name, type, backend and driver of the adapter; engine and its version."""
        return _adapter_info(self._engine, self._raw.adapter)

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
        if self._dead == "one thread":
            if threading.get_ident() != self._thread:
                raise DeviceLostError(
                    "[device] this Dawn device was made by others without the feature "
                    "implicit-device-synchronization: use it on one thread only"
                )
        elif self._dead:
            raise DeviceLostError(f"[device] {self._dead}")

    def close(self) -> None:
        """Submit what is recorded and give the device up; its tensors become unusable.

        A device of somebody else's is not destroyed. Closing twice is fine.
        """
        if self._dead and self._dead != "one thread":
            return
        with self._lock:
            try:
                self.flush()
            finally:
                self._dead = "the device is closed"
                self._plans.clear()
                self._hot.clear()
                self._pool.trim()
                if self._owned:
                    self._raw.destroy()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Submit all recorded launches without waiting for them."""
        self._check()
        with self._lock:
            self._recorder.flush()

    def sync(self) -> None:
        """Submit all recorded launches and wait until the device has finished them."""
        self._check()
        with self._lock:
            self._own_recorder.flush()
            self._read(self._null, 0, 4)

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
    def record(self, compute_pass: Any) -> Iterator[None]:
        """Record the launches inside into a GPUComputePassEncoder that the caller owns.

        Ending the pass and submitting are the caller's, and so are errors of `finish()`. Nothing
        may be read, written from the host, or freed for reuse in between.
        """
        self.flush()
        with self._lock:
            recorder = Recorder(self._engine, self._raw, compute_pass)
            self._recorder = recorder
            try:
                yield
            finally:
                self._recorder = self._own_recorder
                recorder.flush()

    @contextmanager
    def profile(self) -> Iterator[Profile]:
        """Time each launch inside on the GPU; see `Profile`."""
        self.flush()
        with self._lock:
            profile = Profile(self._engine, self._raw, "timestamp-query" in self.features, self)
            self._recorder.profile = profile
            try:
                yield profile
            finally:
                try:
                    self._recorder.flush()
                    profile.collect()
                finally:
                    self._recorder.profile = None

    def _before_destroy(self) -> None:
        """The pool is about to destroy buffers: submit what uses them, forget bind groups."""
        self.flush()
        self._hot.clear()

    def _debug_flush(self, kernel: Kernel, dispatches: Sequence[Dispatch]) -> None:
        for d in dispatches:
            print(f"pykernels: {kernel.name}: {d.label} grid {d.grid_x}x{d.grid_y}")
        self._recorder.flush()

    @property
    def submits(self) -> int:
        """How often work was submitted so far."""
        return self._own_recorder.submits

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
        self._pool.budget = nbytes

    def _make(self, storage: Storage, shape: Sequence[int], dtype: DTypeLike) -> Tensor:
        from .tensor import Tensor

        dt = dtype_of(dtype)
        lay = layout(tuple(shape), contiguous_strides(shape, dt.itemsize), dt)
        return Tensor(self, storage, 0, lay)

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """An uninitialised tensor."""
        self._check()
        dims = _shape(shape)
        dt = dtype_of(dtype)
        nbytes = dt.itemsize
        for n in dims:
            nbytes *= n
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
        values = np.random.default_rng(seed).random(_shape(shape), np.float32)
        t = self.tensor(values)
        return t if dt.name == "float32" else t.astype(dt.name)

    def tensor(self, array: Any) -> Tensor:
        """A copy of a numpy array (or of what `numpy.asarray` takes) on the device.

        Raises DTypeError for a dtype that tensors do not have, float64 among them.
        """
        self._check()
        a = np.asarray(array)
        dt = dtype_of(a.dtype, "array dtype")
        data = _bytes_of(np.ascontiguousarray(a))
        with self._lock:
            storage, written = self._pool.take(max(data.nbytes, 4), data if data.nbytes else None)
            if not written and data.nbytes:
                self._upload(storage.block, 0, data)
        return self._make(storage, a.shape, dt.name)

    def adopt(self, buffer: Any) -> Storage:
        """The storage around somebody else's GPUBuffer (one per buffer)."""
        self._check()
        if type(buffer).__module__.partition(".")[0] != self._engine.module.__name__:
            raise ShapeError(
                f"[from_buffer] buffer must be a GPUBuffer of {self._engine.module.__name__} but "
                f"is {type(buffer).__module__}.{type(buffer).__name__}"
            )
        found = self._adopted.get(id(buffer))
        if found is not None and found.block.buffer is buffer:
            return found
        check_foreign(buffer)
        probe(self._engine, self._raw, buffer)
        storage = self._pool.adopt(buffer)
        self._adopted[id(buffer)] = storage
        return storage

    # -- transfers ------------------------------------------------------------------------------

    def _upload(self, block: Block, offset: int, data: memoryview) -> None:
        """Queue a write of whole words; recorded launches that use the block go first."""
        with self._lock:
            if block.mark == self._own_recorder.serial:
                self._own_recorder.flush()
            if block.foreign:
                check_foreign(block.buffer)
                probe(self._engine, self._raw, block.buffer)
            try:
                self._raw.queue.write_buffer(block.buffer, offset, data)
            except self._engine.error_class as e:
                raise self._engine.error(e, "write") from None

    def _read(self, block: Block, offset: int, size: int) -> bytearray:
        """Submit, wait, and read whole words of a block."""
        out = bytearray(size)
        with self._lock:
            self._own_recorder.flush()
            if block.foreign:
                check_foreign(block.buffer)
                probe(self._engine, self._raw, block.buffer)
            for at in range(0, size, READ_CHUNK):
                n = min(READ_CHUNK, size - at)
                out[at : at + n] = self._read_chunk(block, offset + at, n)
        return out

    def _read_chunk(self, block: Block, offset: int, size: int) -> memoryview:
        raw = self._raw
        try:
            if self._staging is None or self._staging.size < size:
                if self._staging is not None:
                    self._staging.destroy()
                room = min(max(1 << max(size - 1, 1).bit_length(), 65536), READ_CHUNK)
                self._staging = raw.create_buffer(
                    label="pykernels readback", size=room, usage=MAP_READ
                )
            staging = self._staging
            encoder = raw.create_command_encoder()
            encoder.copy_buffer_to_buffer(block.buffer, offset, staging, 0, size)
            raw.queue.submit([encoder.finish()])
            staging.map_async("READ_NOSYNC", 0, size).sync_wait()
            data: memoryview = staging.read_mapped(0, size, copy=True)
            staging.unmap()
        except (self._engine.error_class, RuntimeError) as e:
            self._staging = None
            raise self._engine.error(e, "read") from None
        return data.cast("B")


class Pipelines:
    """The compiled variants of one device, and the bind group layouts that they share."""

    def __init__(self, engine: Engine, device: Any, checks: bool) -> None:
        self._engine, self._device, self._checks = engine, device, checks
        self._layouts: dict[tuple[bool, ...], tuple[Any, Any]] = {}
        self._pipelines: dict[tuple[str, str], Any] = {}

    def __len__(self) -> int:
        return len(self._pipelines)

    def get(self, body: str, key: str, writable: tuple[bool, ...]) -> tuple[Any, Any]:
        """Pipeline and bind group layout of one variant."""
        group_layout, pipeline_layout = self._layout(writable)
        pipeline = self._pipelines.get((body, key))
        if pipeline is None:
            entry = _texts(body).get(key)
            if entry is None:
                raise ShaderError(f"[{body}] has no variant {key}")
            engine = self._engine
            try:
                module = engine.shader(
                    self._device, entry["wgsl"], f"{body} {key}", self._checks,
                    "subgroups" in entry["features"],
                )  # fmt: skip
                pipeline = self._device.create_compute_pipeline(
                    label=f"{body} {key}",
                    layout=pipeline_layout,
                    compute={"module": module, "entry_point": "main"},
                )
            except engine.error_class as e:
                raise engine.error(e, "shader") from None
            self._pipelines[body, key] = pipeline
        return pipeline, group_layout

    def _layout(self, writable: tuple[bool, ...]) -> tuple[Any, Any]:
        found = self._layouts.get(writable)
        if found is None:
            kinds: list[dict[str, Any]] = [
                {"type": "storage" if w else "read-only-storage"} for w in writable
            ]
            kinds.append({"type": "uniform", "has_dynamic_offset": True})
            group_layout = self._device.create_bind_group_layout(
                entries=[
                    {"binding": i, "visibility": 4, "buffer": kind} for i, kind in enumerate(kinds)
                ]
            )
            pipeline_layout = self._device.create_pipeline_layout(bind_group_layouts=[group_layout])
            self._layouts[writable] = found = (group_layout, pipeline_layout)
        return found


_text_cache: dict[str, dict[str, Any]] = {}


def _texts(body: str) -> dict[str, Any]:
    """The WGSL of every variant of a body, read once."""
    if body not in _text_cache:
        folder = importlib.resources.files("pykernels") / "_generated" / "wgsl"
        _text_cache[body] = json.loads((folder / f"{body}.json").read_text(encoding="utf-8"))
    return _text_cache[body]


def _choose(adapters: list[Any], wanted: int | str | None, engine: Engine) -> Any:
    if not adapters:
        raise NoAdapterError(
            f"the engine {engine.name!r} finds no adapter: install a Vulkan driver (on Debian "
            "the software driver mesa-vulkan-drivers, for any machine)"
        )
    names = [a.info["device"] for a in adapters]
    if wanted is None:
        return adapters[0]
    if isinstance(wanted, int):
        if not 0 <= wanted < len(adapters):
            raise NoAdapterError(f"adapter {wanted} does not exist; there are {names}")
        return adapters[wanted]
    for a in adapters:
        if wanted.lower() in a.info["device"].lower():
            return a
    raise NoAdapterError(f"no adapter's name contains {wanted!r}; there are {names}")


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    dims = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for n in dims:
        if not isinstance(n, (int, np.integer)) or n < 0:
            raise ShapeError(f"[shape] sizes must be integers from 0 up but are {shape!r}")
    return tuple(int(n) for n in dims)


def _bytes_of(a: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a contiguous array, padded to whole words."""
    if a.nbytes == 0:
        return memoryview(b"")
    flat = a.reshape(-1).view(np.uint8)
    if flat.size % 4:
        flat = np.concatenate([flat, np.zeros(-flat.size % 4, np.uint8)])
    return memoryview(flat)  # type: ignore[arg-type]


_default: dict[Literal["device"], Device] = {}
_default_lock = threading.Lock()


def default_device() -> Device:
    """The device that numpy arguments run on: wgpu's default device, shared with other users."""
    with _default_lock:
        device = _default.get("device")
        if device is None or device._dead:
            engine = get_engine("wgpu")
            if not engine.adapters():
                _choose([], None, engine)
            device = Device.from_wgpu(engine.default_device())
            _default["device"] = device
        return device


def _after_fork() -> None:
    for device in list(_devices):
        device._dead = "it belongs to the parent process: make a new one after fork"
    _default.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
