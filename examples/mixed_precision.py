"""A transformer of GPT-2's shape learns pykernels' documentation in mixed precision.

    pip install matplotlib
    python examples/mixed_precision.py [--size small] [--steps N] [--save FOLDER]

Weights, moments and norms are float32; products and attention compute in float16. The loss is
multiplied by a factor, so that small gradients do not become 0 in float16. If gradients are
infinite, the step changes no weight and halves the factor; the captured step decides this on the
device. The network predicts characters. The default of 12 layers of width 768 needs a GPU; `--size
small` runs on a CPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import transformer
from matplotlib.figure import Figure
from transformer import Size

import pykernels as pk

Array = np.ndarray[Any, Any]


class Run(NamedTuple):
    """A network, its batches, and the highest learning rate."""

    size: Size
    batch: int
    context: int
    rate: float


RUNS = {
    "gpt2": Run(Size(width=768, heads=12, hidden=3072, layers=12), 8, 128, 3e-4),
    "small": Run(Size(width=64, heads=2, hidden=128, layers=2), 8, 32, 3e-3),
}
DECAY, LARGEST_NORM = 0.1, 1.0


class Training:
    """A captured step on batches of a text. `step` returns the loss and the factor of the loss.

    With `half` it computes in float16; otherwise in float32, with a factor of 1.
    """

    def __init__(
        self, run: Run, steps: int, half: bool = True, scale: float = 2.0**15, seed: int = 0
    ) -> None:
        device, arrays = pk.default_device(), transformer.initial_weights(run.size, seed)
        self.run, self.half, self._rng = run, half, np.random.default_rng(seed)
        self.weights = {name: device.tensor(a) for name, a in arrays.items()}
        rate = pk.Schedule.cosine(run.rate, steps=steps, warmup=max(steps // 10, 1))
        params = list(self.weights.values())
        self.optimizer = pk.AdamW(
            [
                {"params": [p for p in params if p.ndim > 1], "weight_decay": DECAY},
                {"params": [p for p in params if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=rate,
        )
        self.scale = pk.LossScale(scale if half else 1.0, interval=100 if half else 1 << 30)
        shape = run.batch, run.context
        self.x, self.y = device.zeros(shape, "int32"), device.zeros(shape, "int32")
        self.loss()  # this creates tables, which a capture cannot do
        with device.capture() as self._step:
            self._loss = self._train()

    def loss(self) -> pk.Tensor:
        """The mean cross entropy of the batch in x and y."""
        with pk.autocast("float16", enabled=self.half):
            return transformer.loss(self.weights, self.x, self.y, self.run.size)

    def _train(self) -> pk.Tensor:
        params = [p for group in self.optimizer.groups for p in group._params]
        with pk.Tape() as tape:
            loss = self.loss()
            scaled = self.scale.scale(loss)
        grads, overflow = self.scale.unscale(tape.gradient(scaled, params))
        pk.clip_grad_norm(grads, LARGEST_NORM)
        self.optimizer.step(grads, skip=overflow)
        self.scale.update(overflow)
        return loss

    def step(self, text: Array) -> tuple[float, float]:
        """Train on random pieces of the text. Returns the loss and the factor before the step."""
        first = self._rng.integers(len(text) - self.run.context, size=(self.run.batch, 1))
        pieces = text[first + np.arange(self.run.context + 1)]
        self.x.write(pieces[:, :-1])
        self.y.write(pieces[:, 1:])
        factor = self.scale.value.item()
        self._step()
        return self._loss.item(), factor


def plot(path: Path, losses: list[float], factors: list[float], bigram: float) -> None:
    """Draws the loss and the factor of each step, and the loss of a bigram model."""
    figure = Figure(figsize=(6, 4), layout="tight")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot(losses, linewidth=1)
    above.axhline(bigram, label="bigrams", linestyle="dashed", color="black")
    above.set(ylabel="cross entropy", ylim=0)
    above.legend()
    below.semilogy(factors, base=2)
    below.set(xlabel="step", ylabel="factor")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(RUNS), default="gpt2")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--save", type=Path, help="folder for mixed-precision.png")
    args = parser.parse_args()

    learned, held_out = transformer.read_docs()
    bigram = transformer.bigram_entropy(learned, held_out)
    training = Training(RUNS[args.size], args.steps)
    losses: list[float] = []
    factors: list[float] = []
    for n in range(args.steps):
        loss, factor = training.step(learned)
        losses.append(loss)
        factors.append(factor)
        if n % 20 == 0:
            print(f"step {n}: cross entropy {loss:.3f}, factor {factor:.0f}", flush=True)
    print(f"last 20 steps: {np.mean(losses[-20:]):.3f}, bigrams {bigram:.3f}")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
        plot(args.save / "mixed-precision.png", losses, factors, bigram)
    if not np.isfinite(losses[-1]):
        raise SystemExit("the loss is not finite")


if __name__ == "__main__":
    main()
