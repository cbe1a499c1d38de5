"""The errors of pykernels.

Every error raised on purpose derives from :class:`PyKernelsError` and from the built-in
exception that a caller would catch anyway::

    PyKernelsError
    |- ShapeError(ValueError)           shapes that do not fit together, or a view out of its buffer
    |- DTypeError(TypeError)            a dtype that an operation does not take
    |- ArgumentError(ValueError)        any other argument with an unusable value
    |- AliasError(ValueError)           an output whose elements share memory
    |- IndexRangeError(IndexError)      an index out of range
    |- LimitError(ValueError)           more than the device or the index arithmetic can address
    |- FeatureError(RuntimeError)       the device lacks a feature that the call needs
    |- NoAdapterError(RuntimeError)     no adapter, engine or driver fits the request
    |- DeviceLostError(RuntimeError)    the device is closed, lost, or was inherited through fork
    |- BufferStateError(RuntimeError)   the buffer is destroyed, mapped, or another device's
    |- TapeError(RuntimeError)          a gradient that a tape cannot give
    |- OutOfMemoryError(MemoryError)    the device, or the byte budget, has no room
    `- ShaderError(RuntimeError)        the driver refused a shader or a pipeline

``pykernels.onnx`` adds ModelError(PyKernelsError, ValueError): a file that cannot be run;
``pykernels.own`` adds SourceError(PyKernelsError, ValueError): a source that cannot be built.

SoftwareDeviceWarning(UserWarning) says, once, that the default device runs on the CPU.

Messages name the operation, the argument, the rule and the value:
``[softmax] mask must broadcast to (8, 128) but has shape (7, 128)``.
"""

from collections.abc import Iterable

__all__ = [
    "AliasError",
    "ArgumentError",
    "BufferStateError",
    "DTypeError",
    "DeviceLostError",
    "FeatureError",
    "IndexRangeError",
    "LimitError",
    "NoAdapterError",
    "OutOfMemoryError",
    "PyKernelsError",
    "ShaderError",
    "ShapeError",
    "SoftwareDeviceWarning",
    "TapeError",
]


class PyKernelsError(Exception):
    """Base class of all errors that pykernels raises on purpose."""


class ShapeError(PyKernelsError, ValueError):
    """Shapes do not fit together, or a view leaves its buffer."""


class DTypeError(PyKernelsError, TypeError):
    """The operation does not accept the dtype."""


class ArgumentError(PyKernelsError, ValueError):
    """An argument has an unusable value."""


class AliasError(PyKernelsError, ValueError):
    """An output is broadcast or overlaps itself."""


class IndexRangeError(PyKernelsError, IndexError):
    """An index is out of range: an index of a view, or an index that a kernel found on the
    device."""


class LimitError(PyKernelsError, ValueError):
    """The call needs more than the device, or 32-bit index arithmetic, can address."""


class FeatureError(PyKernelsError, RuntimeError):
    """The device lacks a feature that the call needs."""


class NoAdapterError(PyKernelsError, RuntimeError):
    """No adapter, engine or driver fits the request."""


class DeviceLostError(PyKernelsError, RuntimeError):
    """The device is closed or lost, or belongs to the parent process of a fork."""


class BufferStateError(PyKernelsError, RuntimeError):
    """The buffer is destroyed, mapped, lacks a usage flag, or belongs to another device."""


class TapeError(PyKernelsError, RuntimeError):
    """A tape cannot give a gradient, or was used in a wrong way."""


class OutOfMemoryError(PyKernelsError, MemoryError):
    """The device, or its byte budget, has no room."""


class ShaderError(PyKernelsError, RuntimeError):
    """The driver refused a shader module or a pipeline."""


def either(names: Iterable[str]) -> str:
    """The names as a message lists them: "float32, float16 or bfloat16"."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


class SoftwareDeviceWarning(UserWarning):
    """The default device is a software driver, which runs everything on the CPU."""
