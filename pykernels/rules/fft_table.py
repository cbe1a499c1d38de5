"""The tables of twiddle factors of Fourier transforms, made in float64 on the host."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pykernels.device import Device, Tensor
from pykernels.plans.fft.lengths import convolution, layout

__all__ = ["table", "table_on"]

MAX_BYTES = 1 << 28  # most bytes of the tables that a device keeps


def table(length: int) -> np.ndarray[Any, np.dtype[np.complex64]]:
    """The table that `pykernels.kernels.fft` takes for a length; `plans.fft.lengths.layout`
    describes its parts."""
    where, size = layout(length), convolution(length)
    found = np.zeros(where.size, np.complex128)
    for n, at in where.inner:
        found[at : at + n] = _powers(np.arange(n), n)
    whole = size or length
    if where.outer.bits:
        step = 1 << where.outer.bits
        found[where.outer.fine : where.outer.fine + step] = _powers(np.arange(step), whole)
        coarse = np.arange(0, whole, step)
        found[where.outer.coarse : where.outer.coarse + coarse.size] = _powers(coarse, whole)
    if size:
        each = np.arange(length)
        chirp = _powers(each * each % (2 * length), 2 * length)
        found[where.chirp : where.chirp + length] = chirp
        around = np.zeros(size, np.complex128)
        around[:length] = chirp.conj()
        around[size - length + 1 :] = chirp.conj()[:0:-1]
        found[where.spectrum :] = np.fft.fft(around) / size
    return found.astype(np.complex64)


def _powers(m: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, np.dtype[np.complex128]]:
    """exp(-2 pi i m / length)."""
    found: np.ndarray[Any, np.dtype[np.complex128]] = np.exp(-2j * np.pi * (m / length))
    return found


def table_on(device: Device, length: int) -> Tensor:
    """The table of a length on a device, from the device's cache."""
    constants = device._context.constants
    key = ("fft", length)
    found = constants.get(key)
    if found is None:
        device._context.refuse_in_capture(
            f"fft: making a table for length {length}, of which it has none"
        )
        found = constants[key] = device.tensor(table(length))
    return cast(Tensor, found)
