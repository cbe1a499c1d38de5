"""The classes Device and Tensor, on top of `runtime`. They refer to each other, so they share this
module.

`tensors.views` has the methods of tensors that need no device, `runtime.control` the methods of
devices that need no tensor.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pykernels.call.drawing import draw, states, write_seed
from pykernels.call.scalars import bits_of, seed_of
from pykernels.runtime.control import DeviceControl
from pykernels.runtime.protocols import GPUBuffer, GPUDevice
from pykernels.tensors.host import array_of, bytes_of, shape_of, type_name
from pykernels.tensors.layout import (
    contiguous_layout,
)
from pykernels.tensors.methods import TensorMethods

from ._generated.kernels import cpy as _cpy
from ._generated.kernels import fill as _fill
from ._generated.kernels import rand as _rand
from .dtypes import DTypeLike, DTypeName, dtype_of
from .errors import (
    DeviceLostError,
    DTypeError,
    ShapeError,
)
from .plans.random.state import STATE
from .runtime.adapters import AdapterType, tell_software
from .runtime.capture import capturing
from .runtime.context import Context
from .runtime.ending import watch
from .runtime.engine import Engine, EngineName, engine_of
from .runtime.handle import Handle
from .runtime.launch import run
from .runtime.log import logger
from .runtime.opening import opened, shared_device
from .runtime.processes import refuse_process
from .runtime.program import Program
from .steps import cdiv
from .tensors.stacking import held, stacked
from .tensors.strides import of_buffer
from .tensors.textures import read_texture

__all__ = ["Device", "LostTensor", "Tensor", "default_device", "device_of", "seed_all"]

_devices: weakref.WeakSet[Device] = weakref.WeakSet()
_devices_lock = threading.RLock()


class Device(DeviceControl):
    """One GPU (or software) device and everything that lives on it.

    Args:
        adapter: None for the best adapter (a GPU before a software driver), an index into
            `list_adapters(engine)`, or a part of the adapter's name in upper or lower case.
        engine: "wgpu" (default) or "dawn".
        checks: False compiles shaders without the runtime checks that naga or Tint add.
        matrix_units: With engine="dawn": open the adapter's matrix units, and f16 on NVIDIA, which
            Dawn calls experimental. This sets toggles of the whole process, so open such a device
            before any other code looks at Dawn's adapters.
        type: "gpu" or "cpu" allows only such adapters. PYKERNELS_REQUIRE_GPU=1 means "gpu" for
            devices without this argument.

    Raises:
        NoAdapterError: no adapter fits, or the engine does not exist.
        FeatureError: with `matrix_units`, Dawn offers no matrix units on this adapter, or this
            process has used Dawn without them before.
        ArgumentError: `adapter` has another type.
    """

    def __init__(
        self,
        adapter: int | str | None = None,
        *,
        engine: EngineName | None = None,
        checks: bool = True,
        matrix_units: bool = False,
        type: AdapterType | None = None,
    ) -> None:
        e, raw = opened(adapter, engine, checks, matrix_units, type)
        self._init(e, raw, checks, owned=True)

    @classmethod
    def from_wgpu(cls, device: GPUDevice) -> Device:
        """The Device of a GPUDevice that the caller made and still owns.

        Each GPUDevice has one Device: further calls return the same Device until it is closed. A
        Dawn device without the feature implicit-device-synchronization works only on the thread
        that calls this first; on other threads its methods raise FeatureError.
        """
        engine = engine_of(device)
        with _devices_lock:
            known = _known(device)
            if known is not None:
                return known
            self = cls.__new__(cls)
            self._init(engine, device, checks=True, owned=False)
            return self

    def _init(self, engine: Engine, raw: Any, checks: bool, owned: bool) -> None:
        self._context = Context(engine, raw, self, _cpy.KERNEL, checks=checks, owned=owned)
        self.features = self._context.features
        self.limits = self._context.limits
        self._random: Tensor | None = None
        watch()
        # passed as text, because log handlers may keep their arguments
        logger.info("opened %s", repr(self))
        with _devices_lock:
            _devices.add(self)

    # -- tensors --------------------------------------------------------------------------------

    def capture(self, **inputs: Tensor) -> AbstractContextManager[Program]:
        """Capture this thread's calls inside: `with dev.capture() as program:`. Nothing runs yet.

        `program()` replays the calls with the values that the same tensors then have. A replay
        takes the host a fraction of the time of the calls. Tensors made inside, and the memory that
        the calls need, belong to the program. These tensors have no values before the program runs.
        Scalars are frozen. The synchronisation after a replay reports the indices out of range that
        the replay found.

        Args:
            inputs: tensors that `program(name=other)` may replace; see `Program`.

        Raises:
            BufferStateError: inside the block, for reads, uploads, writes and synchronisations; and
                for a capture inside another capture or a recorded pass.
            DTypeError: an input is not a tensor.
        """
        return capturing(self._context, inputs)

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """An uninitialised tensor."""
        context = self._context
        context.check()
        lay = contiguous_layout(shape_of(shape), dtype_of(dtype))
        return _Tensor(context, context.allocate_now(lay.nbytes), 0, lay)

    def zeros(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """A tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """A tensor of ones."""
        return self.full(shape, 1, dtype)

    def full(
        self,
        shape: int | Sequence[int],
        value: Tensor | float,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """A tensor with one value everywhere: a number, or the element of a Tensor.

        Raises:
            ShapeError: the value is a Tensor of several elements.
        """
        if isinstance(value, Tensor):
            if value.size != 1:
                raise ShapeError(f"[full] value must have one element but has shape {value.shape}")
            one = value.reshape(()) if value._context is self._context else self.tensor(value)
            t = self.empty(shape, value.dtype if dtype is None else dtype)
            run(self._context.copy, (one.reshape(()).broadcast_to(t.shape), t))
            return t
        t = self.empty(shape, "float32" if dtype is None else dtype)
        run(_fill.KERNEL, (t,), bits_of("fill", value, t.dtype))
        return t

    def rand(
        self, shape: int | Sequence[int], dtype: DTypeLike = "float32", *, seed: int | None = None
    ) -> Tensor:
        """Uniform random numbers in [0, 1). A seed gives the same numbers on every device; without
        a seed, the numbers come from the device's random state. See `pk.rand`."""
        dt = dtype_of(dtype)
        if dt.kind != "f":
            raise DTypeError(f"[rand] dtype must be a float dtype but is {dt.name}")
        key = (0, 0) if seed is None else bits_of("rand", seed, "int64", "seed")
        t = self.empty(shape, dt.name)
        source = self.random_state if seed is None else None
        draw(_rand.KERNEL, (source, t), key, cdiv(t.size, 4))
        return t

    @property
    def random_state(self) -> Tensor:
        """The random state of calls that name neither a seed nor a state: a uint32 tensor (6,), as
        `pk.random_state` makes it.

        Each draw advances the state on the device. A copy saves the state, and `dev.random_state[:]
        = copy` restores it; `seed` sets it.
        """
        context = self._context
        context.check()
        with context.lock:
            if self._random is None:
                lay = contiguous_layout((STATE,), dtype_of("uint32"))
                words = _first["seed"].to_bytes(8, "little", signed=True).ljust(lay.nbytes, b"\0")
                self._random = _Tensor(context, context.own(words), 0, lay)
            own = self._random
        other = states.get()
        return own if other is None else other(self, own)

    def seed(self, seed: int) -> None:
        """Set the random state from which calls without a seed draw.

        This is a launch, in order with others. Inside a capture it sets the state in each replay.

        Args:
            seed: an integer of 64 bits.

        Raises:
            ArgumentError: the seed needs more than 64 bits, or is not an integer.
        """
        write_seed(self.random_state, seed_of("seed", seed))

    def tensor(self, array: Any, dtype: DTypeLike | None = None) -> Tensor:
        """Copies a numpy array, or anything that `numpy.asarray` accepts, to the device.

        Python's floats and float64 become float32, complex numbers become complex64, bools become
        bool. Tensors of other devices, and torch's tensors on the CPU (bfloat16 too), are copied
        through the host. A list that contains tensors of this device is stacked on the device.

        Args:
            dtype: The dtype to which the values are converted, by numpy's rules; None keeps an
                array's dtype.

        Raises:
            DTypeError: tensors do not have the dtype, for example strings.
            ArgumentError: numpy cannot make an array of the values.
        """
        context = self._context
        context.check()
        wanted = None if dtype is None else dtype_of(dtype)
        if isinstance(array, Tensor):
            name = (wanted or array._layout.dtype).name
            if array._context is context:
                return array.astype(name)
            array, wanted = array.astype("float32") if name == "bfloat16" else array, dtype_of(name)
        if isinstance(array, (list, tuple)) and held(array) is not None:
            t: Tensor = stacked(self, array)
            return t if wanted is None or wanted == t._layout.dtype else t.astype(wanted.name)
        a, dt = array_of(array, "tensor", wanted)
        storage = context.upload(bytes_of(np.ascontiguousarray(a)))
        t = _Tensor(context, storage, 0, contiguous_layout(a.shape, dt))
        return t if wanted is None or wanted == dt else t.astype(wanted.name)


class Tensor(TensorMethods):
    """An n-dimensional array on a device.

    `pk.tensor(values)`, `Device.tensor`, `Device.empty` and similar functions make tensors.
    `Tensor.from_buffer` makes a tensor of a buffer that the caller owns. Slicing, transposing,
    reshaping and broadcasting make views.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **named: Any) -> None:
        raise TypeError(
            "tensors are made by pk.tensor(values), pk.zeros(shape) and the like, and by "
            "Tensor.from_buffer"
        )

    @classmethod
    def from_buffer(
        cls,
        buffer: GPUBuffer,
        shape: int | Sequence[int],
        dtype: DTypeLike,
        *,
        offset: int = 0,
        strides: Sequence[int] | None = None,
        device: Device | None = None,
    ) -> Tensor:
        """A tensor on a GPUBuffer that the caller owns.

        Launches that use it are submitted at once, in order with the caller's own queue calls,
        except inside `Device.batch`, `record` and `capture`.

        Args:
            buffer: a GPUBuffer with the usage STORAGE (and COPY_SRC to be read back, COPY_DST to
                be written by the host).
            offset: byte offset of the first element, a multiple of the item size.
            strides: in bytes, multiples of the item size; None for C order.
            device: the Device to use; None takes `Device.from_wgpu` of the buffer's device.

        Raises:
            ShapeError: the view reaches beyond the buffer.
            LimitError: the view ends in the last bytes of a buffer whose size is not a multiple of
                4.
            DTypeError: the dtype does not exist, or the buffer does not belong to an engine.
            BufferStateError: the buffer is destroyed or mapped, belongs to another device, has less
                than 4 bytes, or lacks the usage STORAGE. Each submit checks this again.
        """
        owner = getattr(buffer, "_device", None)
        if owner is None:
            raise DTypeError(f"[from_buffer] buffer must be a GPUBuffer but is {type_name(buffer)}")
        given = Device.from_wgpu(owner) if device is None else device_of(device)
        context = given._context
        storage = context.adopt(buffer)
        lay, start = of_buffer(buffer.size, shape_of(shape), dtype_of(dtype), offset, strides)
        return _Tensor(context, storage, start, lay)

    @classmethod
    def from_texture(cls, texture: Any, *, level: int = 0, device: Device | None = None) -> Tensor:
        """A new tensor with the texels of a texture, copied on the device.

        The shape is (height, width), or (height, width, channels) if the format has more than one
        channel; layers of an array, and slices of a 3d texture, come first. The dtype follows the
        format: uint8 for r8unorm to rgba8unorm, float16 and float32 for formats that end with
        float, integers for uint and sint. The channels of bgra8unorm come in its order.

        Args:
            texture: a GPUTexture, 2d or 3d, with the usage COPY_SRC.
            level: the mip level.
            device: the Device to use; None takes `Device.from_wgpu` of the texture's device.

        Raises:
            DTypeError: the argument is not a texture, or tensors have no dtype for the channels of
                its format.
            ArgumentError: the texture has several samples, or the level does not exist.
            BufferStateError: the texture belongs to another device or lacks the usage; or the call
                is inside a capture or a recorded pass.
        """
        owner = getattr(texture, "_device", None)
        if owner is None:
            raise DTypeError(
                f"[from_texture] texture must be a GPUTexture but is {type_name(texture)}"
            )
        given = Device.from_wgpu(owner) if device is None else device_of(device)
        found: Tensor = read_texture(given, texture, level)
        return found

    @property
    def device(self) -> Device:
        """The device that the tensor lives on."""
        device: Device = self._context.facade
        return device

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the elements; unpickling puts them on the reader's default device."""
        dt = self._layout.dtype
        words = self
        if dt.name == "bfloat16":  # numpy lacks the dtype
            words = self.copy()
            lay = contiguous_layout(self.shape, dtype_of("uint16"))
            words = _Tensor(words._context, words._storage, 0, lay)
        return _unpickled, (words.numpy(), dt.name)


class _Tensor(Tensor):
    """The class of all tensors. It has no constructor of its own, so creating a tensor takes less
    time."""

    __slots__ = ()
    if not TYPE_CHECKING:
        __init__ = Handle.__init__


_Tensor.__name__ = _Tensor.__qualname__ = "Tensor"


class LostTensor(_Tensor):
    """A tensor in a process that cannot open a device. Every use raises an error that says so. So a
    worker that reads such a tensor from its queue stays alive, and the error is reported for the
    task."""

    __slots__ = ()

    def __init__(self) -> None:
        pass

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # called because no attribute is set
            refuse_process()
            raise DeviceLostError("[tensor] it was unpickled in a process without a device")


def _unpickled(words: np.ndarray[Any, Any], dtype: DTypeName) -> Tensor:
    try:
        refuse_process()
    except DeviceLostError:
        return LostTensor()
    t = default_device().tensor(words)
    return _Tensor(t._context, t._storage, 0, contiguous_layout(t.shape, dtype_of(dtype)))


_first = {"seed": 0}  # the seed for devices that are opened later


def seed_all(key: int) -> None:
    """Seed the random states of all open devices, and of devices that are opened later."""
    with _devices_lock:
        _first["seed"] = key
        known = [d for d in _devices if not d._context.dead]
    for device in known:
        device.seed(key)


_default: dict[Literal["device"], Device] = {}
_default_lock = threading.Lock()


def default_device() -> Device:
    """The device that numpy arguments run on: wgpu's default device, shared with other users.

    PYKERNELS_ENGINE names another engine: "dawn", or "dawn-matrix", which opens matrix units as
    `Device(engine="dawn", matrix_units=True)` does. The variable is read when the device is made.

    On a machine without a GPU the default device is that of a software driver, and the first call
    warns with SoftwareDeviceWarning. With PYKERNELS_REQUIRE_GPU=1 the call raises NoAdapterError
    instead, and with 0 it does not warn.
    """
    with _default_lock:
        device = _default.get("device")
        if device is None or device._context.dead:
            device = Device.from_wgpu(shared_device())
            tell_software(device.info)
            _default["device"] = device
        return device


def _known(device: GPUDevice) -> Device | None:
    """The Device of a GPUDevice, if that Device is not closed."""
    for known in list(_devices):
        if known.wgpu_device is device and not known._context.dead:
            return known
    return None


def device_of(device: Device | None) -> Device:
    """The given device, or the default device for None; DTypeError for anything else."""
    if device is None:
        return default_device()
    if not isinstance(device, Device):
        raise DTypeError(
            f"device must be a pykernels.Device or None but is {device!r}: pk.Device(...) makes one"
        )
    return device


def _after_fork() -> None:
    global _devices_lock, _default_lock
    _devices_lock, _default_lock = threading.RLock(), threading.Lock()
    _default.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
