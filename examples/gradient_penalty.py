"""A generator learns points in the plane from a critic with a gradient penalty: WGAN-GP.

    pip install matplotlib
    python examples/gradient_penalty.py [--steps N] [--save FOLDER]

The points lie around eight places on a circle. The critic's slope is held near 1 between real and
generated points (Gulrajani et al., 2017): its loss contains its own gradient, so training needs
second derivatives. All points are drawn on the device; each replay draws new points.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure

import pykernels as pk

Array = np.ndarray[Any, Any]

# number of places on a circle of radius 1, and the spread of points around each place
MODES, SPREAD = 8, 0.05
NOISE, WIDTH = 4, 64
BATCH, CRITICS = 256, 5  # points in a batch; critic steps for each step of the generator
PENALTY = 1.0
RATE, BETAS = 1e-3, (0.0, 0.9)


class Network:
    """A network of three layers, with the weights in one flat tensor."""

    def __init__(self, inputs: int, outputs: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        sizes = [inputs, WIDTH, WIDTH, outputs]
        arrays: list[Array] = []
        for n, m in pairwise(sizes):
            bound = np.sqrt(3 / n)
            arrays += [rng.uniform(-bound, bound, (m, n)), np.zeros(m)]
        self.flat, self._views = pk.flatten_parameters([a.astype(np.float32) for a in arrays])
        self.optimizer = pk.Adam(self.flat, lr=RATE, betas=BETAS)

    def __call__(self, x: pk.Tensor) -> pk.Tensor:
        views = self._views
        for n in (0, 2):
            x = pk.leaky_relu(pk.linear(x, views[n], views[n + 1]), 0.2)
        return pk.linear(x, views[4], views[5])

    def descend(self, loss: Callable[[], pk.Tensor]) -> pk.Tensor:
        """A step of Adam. Returns the loss before the step."""
        with pk.Tape() as tape:
            tape.watch(self.flat)
            value = loss()
        self.optimizer.step(tape.gradient(value, self.flat))
        return value


class Game:
    """Generator and critic, and a captured step of each."""

    def __init__(self, batch: int = BATCH) -> None:
        device = pk.default_device()
        device.seed(0)
        angle = 2 * np.pi * np.arange(MODES) / MODES
        places = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
        self._places, self._batch = device.tensor(places), batch
        self.generator, self.critic = Network(NOISE, 2, seed=1), Network(2, 1, seed=2)
        self.real()  # this creates the device's random state, which a capture cannot do
        with device.capture() as self._critic_step:
            self._critic_loss = self.critic.descend(self._loss_of_critic)
        with device.capture() as self._generator_step:
            self.generator.descend(lambda: -pk.mean(self.critic(self.made())))

    def real(self) -> pk.Tensor:
        """Draws points of the data."""
        places = pk.embedding(self._places, pk.randint(0, MODES, (self._batch,)))
        return places + SPREAD * pk.randn(places.shape)

    def made(self) -> pk.Tensor:
        """Draws points of the generator."""
        return self.generator(pk.randn((self._batch, NOISE)))

    def slopes(self, points: pk.Tensor) -> pk.Tensor:
        """The length of the critic's gradient at each point."""
        gradient = pk.grad(lambda p: pk.sum(self.critic(p)))(points)
        return pk.sqrt(pk.sum(gradient * gradient, axis=1) + 1e-12)

    def between(self) -> tuple[pk.Tensor, pk.Tensor, pk.Tensor]:
        """Draws real points, generated points, and, for each pair of them, a random point on the
        line between them."""
        real, made = self.real(), pk.stop_gradient(self.made())
        share = pk.rand((self._batch, 1))
        return real, made, real + share * (made - real)

    def _loss_of_critic(self) -> pk.Tensor:
        real, made, points = self.between()
        penalty = pk.mean(pk.square(self.slopes(points) - 1.0))
        return pk.mean(self.critic(made)) - pk.mean(self.critic(real)) + PENALTY * penalty

    def step(self) -> None:
        """Takes some steps of the critic, and one step of the generator."""
        for _ in range(CRITICS):
            self._critic_step()
        self._generator_step()

    @property
    def distance(self) -> float:
        """The critic's estimate of Wasserstein's distance minus the penalty, before the step."""
        return -self._critic_loss.item()


def energy_distance(a: Array, b: Array) -> float:
    """The energy distance of two sets of points; it is 0 if both have the same distribution
    (Szekely and Rizzo)."""

    def mean(a: Array, b: Array) -> float:
        return float(np.linalg.norm(a[:, None] - b, axis=-1).mean())

    return 2 * mean(a, b) - mean(a, a) - mean(b, b)


def play(steps: int, game: Game) -> list[float]:
    """Take the steps with a progress bar. Returns the critic's distances."""
    distances: list[float] = []
    with click.progressbar(range(steps), label="training") as bar:
        for _ in bar:
            game.step()
            distances.append(game.distance)
    return distances


def plot(path: Path, game: Game, distances: Sequence[float]) -> None:
    """Draws real and generated points over the critic's values, and the distance over the steps."""
    figure = Figure(figsize=(10, 4.4), layout="tight")
    left, right = figure.subplots(1, 2)
    x, y = np.meshgrid(np.linspace(-1.6, 1.6, 80), np.linspace(-1.6, 1.6, 80))
    points = np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32)
    values = game.critic(pk.tensor(points)).numpy().reshape(x.shape)
    left.contourf(x, y, values, levels=20, cmap="Greys_r", alpha=0.6)
    for name, found in (("real", game.real()), ("made", game.made())):
        left.scatter(*found.numpy().T, s=6, label=name)
    left.set(title="points, over the critic's values", aspect="equal")
    left.legend(loc="upper right")
    right.plot(distances, linewidth=0.7)
    right.set(title="the critic's distance", xlabel="step of the generator", ylim=0)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="of the generator")
    parser.add_argument("--save", type=Path, help="folder for gradient-penalty.png")
    args = parser.parse_args()

    game = Game()
    before = energy_distance(game.made().numpy(), game.real().numpy())
    distances = play(args.steps, game)
    after = energy_distance(game.made().numpy(), game.real().numpy())
    print(f"energy distance from the real points: {before:.4f} before, {after:.4f} after")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
        plot(args.save / "gradient-penalty.png", game, distances)
    if after > before / 4:
        raise SystemExit("that is more than a quarter")


if __name__ == "__main__":
    main()
