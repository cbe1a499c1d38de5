"""A small LeNet learns to read digits of fonts that it never saw.

    pip install matplotlib
    python examples/lenet.py [--save FOLDER]

It trains once on each of 10,000 pictures (examples/digits.py), and then reads 97 % or more of 2,000
pictures of other fonts. It has fewer channels than LeNet-5, so a CPU trains it in a minute.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import digits
import numpy as np
from matplotlib.figure import Figure
from training import Weights, plot_losses, rates, train

import pykernels as pk

Array = np.ndarray[Any, Any]

PICTURES, BATCH = 10_000, 25
STEPS = PICTURES // BATCH
RATE, WARM_UP = 8e-3, 20  # the learning rate rises for WARM_UP steps, and then falls to 0
WANTED = 0.97


def initial_weights(seed: int = 0) -> dict[str, Array]:
    """Initial weights: uniform weights that keep the variance from layer to layer, and biases of
    0."""
    rng = np.random.default_rng(seed)
    shapes = {"conv1": (4, 1, 5, 5), "conv2": (16, 4, 5, 5), "hidden": (120, 256), "out": (10, 120)}
    weights = {}
    for name, shape in shapes.items():
        bound = np.sqrt(3 / np.prod(shape[1:]))
        weights[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return weights


def batches(seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Yields the pictures and digits of each step."""
    pictures, shown = digits.draw(digits.TRAINING, PICTURES, seed=1)
    for chosen in np.random.default_rng(seed).permutation(PICTURES).reshape(STEPS, BATCH):
        yield pictures[chosen], shown[chosen]


def logits(w: Weights, x: pk.Tensor) -> pk.Tensor:
    """Logits (N, 10) of pictures (N, 1, 28, 28)."""
    x = pk.conv2d(x, w["conv1"], w["conv1.bias"])
    x = pk.max_pool2d(pk.relu(x), 2)
    x = pk.conv2d(x, w["conv2"], w["conv2.bias"])
    x = pk.max_pool2d(pk.relu(x), 2)
    x = pk.linear(x.reshape(len(x), 256), w["hidden"], w["hidden.bias"])
    return pk.linear(pk.relu(x), w["out"], w["out.bias"])


def loss(w: Weights, x: pk.Tensor, y: pk.Tensor) -> pk.Tensor:
    """The mean cross entropy."""
    return pk.cross_entropy(logits(w, x), y)


def read(w: Weights, pictures: Array) -> Array:
    """The digits that the network reads, batch by batch."""
    parts = np.split(pictures, range(BATCH, len(pictures), BATCH))
    device = w["conv1"].device
    return np.concatenate([logits(w, device.tensor(x)).numpy().argmax(-1) for x in parts])


def plot_mistakes(path: Path, pictures: Array, shown: Array, seen: Array) -> None:
    """Draws up to 40 pictures that the network reads wrongly."""
    wrong = np.flatnonzero(shown != seen)[:40]
    figure = Figure(figsize=(10, 5), layout="tight")
    for n, axes in zip(wrong, figure.subplots(4, 10).flat, strict=False):
        axes.imshow(pictures[n, 0], cmap="gray_r", interpolation="nearest")
        axes.set_title(f"{shown[n]} taken for {seen[n]}", fontsize="small")
    for axes in figure.axes:
        axes.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, help="folder for loss.png and mistakes.png")
    args = parser.parse_args()

    start = time.perf_counter()
    steps = list(batches())
    pictures, shown = digits.draw(digits.HELD_OUT, 2000, seed=2)
    print(f"drew the digits in {time.perf_counter() - start:.1f} s")

    weights, losses = train(initial_weights(), loss, steps, rates(STEPS, RATE, WARM_UP))
    seen = read(weights, pictures)
    right = float((seen == shown).mean())
    print(f"reads {right:.2%} of {len(shown)} digits of fonts that it never saw")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
        plot_losses(args.save / "loss.png", losses)
        plot_mistakes(args.save / "mistakes.png", pictures, shown, seen)
    if right < WANTED:
        raise SystemExit(f"that is less than {WANTED:.0%}")


if __name__ == "__main__":
    main()
