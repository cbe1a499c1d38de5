"""Gradients of Fourier transforms and of complex numbers, beside differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def weighed(found: Any, weights: Any, xp: Any) -> Any:
    """A real number that depends on all parts of a result."""
    if np.dtype(str(found.dtype)).kind == "c":
        return xp.sum(xp.real(found) * weights[0]) + xp.sum(xp.imag(found) * weights[1])
    return xp.sum(found * weights[0])


def differences(f: Callable[[Any], float], x: Any) -> Any:
    """df/d(real part) + i df/d(imaginary part), exact where f is quadratic."""
    found = np.zeros(x.shape, np.complex128)
    for at in np.ndindex(x.shape):
        for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
            step = np.zeros(x.shape, x.dtype)
            step[at] = unit
            found[at] += unit * (f(x + step) - f(x - step)) / 2
    return found if x.dtype.kind == "c" else found.real


LENGTHS = (7, 8, 12, 22)
TRANSFORMS = {
    **{f"{op} {n}": (lambda t, xp, op=op, n=n: getattr(xp.fft, op)(t, n)) for n in LENGTHS
       for op in ("fft", "ifft", "irfft")},
    "cut": lambda t, xp: xp.fft.fft(t, 5, axis=0),
    "ortho": lambda t, xp: xp.fft.ifft(t, axis=0, norm="ortho"),
    "two axes": lambda t, xp: xp.fft.fft2(t),
    "irfft2": lambda t, xp: xp.fft.irfft2(t),
    "shifted": lambda t, xp: xp.fft.fftshift(xp.fft.fft(t)),
    "slice": lambda t, xp: xp.fft.fft(t[:, ::2]),
    "real part": lambda t, xp: xp.fft.fft(xp.real(t)),
    "rfft": lambda t, xp: xp.fft.rfft(xp.imag(t)),
    "rfft 22": lambda t, xp: xp.fft.rfft(xp.imag(t), 22),
    "conj": lambda t, xp: xp.conj(t),
    "sum": lambda t, xp: t + t[0] - 2 * t[:, :1] + 1j,
    "number": lambda t, xp: (1 - 2j) * t / 3,
    "negative": lambda t, xp: -t,
    "filter": lambda t, xp: xp.fft.ifft(xp.fft.fft(t) * xp.real(t)),
    "product": lambda t, xp: t * t[1],
    "power": lambda t, xp: xp.real(xp.fft.fft(t)) ** 2 + xp.imag(xp.fft.fft(t)) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_match_differences(dev, name):
    make, x = TRANSFORMS[name], numbers(3, 8)
    shape = make(x, np).shape
    weights = [RNG.standard_normal(shape) for _ in range(2)]
    t, given = dev.tensor(x), [dev.tensor(w.astype(np.float32)) for w in weights]
    with pk.Tape() as tape:
        loss = weighed(make(t, pk), given, pk)
    got = tape.gradient(loss, t).numpy()
    wide = x.astype(np.complex128)
    rounded = [w.astype(np.float32).astype(np.float64) for w in weights]
    want = differences(lambda z: weighed(make(z, np), rounded, np), wide)
    assert got.dtype == np.complex64
    assert np.abs(got - want).max() <= 2.0**-19 * np.abs(want).max()


def test_real_sources(dev):
    x = RNG.standard_normal((3, 6)).astype(np.float32)
    t, weights = dev.tensor(x), [RNG.standard_normal((3, 4)) for _ in range(2)]
    given = [dev.tensor(w.astype(np.float32)) for w in weights]
    with pk.Tape() as tape:
        loss = weighed(pk.fft.rfft(t), given, pk)
    want = differences(lambda z: weighed(np.fft.rfft(z), weights, np), x.astype(np.float64))
    assert np.abs(tape.gradient(loss, t).numpy() - want).max() <= 1e-5
    with pk.Tape() as tape:  # angles and magnitudes
        z = pk.fft.rfft(t)
        loss = pk.sum(pk.abs(z)) + pk.sum(pk.angle(z)[..., 1:3])
    wide = x.astype(np.float64)
    step = 1e-5

    def f(z):
        spectrum = np.fft.rfft(z)
        return np.abs(spectrum).sum() + np.angle(spectrum)[..., 1:3].sum()

    want = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        up, down = wide.copy(), wide.copy()
        up[at] += step
        down[at] -= step
        want[at] = (f(up) - f(down)) / (2 * step)
    assert np.abs(tape.gradient(loss, t).numpy() - want).max() <= 1e-4


def test_gradients_of_gradients(dev):
    """The gradient of |F x|^2 is 2 n x, and that of its square sum 8 n^2 x."""
    t = dev.tensor(numbers(2, 9))
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            z = pk.fft.fft(t)
            loss = pk.sum(pk.square(pk.real(z))) + pk.sum(pk.square(pk.imag(z)))
        dt = inner.gradient(loss, t)
        total = pk.sum(pk.square(pk.view_as_real(dt)))
    np.testing.assert_allclose(dt.numpy(), 18 * t.numpy(), rtol=1e-4, atol=1e-4)
    want = 2 * 18**2 * t.numpy()
    np.testing.assert_allclose(outer.gradient(total, t).numpy(), want, rtol=1e-4, atol=1e-2)


def test_refusals(dev):
    t = dev.tensor(numbers(2, 3))
    with pk.Tape() as tape:
        found = pk.pad(t, 1)
        loss = pk.sum(pk.abs(found))
    with pytest.raises(pk.TapeError, match="no gradient rule for complex64"):
        tape.gradient(loss, t)
    with pk.Tape() as tape:
        z = pk.fft.fft(t)
    with pytest.raises(pk.DTypeError, match="loss must have a float dtype but is complex64"):
        tape.gradient(z, t)
