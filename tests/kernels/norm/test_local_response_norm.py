"""local_response_norm: its formula, gradients, layouts, sizes of 0, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
NUMBERS: dict[str, float] = {"alpha": 0.1, "beta": 0.75, "k": 2.0}


def reference(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    wide = x.astype(np.float64)
    means = np.zeros_like(wide)
    for c in range(x.shape[1]):
        window = wide[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        means[:, c] = (window**2).sum(1) / size
    return wide / (k + alpha * means) ** beta


@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_local_response_norm_is_its_formula(dev: pk.Device, size: int) -> None:
    x = 10 * np.random.default_rng(0).standard_normal((2, 7, 3, 4)).astype("f4")
    want = reference(x, size, **NUMBERS)
    turned = dev.tensor(np.ascontiguousarray(x.T)).T
    out = dev.tensor(x)
    assert pk.local_response_norm(out, size, **NUMBERS, out=out) is out
    for got in (pk.local_response_norm(turned, size, **NUMBERS).numpy(), out.numpy()):
        np.testing.assert_allclose(got, want, rtol=2e-6)


def test_local_response_norm_of_float16_has_large_squares() -> None:
    x = 300 * np.random.default_rng(0).standard_normal((2, 7, 5)).astype("f2")
    got = pk.local_response_norm(x, 3, **NUMBERS)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, reference(x, 3, **NUMBERS), rtol=1e-3)


def test_local_response_norm_has_torchs_defaults(dev: pk.Device) -> None:
    x = np.random.default_rng(1).standard_normal((2, 5)).astype("f4")
    want = reference(x, 3, 1e-4, 0.75, 1.0)
    np.testing.assert_allclose(pk.local_response_norm(dev.tensor(x), 3).numpy(), want, rtol=2e-6)
    assert pk.local_response_norm(dev.empty((2, 0, 4)), 3).shape == (2, 0, 4)


@pytest.mark.parametrize("size", [3, 4])
def test_its_gradient_goes_to_neighbours(dev: pk.Device, size: int) -> None:
    rng = np.random.default_rng(2)
    x, seed, step = (rng.standard_normal((2, 6, 4)).astype("f4") for _ in range(3))
    t = dev.tensor(x)
    with pk.Tape() as tape:
        y = pk.local_response_norm(t, size, **NUMBERS)
    (found,) = tape.gradient(y, [t], seed)
    moved = [reference(x + sign * 1e-5 * step.astype("f8"), size, **NUMBERS) for sign in (1, -1)]
    want = ((moved[0] - moved[1]) * seed).sum() / 2e-5
    assert (found.numpy() * step).sum() == pytest.approx(want, rel=1e-5)


def test_local_response_norm_rejects(dev: pk.Device) -> None:
    x = dev.ones((2, 3, 4))
    with pytest.raises(pk.ArgumentError, match=r"\[local_response_norm\] size must be 1 or more"):
        pk.local_response_norm(x, 0)
    with pytest.raises(pk.ShapeError, match=r"\[local_response_norm\] x must have the axes"):
        pk.local_response_norm(dev.ones(3), 2)
    with pytest.raises(pk.DTypeError, match=r"\[local_response_norm\] x must be .* but is int32"):
        pk.local_response_norm(dev.ones((2, 3), "int32"), 2)
    with pytest.raises(pk.ShapeError, match=r"\[local_response_norm\] out must have shape"):
        pk.local_response_norm(x, 2, out=dev.empty((2, 3)))
