"""stft and istft, beside their definition in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)


def meaning(
    x: Any, n: int, hop: int, window: Any, center: bool = True, mode: Any = "reflect",
    normalized: bool = False, onesided: bool = True,
) -> Any:  # fmt: skip
    """torch.stft, frame by frame in float64."""
    x = x.astype(np.float64)
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n // 2, n // 2)], mode=mode)
    full = np.zeros(n)
    first = (n - window.size) // 2
    full[first : first + window.size] = window
    count = 1 + (x.shape[-1] - n) // hop
    frames = [x[..., t * hop : t * hop + n] * full for t in range(count)]
    transform = np.fft.rfft if onesided else np.fft.fft
    return np.stack([transform(f, norm="ortho" if normalized else None) for f in frames], -1)


def hann(n: int) -> Any:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)).astype(np.float32)


CASES: dict[str, dict[str, Any]] = {
    "hann": {"n": 64, "hop": 16, "window": hann(64)},
    "odd": {"n": 45, "hop": 11, "window": hann(45)},
    "short window": {"n": 64, "hop": 10, "window": hann(40)},
    "not centred": {"n": 32, "hop": 8, "window": hann(32) + 0.1, "center": False},
    "constant": {"n": 32, "hop": 8, "window": hann(32), "mode": "constant"},
    "normalized": {"n": 32, "hop": 32, "window": np.ones(32, np.float32), "normalized": True},
    "both sides": {"n": 30, "hop": 7, "window": hann(30), "onesided": False},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(301,), (2, 3, 200)])
def test_stft_and_back(dev, name, shape):
    case = CASES[name]
    x = RNG.standard_normal(shape).astype(np.float32)
    n, hop, window = case["n"], case["hop"], case["window"]
    others = {k: v for k, v in case.items() if k in ("center", "normalized", "onesided")}
    given = {
        "n_fft": n, "hop_length": hop, "win_length": window.size, "window": dev.tensor(window),
        **others,
    }  # fmt: skip
    mode = case.get("mode", "reflect")
    got = pk.fft.stft(dev.tensor(x), pad_mode=mode, **given)
    want = meaning(x, n, hop, window, mode=mode, **others)
    assert got.shape == want.shape
    assert got.dtype == "complex64"
    assert np.linalg.norm(got.numpy() - want) <= 1e-6 * np.linalg.norm(want)
    back = pk.fft.istft(got, length=shape[-1], **given).numpy()
    covered = (want.shape[-1] - 1) * hop + (n % 2 if others.get("center", True) else n)
    most = min(covered, shape[-1])  # later samples lie in no frame
    assert back.shape == x.shape
    assert np.abs(back - x)[..., :most].max() <= 2e-4
    whole = pk.fft.istft(got, **given)
    assert whole.shape[-1] == covered


def test_ones_are_the_window(dev):
    x = RNG.standard_normal(100).astype(np.float32)
    got = pk.fft.stft(x, 20)
    want = meaning(x, 20, 5, np.ones(20))
    assert isinstance(got, np.ndarray)
    assert np.linalg.norm(got - want) <= 1e-6 * np.linalg.norm(want)
    assert np.abs(pk.fft.istft(got, 20) - x).max() <= 1e-5


def test_gradient(dev):
    """The gradient of the energy of a spectrogram is that of a filter: differences agree."""
    x = RNG.standard_normal(40).astype(np.float32)
    t = dev.tensor(x)
    with pk.Tape() as tape:
        z = pk.fft.stft(t, 8, 4, window=dev.tensor(hann(8)))
        loss = pk.sum(pk.square(pk.view_as_real(z)))
    got = tape.gradient(loss, t).numpy()

    def energy(v: Any) -> float:
        return float((np.abs(meaning(v, 8, 4, hann(8))) ** 2).sum())

    unit = np.eye(40)
    want = [(energy(x + u) - energy(x - u)) / 2 for u in unit.astype(np.float64)]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_refusals(dev):
    x, z = dev.zeros(100), dev.zeros((9, 5), "complex64")
    for call, kind, told in (
        (lambda: pk.fft.stft(x, 0), pk.ArgumentError, "n_fft must be at least 1"),
        (lambda: pk.fft.stft(x, 16, 0), pk.ArgumentError, "hop_length must be at least 1"),
        (lambda: pk.fft.stft(x, 16, win_length=17), pk.ArgumentError, "at most n_fft"),
        (lambda: pk.fft.stft(x, 16, window=dev.ones(8)), pk.ShapeError, r"shape \(16,\)"),
        (lambda: pk.fft.stft(x[:10], 16, center=False), pk.ShapeError, "at least n_fft"),
        (lambda: pk.fft.stft(z[0], 4), pk.DTypeError, "x must be float32 but is complex64"),
        (lambda: pk.fft.stft(x, 16, pad_mode="mirror"), pk.ArgumentError, "pad_mode must be"),
        (lambda: pk.fft.istft(z, 20), pk.ShapeError, r"x must be \(..., 11, frames\)"),
        (lambda: pk.fft.istft(x, 16), pk.DTypeError, "x must be complex64"),
        (lambda: pk.fft.istft(z, 16, length=-1), pk.ArgumentError, "must not be negative"),
    ):
        with pytest.raises(kind, match=told):
            call()
