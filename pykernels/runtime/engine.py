"""The two engines, wgpu (wgpu-native, naga) and dawn (wgpudawn, Tint), and their differences.

No other module imports either package. All differences between them are here: names of features,
how a device is requested, toggles, the raw C calls, the classes of their errors.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from pykernels.contract import ALONE, FEATURES, SUBGROUPS
from pykernels.errors import (
    BufferStateError,
    DeviceLostError,
    NoAdapterError,
    OutOfMemoryError,
    PyKernelsError,
    ShaderError,
)

from . import processes
from .log import logger
from .patches import allow_late_configuration, mark_ended
from .signals import Completion, DawnSignals, Signal, Signals, WgpuSignals

__all__ = ["MODULES", "Copy", "Engine", "EngineName", "engine_of", "get_engine", "installed"]

T = TypeVar("T")
EngineName: TypeAlias = Literal["wgpu", "dawn"]
MODULES: dict[EngineName, tuple[str, str]] = {
    "wgpu": ("wgpu", "wgpu.backends.wgpu_native._api"),
    "dawn": ("wgpudawn", "wgpudawn.backends.dawn._api"),
}
# For each canonical feature name that the engine spells differently, the engine's name.
_FEATURES: dict[EngineName, dict[str, str]] = {
    "wgpu": {f.name: f.wgpu for f in FEATURES if f.wgpu != f.name},
    "dawn": {},
}
# Features that our devices request if the adapter has them.
_WANTED = tuple(f.name for f in FEATURES if f.asked)
# Additional features of the default device, which pygfx requires.
_OF_OTHERS = ("float32-filterable",)
COPY_DST = 0x08  # the usage flag of buffers
TEXTURE_COPY_DST = 0x02
# Raw buffer, byte offset in it, byte offset in the target, number of bytes.
Copy: TypeAlias = tuple[Any, int, int, int]
_SLOT = "pykernels"  # the key in wgpu's error handler
# `Parent device is lost`, `[Device "label"] is lost`, `Device is destroyed`
_LOST = re.compile(r"\bdevice\b[^\n]{0,80}\bis (lost|destroyed)", re.IGNORECASE)


_NVIDIA = 0x10DE  # NVIDIA's vendor_id


class Engine:
    """One engine: its module, its raw calls, its errors."""

    def __init__(self, name: EngineName) -> None:
        module, api = MODULES[name]
        self.name: EngineName = name
        self.matrix_units = False  # True if this process asked for matrix units, see matrix.py
        try:
            self.module: Any = importlib.import_module(module)
            self._api: Any = importlib.import_module(api)
        except ImportError as e:
            extra = "pip install 'wgpudawn~=0.32.0'" if name == "dawn" else "pip install wgpu"
            raise NoAdapterError(f"the engine {name!r} is not available ({e}): {extra}") from None
        except OSError as e:
            raise NoAdapterError(f"the engine {name!r} does not load: {e}") from None
        self.ffi: Any = self._api.ffi
        self.lib: Any = self._api.lib
        self._handler: Any = self._api.error_handler
        self._helpers: Any = importlib.import_module(api.replace("._api", "._helpers"))
        if name == "wgpu":
            self.begin: Callable[[], None] = self._begin_wgpu
            self.end: Callable[[str], None] = self._end_wgpu
            # Called after some raw calls. For wgpu it does nothing: a signal reports the errors of
            # these calls, or the caller ignores them.
            self.raise_told: Callable[[str], None] = _nothing
            self.signals: Signals = WgpuSignals(self.ffi, self.lib)
        else:
            self.begin, self.end = _nothing, self._end_dawn
            self.raise_told = self._end_dawn
            self.signals = DawnSignals(self.ffi, self.lib, self._api.get_wgpu_instance)
        mark_ended(self._api.GPUComputePassEncoder)

    @property
    def version(self) -> str:
        return str(self.module.__version__)

    # -- adapters and devices -------------------------------------------------------------------

    def adapters(self) -> list[Any]:
        """All adapters that can compute, GPUs first, then software; OpenGL only if there is no
        other."""
        with processes.starting:
            processes.claim_process()
            return self._adapters()

    def look(self, told: Callable[[Any], T]) -> list[T]:
        """The facts about the adapters. Releases the engine if no caller used it before, so the
        process may be forked afterwards. wgpu is not released if it has found an NVIDIA GPU:
        children that were forked after such a release got no device, and from then on their parent
        got none either."""
        with processes.starting:
            processes.refuse_process()
            used = self._helpers._the_instance is not None
            adapters = self._adapters()
            found = [told(a) for a in adapters]
            nvidia = self.name == "wgpu" and any(a.info["vendor_id"] == _NVIDIA for a in adapters)
            if used or self.matrix_units or nvidia:
                processes.claim_process()
            elif self._helpers._the_instance is not None:
                self.lib.wgpuInstanceRelease(self._helpers._the_instance)
                self._helpers._the_instance = None
        return found

    def _adapters(self) -> list[Any]:
        with processes.without_display():
            found = list(self.module.gpu.enumerate_adapters_sync())
        proper = [a for a in found if a.info["backend_type"] not in ("OpenGL", "OpenGLES", "Null")]
        rank = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 3}
        return sorted(proper or found, key=lambda a: rank.get(a.info["adapter_type"], 2))

    def open(self, adapter: Any, checks: bool, more: Sequence[str] = ()) -> Any:
        """A device with every feature and limit of the adapter that we can use, and the features
        `more`."""
        features = [self.feature(f) for f in (*_WANTED, *more)]
        if self.name == "wgpu":
            features = [f for f in features if f in adapter.features]
            return adapter.request_device_sync(label="pykernels", required_features=features)
        features.append(ALONE.name)
        extras = importlib.import_module("wgpudawn.backends.dawn.extras")
        enable = ["disable_workgroup_init"] + ([] if checks else ["disable_robustness"])
        return extras.request_device_sync(
            adapter,
            label="pykernels",
            required_features=[f for f in features if f in adapter.features],
            enable_toggles=enable,
            disable_toggles=["timestamp_quantization"],
        )

    def default_device(self, more: Sequence[str] = ()) -> Any:
        """The shared device of this engine's module. If there is none yet, it is made with the
        features `more`."""
        processes.claim_process()
        shared = self.module.utils.device
        if shared.helper._the_device is None:
            wanted = {self.feature(f) for f in (*_WANTED, *_OF_OTHERS, *more)}
            if self.name == "dawn":
                wanted.add(ALONE.name)
            shared.preconfigure_default_device("pykernels", preferred_features=wanted)
            allow_late_configuration(self.module, shared.get_default_device())
        return shared.get_default_device()

    def feature(self, name: str) -> str:
        """The name of a feature in this engine."""
        return _FEATURES[self.name].get(name, name)

    def features(self, owner: Any) -> frozenset[str]:
        """The features of an adapter or device, by their canonical names."""
        back = {v: k for k, v in _FEATURES[self.name].items()}
        return frozenset(str(back.get(f, f)) for f in owner.features)

    def one_thread_only(self, device: Any) -> bool:
        """True if this device must stay on the thread that made it."""
        return self.name == "dawn" and ALONE.name not in device.features

    def shader(self, device: Any, text: str, label: str, checks: bool, subgroups: bool) -> Any:
        """A shader module. Only wgpu can switch off the checks of a module; Dawn's checks belong to
        the device."""
        if self.name == "dawn":
            head = f"{SUBGROUPS.enable} " if subgroups else ""
            return device.create_shader_module(label=label, code=head + text)
        if checks:
            return device.create_shader_module(label=label, code=text)
        ffi, code = self.ffi, text.encode()
        data = ffi.new("char[]", code)
        source = ffi.new("WGPUShaderSourceWGSL *")
        source.chain.sType = self.lib.WGPUSType_ShaderSourceWGSL
        source.code.data, source.code.length = data, len(code)
        desc = ffi.new("WGPUShaderModuleDescriptor *")
        desc.nextInChain = ffi.cast("WGPUChainedStruct *", source)
        raw = self._api.libf.wgpuDeviceCreateShaderModuleTrusted(device._internal, desc, 0)
        return self.module.backends.wgpu_native.GPUShaderModule(label, raw, device)

    def bind_group(self, device: Any, descriptor: Any, what: str) -> Any:
        """A raw bind group, released with the last reference to it."""
        self.begin()
        try:
            raw = self.lib.wgpuDeviceCreateBindGroup(device._internal, descriptor)
            group = self.ffi.gc(raw, self.lib.wgpuBindGroupRelease) if raw else raw
        finally:
            self.end(what)
        return group

    # -- calls whose Python API in an engine would end the process, or hang ------------------------

    def write(self, device: Any, buffer: Any, offset: int, data: memoryview) -> None:
        """Queue a write of whole words.

        If wgpudawn's own `write_buffer` fails, its exception keeps a cffi view of the data. That
        view ends the process at the next garbage collection (Python below 3.13). So this method
        makes the raw call itself and releases its view.
        """
        source = self.ffi.from_buffer(data)
        self.begin()
        try:
            self.lib.wgpuQueueWriteBuffer(
                device.queue._internal, buffer._internal, offset, source, data.nbytes
            )
        finally:
            self.ffi.release(source)
            self.end("write")

    def probe(self, device: Any, layout: Any, buffer: Any) -> None:
        """Raise if a buffer is destroyed or belongs to another device; a submit that uses it would
        end the process.

        wgpu reports this when a bind group is made. Dawn reports a destroyed buffer only for a
        queue operation, so this queues a write without data.
        """
        entry = {"buffer": buffer, "offset": 0, "size": min(buffer.size // 4 * 4, 256)}
        try:
            device.create_bind_group(layout=layout, entries=[{"binding": 0, "resource": entry}])
        except self.error_class as e:
            raise self.error(e, "buffer") from None
        if self.name == "dawn" and buffer.usage & COPY_DST:
            null = self.ffi.NULL
            self.lib.wgpuQueueWriteBuffer(device.queue._internal, buffer._internal, 0, null, 0)
            self.end("buffer")

    def probe_texture(self, device: Any, layout: Any, view: Any, what: str) -> None:
        """Raise if a texture view does not fit a layout of one binding, or its texture is
        destroyed. Dawn reports a destroyed texture only for a queue operation: so this queues a
        write without texels, or submits a pass without dispatches if the texture cannot be
        written."""
        try:
            entries = [{"binding": 0, "resource": view}]
            group = device.create_bind_group(layout=layout, entries=entries)
            if self.name == "dawn" and not view.texture.usage & TEXTURE_COPY_DST:
                encoder = device.create_command_encoder()
                compute_pass = encoder.begin_compute_pass()
                compute_pass.set_bind_group(0, group)
                compute_pass.end()
                device.queue.submit([encoder.finish()])
        except self.error_class as e:
            raise self.error(e, what) from None
        if self.name == "dawn" and view.texture.usage & TEXTURE_COPY_DST:
            ffi = self.ffi
            target = ffi.new("WGPUTexelCopyTextureInfo *", {"texture": view.texture._internal})
            rows = ffi.new("WGPUTexelCopyBufferLayout *")
            none = ffi.new("WGPUExtent3D *")
            self.lib.wgpuQueueWriteTexture(device.queue._internal, target, ffi.NULL, 0, rows, none)
            self.end(what)

    # -- copies to the host ------------------------------------------------------------------------

    def completion(self, device: Any) -> Completion:
        """An object that tells whether the work of this device is done, and waits for it."""
        return self.signals.completion(device)

    def copy_and_map(
        self, device: Any, copies: Sequence[Copy], target: Any, signal: Signal
    ) -> None:
        """Submit copies into a raw buffer, and map the copied bytes for reading."""
        self._copy(device, copies, target, "read")
        self.signals.map(signal, target, max([0, *[at + n for _, _, at, n in copies]]))
        self.raise_told("read")

    def write_from(
        self, device: Any, source: Any, target: Any, offset: int, data: memoryview
    ) -> bool:
        """Write whole words through a raw buffer that is mapped for writing, and unmap it. Returns
        False and does nothing if the mapping failed."""
        found = self.signals.writable(source, data.nbytes)
        if not found:
            return False
        room = np.frombuffer(self.ffi.buffer(found, data.nbytes), np.uint8)
        np.copyto(room, np.frombuffer(data, np.uint8))  # numpy lets other threads run meanwhile
        self.unmap(source, "write")
        self._copy(device, [(source, 0, offset, data.nbytes)], target, "write")
        self.raise_told("write")
        return True

    def _copy(self, device: Any, copies: Sequence[Copy], target: Any, what: str) -> None:
        """Submit copies into a raw buffer."""
        lib, ffi = self.lib, self.ffi
        self.begin()
        try:
            encoder = ffi.gc(
                lib.wgpuDeviceCreateCommandEncoder(device._internal, ffi.NULL),
                lib.wgpuCommandEncoderRelease,
            )
            for source, offset, at, nbytes in copies:
                lib.wgpuCommandEncoderCopyBufferToBuffer(
                    encoder, source, offset, target, at, nbytes
                )
            commands = ffi.gc(
                lib.wgpuCommandEncoderFinish(encoder, ffi.NULL), lib.wgpuCommandBufferRelease
            )
        finally:
            # wgpu ends the process at a submit to a lost device: this raises before that.
            self.end(what)
        buffers = ffi.new("WGPUCommandBuffer[1]", [commands])
        lib.wgpuQueueSubmit(device.queue._internal, 1, buffers)

    def mapped(self, target: Any, nbytes: int, signal: Signal) -> memoryview:
        """The bytes of a mapped raw buffer, valid until it is unmapped.

        wgpu ends the process if its device was destroyed: call `Completion.destroyed` before.
        """
        found = self.signals.mapped(signal, target, nbytes)
        if not found:
            raise DeviceLostError("[read] the device was lost during the read")
        return memoryview(self.ffi.buffer(found, nbytes))

    def unmap(self, buffer: Any, what: str = "read") -> None:
        """Unmap a raw buffer."""
        self.lib.wgpuBufferUnmap(buffer)
        self.raise_told(what)

    def timestamp_period(self, device: Any) -> float:
        """Nanoseconds of one step of a timestamp."""
        if self.name == "dawn":
            return 1.0
        return float(self.lib.wgpuQueueGetTimestampPeriod(device.queue._internal))

    # -- errors ---------------------------------------------------------------------------------

    def error(self, e: BaseException, what: str) -> PyKernelsError:
        """Our error for an error of the engine."""
        text = str(e).strip() or type(e).__name__
        if _LOST.search(text):
            _tell_lost(text.splitlines()[-1].strip())
            return DeviceLostError(f"[{what}] the device is lost: {text}")
        if what == "shader":
            return ShaderError(f"[{what}] {text}")
        if type(e).__name__ == "GPUOutOfMemoryError" or "Not enough memory left" in text:
            return OutOfMemoryError(f"[{what}] {text}")
        return BufferStateError(f"[{what}] {text}")

    @property
    def error_class(self) -> type[Exception]:
        found: type[Exception] = self.module.GPUError
        return found

    # Raw calls report errors through a callback: `begin` and `end` put them into an exception.

    # An interrupt may leave an entry in wgpu's error handler; the next `begin` drops the entry. So
    # pairs of `begin` and `end` do not nest.

    def _begin_wgpu(self) -> None:
        stack = self._handler._get_proxy_stack()
        while stack and stack[-1].name == _SLOT:
            stack.pop()
        self._handler.capture(_SLOT)

    def _end_wgpu(self, what: str) -> None:
        found = self._handler.release(_SLOT)
        if found is not None:
            raise self.error(self.module.GPUError(found[1]), what)

    def _end_dawn(self, what: str) -> None:
        if self._handler.pending:
            kind, message = self._handler.pending[0]
            self._handler.pending.clear()
            classes = {"OutOfMemory": self.module._classes.GPUOutOfMemoryError}
            raise self.error(classes.get(kind, self.module.GPUError)(message), what)


@functools.cache
def _tell_lost(text: str) -> None:
    """Report a lost device once, although every later call on it fails."""
    logger.warning("a device is lost: %s", text)


def _nothing(what: str = "") -> None:
    pass


_engines: dict[str, Engine] = {}


def get_engine(name: str) -> Engine:
    """The engine of this name, imported on first use."""
    if name not in MODULES:
        raise NoAdapterError(f"engine must be 'wgpu' or 'dawn' but is {name!r}")
    if name not in _engines:
        processes.refuse_process()
        _engines[name] = Engine(name)
    return _engines[name]


def engine_of(device: Any) -> Engine:
    """The engine that a GPUDevice belongs to."""
    module = type(device).__module__.partition(".")[0]
    for name, (package, _) in MODULES.items():
        if module == package:
            engine = get_engine(name)
            if isinstance(device, engine.module.GPUDevice):
                processes.claim_process()
                return engine
    raise NoAdapterError(f"{type(device).__qualname__} is neither wgpu's nor wgpudawn's GPUDevice")


def installed(name: EngineName) -> bool:
    """True if the engine's package is installed. Imports nothing."""
    return importlib.util.find_spec(MODULES[name][0]) is not None
