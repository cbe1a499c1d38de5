"""New tensors on the default device, and what fills one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import DTypeLike, dtype_of
from pykernels.errors import ArgumentError, DTypeError
from pykernels.host import is_torch, type_name
from pykernels.kernels import fill, memset

__all__ = [
    "asarray", "empty", "fill", "from_dlpack", "full", "memset", "ones", "tensor", "zeros",
]  # fmt: skip

Shape = int | Sequence[int]


def empty(shape: Shape, dtype: DTypeLike = "float32", *, device: Device | None = None) -> Tensor:
    """An uninitialised tensor, on the default device unless one is given."""
    return device_of(device).empty(shape, dtype)


def zeros(shape: Shape, dtype: DTypeLike = "float32", *, device: Device | None = None) -> Tensor:
    """A tensor of zeros, on the default device unless one is given."""
    return device_of(device).zeros(shape, dtype)


def ones(shape: Shape, dtype: DTypeLike = "float32", *, device: Device | None = None) -> Tensor:
    """A tensor of ones, on the default device unless one is given."""
    return device_of(device).ones(shape, dtype)


def full(
    shape: Shape, value: float, dtype: DTypeLike = "float32", *, device: Device | None = None
) -> Tensor:
    """A tensor with one value everywhere, on the default device unless one is given."""
    return device_of(device).full(shape, value, dtype)


def tensor(array: Any, dtype: DTypeLike | None = None, *, device: Device | None = None) -> Tensor:
    """A copy of numbers, lists, an array or a tensor, on the default device unless one is given.

    Python's numbers become float32, bools bool. Arrays keep their dtype; torch's tensors on the CPU
    are taken too (bfloat16 among them).

    Args:
        array: What `numpy.asarray` takes.
        dtype: What to convert to, by numpy's rules; None keeps an array's dtype.

    Raises:
        DTypeError: a dtype that tensors do not have (without `dtype`, float64 among them).
        ArgumentError: numpy makes no array of it.
    """
    return device_of(device).tensor(array, dtype)


def asarray(array: Any, dtype: DTypeLike | None = None, *, device: Device | None = None) -> Tensor:
    """A Tensor that has this dtype and device as it is, everything else as `tensor` does."""
    if isinstance(array, Tensor):
        device = array.device if device is None else device
        if device is array.device and (dtype is None or dtype_of(dtype).name == array.dtype):
            return array
    return tensor(array, dtype, device=device)


def from_dlpack(x: Any, *, device: Device | None = None) -> Tensor:
    """A copy of any array on the host that has `__dlpack__`, on the default device unless one is
    given.

    Raises:
        DTypeError: it has no `__dlpack__`, or a dtype that tensors do not have.
        ArgumentError: it is not on the host, or cannot be exported.
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
        raise ArgumentError(f"[from_dlpack] {type_name(x)} is not exported: {e}") from None
    return tensor(array, device=device)
