"""Spectra of overlapping frames, and the inverse, as torch's stft and istft."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pykernels import functional as F
from pykernels._generated.kernels import im2col as _im2col
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import choice, flag, integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.whole import whole

from ._transforms import fft, irfft, rfft

__all__ = ["istft", "stft"]

PadMode = Literal["constant", "reflect", "replicate", "circular"]
_MODES = ("constant", "reflect", "replicate", "circular")
_X = replace(_im2col.KERNEL.args[0], dtypes=("float32",))
_STFT = replace(_im2col.KERNEL, name="stft", args=(_X, *_im2col.KERNEL.args[1:]))
_Z = replace(_X, dtypes=("complex64",))
_ISTFT = replace(_im2col.KERNEL, name="istft", args=(_Z, *_im2col.KERNEL.args[1:]))


@whole
def stft(
    x: Array, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Array | None = None, center: bool = True, pad_mode: PadMode = "reflect",
    normalized: bool = False, onesided: bool = True,
) -> Array:  # fmt: skip
    """The spectra of overlapping frames of a real signal (torch.stft).

    result[..., k, t] = sum_j window[j] x[..., t hop_length + j] exp(-2 pi i j k / n_fft).

    Args:
        x: Tensor or numpy array (..., samples), float32.
        n_fft: The length of a frame.
        hop_length: The distance between the starts of frames; None is n_fft // 4.
        win_length: The length of the window, which lies in the middle of a frame; None is n_fft.
        window: Tensor or numpy array (win_length,), float32; None is ones.
        center: True pads x by n_fft // 2 on both sides, so that frame t is centred at t hop_length.
        pad_mode: How `pk.pad` pads x.
        normalized: True divides by the root of n_fft.
        onesided: True returns only the first n_fft // 2 + 1 frequencies, because all others follow
            from these.

    Returns:
        complex64 (..., frequencies, frames).

    Raises:
        ShapeError: x is shorter than a frame, or the window has another length.
        ArgumentError: a length below 1, or win_length above n_fft.
        DTypeError: another dtype.
    """
    call = Call(_STFT, x)
    t = call.tensor("x", x)
    size, hop, held = _lengths("stft", n_fft, hop_length, win_length)
    if t.ndim == 0:
        raise ShapeError("[stft] x must have an axis of samples but has none")
    if flag("stft", "center", center):
        around = ((0, 0),) * (t.ndim - 1) + ((size // 2, size // 2),)
        t = F.pad(t, around, choice("stft", "pad_mode", pad_mode, _MODES))
    if t.shape[-1] < size:
        raise ShapeError(
            f"[stft] x must have at least n_fft = {size} samples but has {t.shape[-1]}"
        )
    lead = t.shape[:-1]
    frames: Any = F.unfold(t.reshape(-1, 1, 1, t.shape[-1]), (1, size), stride=(1, hop))
    weights = _window("stft", t, window, size, held)
    if weights is not None:
        frames = F.mul(frames, weights.unsqueeze(-1))
    transform = rfft if flag("stft", "onesided", onesided) else fft
    norm: Any = "ortho" if flag("stft", "normalized", normalized) else None
    found: Any = transform(frames, axis=-2, norm=norm)
    return call.leave(found.reshape(*lead, *found.shape[-2:]))


@whole
def istft(
    x: Array, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Array | None = None, center: bool = True, normalized: bool = False,
    onesided: bool = True, length: int | None = None,
) -> Array:  # fmt: skip
    """The signal whose `stft` is nearest to x by least squares (torch.istft). The frames are
    multiplied by the window and added, and the sum is divided by the sum of the windows' squares.

    Args:
        x: Tensor or numpy array (..., frequencies, frames), complex64.
        n_fft, hop_length, win_length, window, center, normalized, onesided: As in `stft`.
        length: The number of samples: the result is cut, or zeros follow it. None means all
            samples.

    Returns:
        float32 (..., samples). Samples that no window covers are 0, whereas torch raises an error
        for them.

    Raises:
        ShapeError: x has another number of frequencies, or the window has another length.
        ArgumentError, DTypeError: as in `stft`.
    """
    op = "istft"
    call = Call(_ISTFT, x)
    t = call.tensor("x", x)
    size, hop, held = _lengths(op, n_fft, hop_length, win_length)
    half = flag(op, "onesided", onesided)
    count = size // 2 + 1 if half else size
    if t.ndim < 2 or t.shape[-2] != count or t.shape[-1] < 1:
        raise ShapeError(f"[{op}] x must be (..., {count}, frames) but has shape {t.shape}")
    norm: Any = "ortho" if flag(op, "normalized", normalized) else None
    lead, number = t.shape[:-2], t.shape[-1]
    # only the first half of the spectrum counts, because x must be symmetric
    kept = t[..., : size // 2 + 1, :]
    frames: Any = irfft(kept, size, axis=-2, norm=norm)
    weights = _window(op, t, window, size, held)
    if weights is None:
        weights = t.device.ones((size,))
    whole = (1, size + hop * (number - 1))
    frames = F.mul(frames, weights.unsqueeze(-1)).reshape(-1, size, number)
    added: Any = F.fold(frames, whole, (1, size), stride=(1, hop))
    squares = F.square(weights).unsqueeze(-1).broadcast_to((1, size, number)).copy()
    over: Any = F.fold(squares, whole, (1, size), stride=(1, hop))
    evaluated: Any = F.elementwise
    signal = evaluated("where(over > 1e-11, added / over, 0.0)", added=added, over=over)
    signal = signal.reshape(*lead, whole[1])
    if flag(op, "center", center):
        signal = signal[..., size // 2 :]
        signal = signal if length is not None else signal[..., : signal.shape[-1] - size // 2]
    if length is not None:
        wanted = integer(op, "length", length)
        if wanted < 0:
            raise ArgumentError(f"[{op}] length must not be negative but is {wanted}")
        missing = wanted - signal.shape[-1]
        signal = signal[..., :wanted]
        if missing > 0:
            signal = F.pad(signal, ((0, 0),) * len(lead) + ((0, missing),))
    return call.leave(signal if signal.contiguous else signal.copy())


def _lengths(op: str, n_fft: int, hop: int | None, held: int | None) -> tuple[int, int, int]:
    size = integer(op, "n_fft", n_fft)
    step = size // 4 if hop is None else integer(op, "hop_length", hop)
    inner = size if held is None else integer(op, "win_length", held)
    for name, value in (("n_fft", size), ("hop_length", step), ("win_length", inner)):
        if value < 1:
            raise ArgumentError(f"[{op}] {name} must be at least 1 but is {value}")
    if inner > size:
        raise ArgumentError(f"[{op}] win_length must be at most n_fft = {size} but is {inner}")
    return size, step, inner


def _window(op: str, t: Tensor, window: Array | None, size: int, held: int) -> Tensor | None:
    """The window of a frame, padded with zeros on both sides."""
    if window is None and held == size:
        return None
    if window is None:
        window = t.device.ones((held,))
    given = window if isinstance(window, Tensor) else t.device.tensor(np.asarray(window))
    if given.dtype != "float32":
        raise DTypeError(f"[{op}] window must be float32 but is {given.dtype}")
    if given.shape != (held,):
        raise ShapeError(f"[{op}] window must have shape ({held},) but has {given.shape}")
    before = (size - held) // 2
    found: Any = given if held == size else F.pad(given, ((before, size - held - before),))
    return found  # type: ignore[no-any-return]
