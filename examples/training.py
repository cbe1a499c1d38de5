"""Shared code of the training examples: a captured step, a loop with a progress bar, a plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError as e:
    said = f"curves are drawn by {e.name}, which is missing: pip install {e.name}"
    raise SystemExit(said) from e

import pykernels as pk

Array = np.ndarray[Any, Any]
Weights = dict[str, pk.Tensor]


class Training:
    """Weights, and a step of Adam that is captured once and then replayed for each batch.

    `loss(weights, *inputs)` computes the loss of a batch; all batches have the shapes and dtypes of
    `inputs`.
    """

    def __init__(
        self, weights: dict[str, Array], loss: Callable[..., pk.Tensor], *inputs: Array
    ) -> None:
        device = pk.default_device()
        flat, views = pk.flatten_parameters(list(weights.values()))
        self.weights = dict(zip(weights, views, strict=True))
        self._inputs = [device.tensor(x) for x in inputs]
        self._rate = device.zeros(())  # a number that changes between replays must be a tensor
        optimizer = pk.Adam(flat, lr=self._rate)
        loss(self.weights, *self._inputs)  # this creates tables, which a capture cannot do
        with device.capture() as self._step:
            with pk.Tape() as tape:
                tape.watch(flat)
                self._loss = loss(self.weights, *self._inputs)
            optimizer.step(tape.gradient(self._loss, [flat]))

    def step(self, batch: Sequence[Array], rate: float) -> float:
        """Update the weights. Returns the loss of the batch before the update."""
        for tensor, values in zip(self._inputs, batch, strict=True):
            tensor.write(values)
        pk.kernels.fill(self._rate, rate)
        self._step()
        return self._loss.item()

    def run(self, batches: Iterable[Sequence[Array]], rates: Sequence[float]) -> list[float]:
        """Take a step for each batch, with a progress bar. Returns the losses."""
        losses: list[float] = []
        with click.progressbar(
            batches,
            length=len(rates),
            label="training",
            item_show_func=lambda _: f"loss {losses[-1]:.3f}" if losses else None,
        ) as bar:
            for batch, rate in zip(bar, rates, strict=True):
                losses.append(self.step(batch, rate))
        return losses


def train(
    weights: dict[str, Array],
    loss: Callable[..., pk.Tensor],
    batches: Sequence[Sequence[Array]],
    rates: Sequence[float],
) -> tuple[Weights, list[float]]:
    """The weights after a step for each batch, and the losses. Prints the time that training
    took."""
    start = time.perf_counter()
    training = Training(weights, loss, *batches[0])
    losses = [training.step(batches[0], rates[0])]
    compiled = time.perf_counter() - start
    losses += training.run(batches[1:], rates[1:])
    print(
        f"trained {len(losses)} steps on {pk.default_device().info['name']} in "
        f"{time.perf_counter() - start:.1f} s, of which compilation and the first step took "
        f"{compiled:.1f} s"
    )
    return training.weights, losses


def rates(steps: int, height: float, warm_up: int) -> Array:
    """The learning rate of each step: it rises to its maximum, then falls to 0."""
    step = np.arange(steps)
    return height * np.minimum(1, (step + 1) / warm_up) * (1 - step / steps)


def plot_losses(
    path: Path, losses: Sequence[float], levels: dict[str, float] | None = None
) -> None:
    """Draws the loss of each step, its mean over twenty steps, and levels for comparison."""
    figure = Figure(figsize=(6, 3), layout="tight")
    axes = figure.subplots()
    axes.plot(losses, linewidth=0.5, color="0.6")
    window = min(20, len(losses))
    means = np.convolve(losses, np.ones(window) / window, "valid")
    axes.plot(np.arange(len(means)) + window - 1, means, label=f"loss, mean of {window} steps")
    for name, level in (levels or {}).items():
        axes.axhline(level, label=name, linestyle="dashed", color="black")
    axes.set(xlabel="step", ylabel="cross entropy", ylim=0)
    axes.legend()
    figure.savefig(path, dpi=100)
