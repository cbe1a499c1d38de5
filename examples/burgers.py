"""A network solves Burgers' equation by its residual: a physics-informed network.

    pip install matplotlib
    python examples/burgers.py [--steps N] [--save FOLDER]

It learns u(x, t) for u_t + u u_x = NU u_xx on -1 < x < 1 and 0 < t < 1, with u(x, 0) = -sin(pi x)
and u = 0 at both ends (Raissi, Perdikaris and Karniadakis, 2019). The loss has second derivatives
in x, and its gradient goes back through them. Training does not use the exact solution, which Cole
and Hopf's transform gives. At the end, the result is compared with the exact solution.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from training import Training, Weights, plot_losses, rates

import pykernels as pk

Array = np.ndarray[Any, Any]

NU = 0.05 / np.pi
POINTS, EDGES = 1024, 128  # number of points in a step: inside, and on each of the three sides
EDGE = 10.0  # weight of the edges in the loss; with 1, u would stay flat for many steps
WIDTH, LAYERS = 24, 3
RATE, WARM_UP = 5e-3, 50
WANTED = 0.1  # largest relative error after the default number of steps


def initial_weights(seed: int = 0) -> dict[str, Array]:
    """Initial weights: Glorot's uniform weights, and biases of 0."""
    rng = np.random.default_rng(seed)
    sizes = [2, *[WIDTH] * LAYERS, 1]
    weights = {}
    for n, (inputs, outputs) in enumerate(pairwise(sizes)):
        bound = np.sqrt(6 / (inputs + outputs))
        weights[f"w{n}"] = rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
        weights[f"b{n}"] = np.zeros(outputs, np.float32)
    return weights


def network(w: Weights, x: pk.Tensor, t: pk.Tensor) -> pk.Tensor:
    """u at the points (x, t); u, x and t have the shape (N, 1)."""
    h = pk.concatenate([x, t], axis=1)
    for n in range(LAYERS):
        h = pk.tanh(pk.linear(h, w[f"w{n}"], w[f"b{n}"]))
    return pk.linear(h, w[f"w{LAYERS}"], w[f"b{LAYERS}"])


def residual(w: Weights, x: pk.Tensor, t: pk.Tensor) -> pk.Tensor:
    """The residual u_t + u u_x - NU u_xx at each point."""

    def slopes(x: pk.Tensor, t: pk.Tensor) -> tuple[pk.Tensor, Any]:
        # u at a point depends only on that point, so the gradient of the sum holds the derivative
        # at each point.
        def total(x: pk.Tensor, t: pk.Tensor) -> tuple[pk.Tensor, pk.Tensor]:
            u = network(w, x, t)
            return pk.sum(u), u

        (u_x, u_t), u = pk.grad(total, argnums=(0, 1), has_aux=True)(x, t)
        return pk.sum(u_x), (u, u_x, u_t)

    u_xx, (u, u_x, u_t) = pk.grad(slopes, has_aux=True)(x, t)
    return u_t + u * u_x - NU * u_xx


def loss(w: Weights, inside: pk.Tensor, edges: pk.Tensor, known: pk.Tensor) -> pk.Tensor:
    """The mean square of the residual, plus EDGE times the mean square of the errors on the
    edges."""
    equation = residual(w, inside[:, :1].copy(), inside[:, 1:].copy())
    u = network(w, edges[:, :1].copy(), edges[:, 1:].copy())
    return pk.mean(pk.square(equation)) + EDGE * pk.mean(pk.square(u - known))


def points(rng: np.random.Generator, inside: int, edges: int) -> tuple[Array, Array, Array]:
    """Random points (x, t) inside and on three sides, and u on the sides."""
    x, t = rng.uniform(-1, 1, (inside, 1)), rng.uniform(0, 1, (inside, 1))
    start, times = rng.uniform(-1, 1, (edges, 1)), rng.uniform(0, 1, (2 * edges, 1))
    ends = np.repeat([[-1.0], [1.0]], edges, axis=0)
    sides = np.block([[start, np.zeros_like(start)], [ends, times]])
    known = np.concatenate([-np.sin(np.pi * start), np.zeros_like(ends)])
    found = np.concatenate([x, t], axis=1), sides, known
    return tuple(a.astype(np.float32) for a in found)  # type: ignore[return-value]


def exact(x: Array, t: Array, nodes: int = 100) -> Array:
    """The solution by Cole and Hopf's transform: two integrals, by Gauss and Hermite's rule."""
    z, weight = np.polynomial.hermite.hermgauss(nodes)
    y = x[..., None] - np.sqrt(4 * NU * t[..., None]) * z
    # The largest exponent is 1 / (2 pi NU), about 10.
    heat = weight * np.exp(-np.cos(np.pi * y) / (2 * np.pi * NU))
    return -(heat * np.sin(np.pi * y)).sum(-1) / heat.sum(-1)  # type: ignore[no-any-return]


def grid(size: int = 101) -> tuple[Array, Array]:
    """x and t of the points of a grid, in rows of equal t."""
    x, t = np.meshgrid(np.linspace(-1, 1, size), np.linspace(0, 1, size))
    return x, t


def solve(steps: int, inside: int = POINTS, edges: int = EDGES) -> tuple[Weights, list[float]]:
    """The weights after some steps, each on new points, and the losses."""
    rng = np.random.default_rng(0)
    batches = [points(rng, inside, edges) for _ in range(steps)]
    training = Training(initial_weights(), loss, *batches[0])
    return training.weights, training.run(batches, rates(steps, RATE, WARM_UP))


def predict(w: Weights, x: Array, t: Array) -> Array:
    """u at points whose x and t are arrays of the same shape."""
    device = w["w0"].device
    columns = [device.tensor(a.reshape(-1, 1).astype(np.float32)) for a in (x, t)]
    return network(w, *columns).numpy().reshape(x.shape)


def relative_error(found: Array, want: Array) -> float:
    """The relative error over all points together."""
    return float(np.linalg.norm(found - want) / np.linalg.norm(want))


def plot(path: Path, x: Array, found: Array, want: Array, rows: Sequence[int]) -> None:
    """Draws u over x and t, the error, and u over x at some times."""
    figure = Figure(figsize=(12, 3.4), layout="tight")
    left, middle, right = figure.subplots(1, 3)
    for axes, title, values in (
        (left, "u of the network", found),
        (middle, "its error", found - want),
    ):
        shown = axes.imshow(values.T, origin="lower", extent=(0, 1, -1, 1), aspect="auto")
        axes.set(title=title, xlabel="t", ylabel="x")
        figure.colorbar(shown)
    for row in rows:
        t = row / (len(x) - 1)
        right.plot(x[row], want[row], color="0.7", linewidth=4)
        right.plot(x[row], found[row], label=f"t = {t:.2f}")
    right.set(title="u, and the exact solution in grey", xlabel="x")
    right.legend()
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--save", type=Path, help="folder for burgers.png and burgers-loss.png")
    args = parser.parse_args()

    weights, losses = solve(args.steps)
    x, t = grid()
    found, want = predict(weights, x, t), exact(x, t)
    error = relative_error(found, want)
    print(f"after {args.steps} steps the relative error is {error:.2%}")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
        plot(args.save / "burgers.png", x, found, want, rows=(0, 25, 50, 100))
        plot_losses(args.save / "burgers-loss.png", losses)
    if args.steps >= 2000 and error > WANTED:
        raise SystemExit(f"that is more than {WANTED:.0%}")


if __name__ == "__main__":
    main()
