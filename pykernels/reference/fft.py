"""Fourier transforms and complex numbers in float64, and the table of twiddle factors."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["complex", "fft", "fft_budget", "fft_table"]

Array = np.ndarray[Any, Any]


def fft(
    x: Array, table: Array, shape: tuple[int, ...], dtype: Any, length: int = 1,
    inverse: bool = False, scale: float = 1.0,
) -> Array:  # fmt: skip
    """The first elements of the transform, as many as `shape` asks for. For a real result, x is
    half of a symmetric spectrum."""
    wide = x.astype(np.complex128)[..., :length]
    if np.dtype(dtype).kind == "f":
        found = _real(wide[..., : length // 2 + 1], length, inverse)
    else:
        found = np.fft.ifft(wide, length) * length if inverse else np.fft.fft(wide, length)
    out: Array = found[..., : shape[-1]] * scale
    return out


def _real(half: Array, length: int, inverse: bool) -> Array:
    given = half if inverse else half.conj()
    found: Array = np.fft.irfft(given, length) * length
    return found


def fft_budget(
    x: Array, table: Array, dst: Array | None = None, length: int = 1, inverse: bool = False,
    scale: float = 1.0,
) -> Array:  # fmt: skip
    """24 times the average error of pocketfft in float32. This error is 2^-24 * 0.7 * sqrt(log2 n)
    times the root mean square of the result. The elements of a half spectrum count twice."""
    size = np.sqrt((np.abs(x.astype(np.complex128)[..., :length]) ** 2).sum(-1, keepdims=True))
    out: Array = 2.0**-24 * 17 * np.sqrt(1 + np.log2(length)) * abs(scale) * 2 * size
    return out


def complex(real: Array, shape: tuple[int, ...], imag: Array | None = None) -> Array:
    """Complex numbers from their real and imaginary parts, exact."""
    found = np.zeros(shape, np.complex64)
    found.real = real
    if imag is not None:
        found.imag = imag
    return found


def fft_table(length: int) -> Array:
    """The table that `pykernels.rules.fft_table` computes for a length."""
    from pykernels.rules.fft_table import table

    return table(length)
