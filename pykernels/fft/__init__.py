"""Discrete Fourier transforms, with the names and arguments of `numpy.fft`; spectra of frames, as
in torch's `stft`.

Transforms of any length are computed, in float32 and complex64. A Tensor gives a Tensor, a numpy
array gives a numpy array. docs/design/fft.md describes the method.
"""

from pykernels.rules.fft_table import table

from ._frames import istft, stft
from ._transforms import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft",
    "irfft2", "irfftn", "istft", "rfft", "rfft2", "rfftfreq", "rfftn", "stft", "table",
]  # fmt: skip
