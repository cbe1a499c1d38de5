"""Products with a Hessian: by hvp, by two tapes, and by central differences of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

Tree = dict[str, Any]
RNG = np.random.default_rng(5)
ROUNDING = 2.0**-12  # of gradients of about 1 in f32, over steps of 2^-6


def numbers(**shapes: tuple[int, ...]) -> Tree:
    return {name: RNG.normal(0, 0.7, shape).astype("f4") for name, shape in shapes.items()}


X = numbers(x=(5, 3), image=(2, 2, 5, 5))
CLASSES = np.array([2, 0, 1, 3, 3], "i4")


def network(w: Tree) -> Any:
    """The squares of what a network with two layers misses."""
    hidden = pk.tanh(pk.linear(w["b"].device.tensor(X["x"]), w["w"], w["b"]))
    return pk.mse_loss(pk.linear(hidden, w["v"]), w["b"].device.ones((5, 2)))


def entropy(w: Tree) -> Any:
    x, classes = (w["w"].device.tensor(a) for a in (X["x"], CLASSES))
    return pk.cross_entropy(pk.linear(x, w["w"], w["b"]), classes, label_smoothing=0.1)


def attention(w: Tree) -> Any:
    y = pk.scaled_dot_product_attention(w["q"], w["k"], w["v"], is_causal=True)
    return pk.sum(pk.sin(y))


def convolution(w: Tree) -> Any:
    x = w["w"].device.tensor(X["image"])
    y = pk.conv2d(x, w["w"], w["b"], padding=1, stride=2, activation="silu")
    return pk.mean(pk.square(pk.avg_pool2d(y, 2, 1)))


def norms(w: Tree) -> Any:
    y = pk.layer_norm(w["x"], 6, w["w"], w["b"])
    return pk.sum(pk.gelu(y) * pk.rms_norm(w["x"], 6))


LOSSES: dict[str, tuple[Callable[[Tree], Any], Tree]] = {
    "network": (network, numbers(w=(4, 3), b=(4,), v=(2, 4))),
    "cross_entropy": (entropy, numbers(w=(4, 3), b=(4,))),
    "attention": (attention, numbers(q=(1, 2, 4, 3), k=(1, 2, 4, 3), v=(1, 2, 4, 3))),
    "convolution": (convolution, numbers(w=(3, 2, 3, 3), b=(3,))),
    "norms": (norms, numbers(x=(3, 6), w=(6,), b=(6,))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_three_ways_agree(dev: pk.Device, name: str) -> None:
    loss, arrays = LOSSES[name]
    rng = np.random.default_rng(1)
    x = {k: dev.tensor(a) for k, a in arrays.items()}
    ways = {k: dev.tensor(rng.normal(0, 1, a.shape).astype("f4")) for k, a in arrays.items()}
    found = pk.hvp(loss, x, ways)

    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = loss(x)
        slopes = inner.gradient(y, x)
        along = pk.sum(pk.stack([pk.sum(slopes[k] * ways[k]) for k in x]))
    nested = outer.gradient(along, x)

    slope = pk.grad(loss)
    h = 2.0**-6

    def at(far: float) -> Tree:
        here = slope({k: t + far * ways[k] for k, t in x.items()})
        return {k: t.numpy().astype("f8") for k, t in here.items()}

    near, far = [(at(s * h), at(-s * h)) for s in (1, 2)]
    for k in x:
        # Of fourth order: what is left is the rounding of gradients, over h.
        want = (8 * (near[0][k] - near[1][k]) - (far[0][k] - far[1][k])) / (12 * h)
        size = np.abs(want).max()
        np.testing.assert_allclose(found[k].numpy(), want, rtol=0, atol=ROUNDING * (0.1 + size))
        np.testing.assert_allclose(found[k].numpy(), nested[k].numpy(), rtol=0, atol=2e-6 * size)
