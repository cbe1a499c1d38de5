"""New tensors on the default device, and what fills one."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import DTypeLike
from pykernels.kernels import fill, memset

__all__ = ["empty", "fill", "full", "memset", "ones", "zeros"]

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
