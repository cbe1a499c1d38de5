"""New tensors on the default device, and their contents; sequences are in fill_sequences.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels.call.again import again, again_without_tensors
from pykernels.call.arrays import Array, array_of
from pykernels.device import Device, Tensor, default_device, device_of
from pykernels.dtypes import DTypeLike, dtype_of
from pykernels.errors import ArgumentError, DTypeError
from pykernels.kernels import fill, memset
from pykernels.tensors.host import is_torch, type_name
from pykernels.tensors.stacking import held

__all__ = [
    "asarray", "empty", "empty_like", "fill", "from_dlpack", "full", "full_like", "memset", "ones",
    "ones_like", "tensor", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | Sequence[int]


def empty(shape: Shape, dtype: DTypeLike = "float32", *, device: Device | None = None) -> Tensor:
    """An uninitialised tensor, on the default device unless one is given."""
    return device_of(device).empty(shape, dtype)


@again_without_tensors
def zeros(shape: Shape, dtype: DTypeLike = "float32", *, device: Device | None = None) -> Tensor:
    """A tensor of zeros, on the default device unless one is given."""
    return device_of(device).zeros(shape, dtype)


@again_without_tensors
def ones(shape: Shape, dtype: DTypeLike = "float32", *, device: Device | None = None) -> Tensor:
    """A tensor of ones, on the default device unless one is given."""
    return device_of(device).ones(shape, dtype)


@again_without_tensors
def full(
    shape: Shape, value: Tensor | float, dtype: DTypeLike | None = None, *,
    device: Device | None = None,
) -> Tensor:  # fmt: skip
    """A tensor with one value everywhere, on the default device unless one is given.

    Args:
        value: A number, or a Tensor of one element, which is copied on its device and has a
            gradient.
        dtype: None is float32, or the dtype of a Tensor `value`.
    """
    if device is None and isinstance(value, Tensor):
        return value.device.full(shape, value, dtype)
    return device_of(device).full(shape, value, dtype)


def empty_like(x: Array, dtype: DTypeLike | None = None) -> Array:
    """An uninitialised array of x's shape: a Tensor on its device, or a numpy array.

    Args:
        x: Tensor or numpy array. dtype: A dtype that tensors have; None is the dtype of x.
    """
    found, host = new_like("empty_like", x, dtype)
    return found.numpy() if host else found


@again
def zeros_like(x: Array, dtype: DTypeLike | None = None) -> Array:
    """Zeros in x's shape; arguments as in `empty_like`."""
    return full_like(x, 0, dtype)


@again
def ones_like(x: Array, dtype: DTypeLike | None = None) -> Array:
    """Ones in x's shape; arguments as in `empty_like`."""
    return full_like(x, 1, dtype)


@again
def full_like(x: Array, value: float, dtype: DTypeLike | None = None) -> Array:
    """One value everywhere in x's shape; other arguments as in `empty_like`."""
    found, host = new_like("full_like", x, dtype)
    fill(found, value)
    return found.numpy() if host else found


def new_like(op: str, x: Array, dtype: DTypeLike | None) -> tuple[Tensor, bool]:
    """A new tensor of x's shape, and True if the result goes to the host because x is a numpy
    array."""
    array_of(op, "x", x)
    name = dtype_of(x.dtype if dtype is None else dtype, f"[{op}] dtype").name
    if isinstance(x, Tensor):
        return x.device.empty(x.shape, name), False
    return default_device().empty(x.shape, name), True


def tensor(array: Any, dtype: DTypeLike | None = None, *, device: Device | None = None) -> Tensor:
    """A copy of numbers, lists, an array or a tensor, on the default device unless one is given.

    Python's numbers become float32, and Python's bools become bool. Arrays keep their dtype, but
    float64 becomes float32; torch's tensors on the CPU are accepted, including bfloat16. A list
    with tensors is stacked on their device, and tapes record this.

    Args:
        array: Anything that `numpy.asarray` accepts.
        dtype: The dtype to convert to, by numpy's rules; None keeps an array's dtype.

    Raises:
        DTypeError: tensors do not have the dtype of the array, for example strings.
        ArgumentError: numpy cannot convert the argument to an array.
    """
    if device is None and isinstance(array, (list, tuple)):
        first = held(array)
        device = None if first is None else first.device
    return device_of(device).tensor(array, dtype)


def asarray(array: Any, dtype: DTypeLike | None = None, *, device: Device | None = None) -> Tensor:
    """Returns a Tensor of this dtype and device unchanged, and converts everything else as `tensor`
    does."""
    if isinstance(array, Tensor):
        device = array.device if device is None else device
        if device is array.device and (dtype is None or dtype_of(dtype).name == array.dtype):
            return array
    return tensor(array, dtype, device=device)


def from_dlpack(x: Any, *, device: Device | None = None) -> Tensor:
    """A copy of any array on the host that has `__dlpack__`, on the default device unless one is
    given.

    Raises:
        DTypeError: x has no `__dlpack__`, or a dtype that tensors do not have.
        ArgumentError: x is not on the host, or cannot be exported.
    """
    if isinstance(x, Tensor) or is_torch(x):
        return tensor(x, device=device)
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise DTypeError(f"[from_dlpack] x must have __dlpack__ but is {type_name(x)}")
    kind = x.__dlpack_device__()[0]
    if kind != 1:
        raise ArgumentError(
            f"[from_dlpack] x must be on the host but is on a device of kind {kind}"
        )
    try:
        array = np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as e:
        raise ArgumentError(f"[from_dlpack] {type_name(x)} cannot be exported: {e}") from None
    return tensor(array, device=device)
