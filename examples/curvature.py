"""The largest eigenvalues of the Hessian of the network that reads digits.

    pip install matplotlib
    python examples/curvature.py [--values N] [--save FOLDER]

It uses power iteration on products of the Hessian with a vector (`pk.hvp`), because the matrix
itself would have 33,000 x 33,000 elements. The network of examples/lenet.py is trained first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import digits
import lenet
import numpy as np
from matplotlib.figure import Figure
from training import train

import pykernels as pk

Array = np.ndarray[Any, Any]

PICTURES = 200
TOLERANCE = 1e-2  # largest allowed residual, relative to the eigenvalue
MOST = 200  # largest number of products for an eigenvalue


class Pair(NamedTuple):
    """An eigenvalue, its vector of length 1, |H v - value v|, and the number of products used."""

    value: float
    vector: pk.Tensor
    residual: float
    products: int


class Curvature:
    """The loss of a batch as a function of all weights in one vector, and products with the Hessian
    of this loss."""

    def __init__(
        self, weights: dict[str, Array], loss: Callable[..., pk.Tensor], *batch: Array
    ) -> None:
        device = pk.default_device()
        self._shapes = {name: a.shape for name, a in weights.items()}
        self._loss, self._batch = loss, [device.tensor(a) for a in batch]
        self.flat = device.tensor(np.concatenate([a.ravel() for a in weights.values()]))
        self._v = device.zeros(self.flat.shape)
        with device.capture() as self._product:
            self._found = pk.hvp(self.loss, self.flat, self._v)

    def loss(self, flat: pk.Tensor) -> pk.Tensor:
        """The loss with these weights."""
        weights, first = {}, 0
        for name, shape in self._shapes.items():
            last = first + int(np.prod(shape))
            weights[name], first = flat[first:last].reshape(shape), last
        return self._loss(weights, *self._batch)

    def product(self, v: pk.Tensor) -> pk.Tensor:
        """The Hessian times v."""
        self._v[:] = v
        self._product()
        return self._found.copy()


def eigenvalues(
    curvature: Curvature, count: int, tolerance: float = TOLERANCE, most: int = MOST
) -> list[Pair]:
    """The eigenvalues of largest magnitude, by power iterations. Each iteration removes the
    components along the eigenvectors that were found before."""
    pairs: list[Pair] = []
    for n in range(count):
        v = _unit(_apart(pk.randn(curvature.flat.shape, seed=n + 1), pairs))
        for products in range(1, most + 1):
            turned = curvature.product(v)
            value = _dot(v, turned)
            residual = _dot(turned - value * v, turned - value * v) ** 0.5
            found = Pair(value, v, residual, products)
            if residual < tolerance * abs(value):
                break
            v = _unit(_apart(turned, pairs))
        pairs.append(found)
    return pairs


def _dot(a: pk.Tensor, b: pk.Tensor) -> float:
    return pk.sum(a * b).item()


def _unit(v: pk.Tensor) -> pk.Tensor:
    return v / pk.norm(v)


def _apart(v: pk.Tensor, pairs: Sequence[Pair]) -> pk.Tensor:
    """The vector v without its components along these vectors."""
    for pair in pairs:
        v = v - _dot(v, pair.vector) * pair.vector
    return v


def plot(path: Path, curvature: Curvature, pairs: Sequence[Pair]) -> None:
    """Draws the eigenvalues, and the loss along the first eigenvector beside its parabola."""
    figure = Figure(figsize=(9, 3.4), layout="tight")
    left, right = figure.subplots(1, 2)
    left.bar(range(1, len(pairs) + 1), [pair.value for pair in pairs])
    left.set(title="largest eigenvalues of the Hessian", xlabel="number")
    first = pairs[0]
    at = np.linspace(-1, 1, 41) * (0.2 / abs(first.value)) ** 0.5
    losses = [curvature.loss(curvature.flat + float(a) * first.vector).item() for a in at]
    slope = _dot(pk.grad(curvature.loss)(curvature.flat), first.vector)
    right.plot(at, losses, label="loss")
    middle = losses[len(at) // 2]
    right.plot(at, middle + slope * at + first.value * at**2 / 2, "--", label="parabola")
    right.set(title="along the first vector", xlabel="distance")
    right.legend()
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=5)
    parser.add_argument("--save", type=Path, help="folder for curvature.png")
    args = parser.parse_args()

    steps = list(lenet.batches())
    rates = lenet.rates(lenet.STEPS, lenet.RATE, lenet.WARM_UP)
    weights, _ = train(lenet.initial_weights(), lenet.loss, steps, rates)
    trained = {name: t.numpy() for name, t in weights.items()}
    curvature = Curvature(trained, lenet.loss, *digits.draw(digits.TRAINING, PICTURES, seed=1))
    pairs = eigenvalues(curvature, args.values)
    for pair in pairs:
        print(f"{pair.value:9.4f}, residual {pair.residual:.1e}, {pair.products} products")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
        plot(args.save / "curvature.png", curvature, pairs)


if __name__ == "__main__":
    main()
