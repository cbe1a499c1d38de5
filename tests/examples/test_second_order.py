"""Examples with gradients of gradients, at a small size, against what they should find."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
import pykernels.device

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

pytest.importorskip("matplotlib")
pytest.importorskip("click")

import burgers
import curvature
import gradient_penalty
import lenet

Array = np.ndarray[Any, Any]


@pytest.fixture
def device(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> pk.Device:
    """The column's device, which the examples get as the default one."""
    monkeypatch.setitem(pykernels.device._default, "device", dev)
    return dev


def test_the_exact_solution_solves_burgers_equation() -> None:
    """By differences of fourth order in float64."""
    x, t = np.meshgrid(np.linspace(-0.9, 0.9, 19), np.linspace(0.1, 0.9, 9))
    h = 1e-3

    def slope(f: Any) -> Array:
        return np.asarray((f(-2 * h) - 8 * f(-h) + 8 * f(h) - f(2 * h)) / (12 * h))

    u = burgers.exact(x, t)
    u_t, u_x = slope(lambda d: burgers.exact(x, t + d)), slope(lambda d: burgers.exact(x + d, t))
    u_xx = slope(lambda d: slope(lambda e: burgers.exact(x + d + e, t)))
    np.testing.assert_allclose(u_t + u * u_x, burgers.NU * u_xx, atol=1e-4)
    at = np.linspace(-1, 1, 11)
    np.testing.assert_allclose(
        burgers.exact(at, np.full_like(at, 1e-9)), -np.sin(np.pi * at), atol=1e-3
    )


def tangents(w: dict[str, Array], x: Array, t: Array) -> tuple[Array, ...]:
    """The network's u, u_x, u_t and u_xx in numpy's float64, forward through its layers."""
    zero, one = np.zeros_like(x), np.ones_like(x)
    h, h_x = np.concatenate([x, t], 1), np.concatenate([one, zero], 1)
    h_t, h_xx = np.concatenate([zero, one], 1), np.zeros((len(x), 2))
    for n in range(burgers.LAYERS + 1):
        m = w[f"w{n}"].astype(float).T
        h, h_x, h_t, h_xx = h @ m + w[f"b{n}"], h_x @ m, h_t @ m, h_xx @ m
        if n < burgers.LAYERS:
            h = np.tanh(h)
            first = 1 - h**2
            h_xx = first * h_xx - 2 * h * first * h_x**2
            h_x, h_t = first * h_x, first * h_t
    return h, h_x, h_t, h_xx


@pytest.mark.gpu
def test_the_residual_of_burgers_equation(device: pk.Device) -> None:
    weights = burgers.initial_weights()
    inside, _, _ = burgers.points(np.random.default_rng(1), 64, 4)
    x, t = inside[:, :1].copy(), inside[:, 1:].copy()
    u, u_x, u_t, u_xx = tangents(weights, x.astype(float), t.astype(float))
    w = {name: device.tensor(a) for name, a in weights.items()}
    found = burgers.residual(w, device.tensor(x), device.tensor(t)).numpy()
    np.testing.assert_allclose(found, u_t + u * u_x - burgers.NU * u_xx, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_a_network_learns_burgers_equation(device: pk.Device, tmp_path: Path) -> None:
    w, losses = burgers.solve(60, inside=128, edges=32)
    x, t = burgers.grid(21)
    found, want = burgers.predict(w, x, t), burgers.exact(x, t)
    burgers.plot(tmp_path / "burgers.png", x, found, want, rows=(0, 10))
    assert np.mean(losses[-5:]) < losses[0] / 2
    assert (tmp_path / "burgers.png").stat().st_size > 1000


@pytest.mark.gpu
def test_a_gradient_penalty_holds_the_critic(device: pk.Device, tmp_path: Path) -> None:
    """Its slopes come near 1, and made points near real ones."""
    game = gradient_penalty.Game(batch=64)

    def apart() -> float:
        a, b = game.made().numpy(), game.real().numpy()
        return gradient_penalty.energy_distance(a, b)

    before = apart()
    distances = gradient_penalty.play(40, game)
    slopes = game.slopes(game.between()[2]).numpy()
    after = apart()
    gradient_penalty.plot(tmp_path / "points.png", game, distances)
    assert abs(slopes.mean() - 1) < 0.3
    assert after < before / 2
    assert (tmp_path / "points.png").stat().st_size > 1000


@pytest.mark.gpu
def test_eigenvalues_of_a_hessian(device: pk.Device, tmp_path: Path) -> None:
    """Those of a layer of softmax, whose Hessian numpy makes whole."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((30, 4)).astype(np.float32), rng.integers(3, size=30).astype("i4")
    weights = {"w": rng.standard_normal((3, 4)).astype(np.float32)}

    def loss(w: Any, x: pk.Tensor, y: pk.Tensor) -> pk.Tensor:
        return pk.cross_entropy(pk.linear(x, w["w"]), y)

    p = np.exp(x @ weights["w"].T)
    p /= p.sum(1, keepdims=True)
    inner = np.einsum("ni,ij->nij", p, np.eye(3)) - np.einsum("ni,nj->nij", p, p)
    whole = np.einsum("nij,nk,nl->ikjl", inner, x, x).reshape(12, 12) / 30
    want = np.linalg.eigvalsh(whole)[::-1]
    small = curvature.Curvature(weights, loss, x, y)
    pairs = curvature.eigenvalues(small, 2, tolerance=1e-3)
    curvature.plot(tmp_path / "curvature.png", small, pairs)
    np.testing.assert_allclose([pair.value for pair in pairs], want[:2], rtol=1e-3)
    assert (tmp_path / "curvature.png").stat().st_size > 1000


@pytest.mark.gpu
def test_products_with_the_hessian_of_lenet(device: pk.Device) -> None:
    """Beside central differences of the gradient."""
    rng = np.random.default_rng(4)
    pictures = rng.random((4, 1, 28, 28)).astype("f4")
    shown = rng.integers(10, size=4).astype("i4")
    c = curvature.Curvature(lenet.initial_weights(), lenet.loss, pictures, shown)
    v = pk.randn(c.flat.shape, seed=1)
    v = v / pk.norm(v)
    found, step = c.product(v).numpy(), 1e-3  # wider ones step over kinks of relu
    ends = [pk.grad(c.loss)(c.flat + s * v).numpy() for s in (-step, step)]
    want = (ends[1] - ends[0]) / (2 * step)
    assert np.linalg.norm(found - want) < 0.01 * np.linalg.norm(want)
