"""Training steps beside torch's: wall clock, uncaptured and captured, outputs checked first.

    python -m bench.training [--adapter NAME] [--small] [--rounds N]

Each step is forward, gradients and Adam: the networks of examples/, the LeNet with 128 pictures,
the transformer with 4 layers 256 wide, 16 x 256 characters. Times are milliseconds of a step, the
median of rounds in which all columns are taken in turn, each a loop of steps with one sync at its
end; that of the GPU is one of captured steps, by timestamps. torch runs eagerly, with TF32 off, on
a GPU where it sees one. `--small` is for software drivers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pykernels as pk
from pykernels.bench.clock import GpuSample, HostSample

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "curves")]

import digits  # noqa: E402
import from_torch  # noqa: E402
import lenet  # noqa: E402
import torch  # noqa: E402
import transformer  # noqa: E402

RATE = 1e-3
CHECKED = 5  # steps whose losses must agree
SECONDS = 0.3  # of a loop
LARGE = transformer.Size(width=256, heads=4, hidden=1024, layers=4)
SMALL = transformer.Size(width=32, heads=2, hidden=64, layers=4)


class Problem(NamedTuple):
    """A network with a batch."""

    name: str
    weights: dict[str, Any]
    x: Any
    y: Any
    loss: Callable[..., pk.Tensor]
    torch_logits: Callable[..., Any]


def problems(small: bool) -> list[Problem]:
    """The two."""
    pictures, shown = digits.draw(digits.TRAINING, 8 if small else 128, seed=1)
    size = SMALL if small else LARGE
    pieces = np.random.default_rng(0).integers(
        len(transformer.CHARACTERS), size=(4, 17) if small else (16, 257), dtype=np.int32
    )
    batch, context = pieces[:, 1:].shape
    return [
        Problem(
            f"LeNet, {len(pictures)} pictures", lenet.initial_weights(), pictures, shown,
            lenet.loss, from_torch.lenet_logits,
        ),
        Problem(
            f"transformer, {batch} x {context}, {size.layers} layers, {size.width} wide",
            transformer.initial_weights(size), pieces[:, :-1], pieces[:, 1:],
            partial(transformer.loss, size=size),
            partial(from_torch.transformer_logits, size=size),
        ),
    ]  # fmt: skip


class Ours:
    """A step that gives its loss, as a tensor."""

    def __init__(self, dev: pk.Device, p: Problem) -> None:
        self.problem = p
        self.flat, views = pk.flatten_parameters([dev.tensor(w) for w in p.weights.values()])
        self.weights = dict(zip(p.weights, views, strict=True))
        self.optimizer = pk.Adam(self.flat, lr=RATE)
        self.x, self.y = dev.tensor(p.x), dev.tensor(p.y)

    def __call__(self) -> pk.Tensor:
        with pk.Tape() as tape:
            tape.watch(self.flat)
            loss = self.problem.loss(self.weights, self.x, self.y)
        self.optimizer.step(tape.gradient(loss, [self.flat]))
        return loss


def torch_step(p: Problem) -> Callable[[], Any]:
    """The same for torch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    w = {n: torch.tensor(a, device=device, requires_grad=True) for n, a in p.weights.items()}
    x, y = torch.tensor(p.x, device=device), torch.tensor(p.y, device=device).long().ravel()
    optimizer = torch.optim.Adam(w.values(), lr=RATE)

    def step() -> Any:
        optimizer.zero_grad()
        found = p.torch_logits(w, x)
        loss = torch.nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def check(name: str, found: list[float], want: list[float]) -> None:
    """Rounding changes such losses by about a millionth (examples/curves), a wrong gradient by far
    more."""
    if not np.allclose(found, want, rtol=1e-5):
        raise SystemExit(f"{name}: the losses are {found} but torch's are {want}")


def torch_loop(step: Callable[[], object]) -> Callable[[int], float]:
    """n steps and the sync behind them, by the host's clock."""
    sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None

    def loop(n: int) -> float:
        sync()
        start = time.perf_counter()
        for _ in range(n):
            step()
        sync()
        return time.perf_counter() - start

    return loop


def measure(dev: pk.Device, p: Problem, rounds: int) -> None:
    """Check, time, and print a row."""
    theirs = torch_step(p)
    want = [theirs().item() for _ in range(CHECKED)]
    eager, captured = Ours(dev, p), Ours(dev, p)
    check(f"{p.name}, uncaptured", [eager().item() for _ in range(CHECKED)], want)
    with dev.capture() as program:
        loss = captured()
    losses = []
    for _ in range(CHECKED):
        program()
        losses.append(loss.item())
    check(f"{p.name}, captured", losses, want)

    loops = [
        HostSample(dev, eager),
        HostSample(dev, program),
        GpuSample(dev, program),
        torch_loop(theirs),
    ]
    counts = [max(1, int(SECONDS * 3 / loop(3))) for loop in loops]
    times: list[list[float]] = [[] for _ in loops]
    for _ in range(rounds):
        for found, loop, count in zip(times, loops, counts, strict=True):
            found.append(1e3 * loop(count) / count)
    uncaptured, captured, gpu, other = map(statistics.median, times)
    print(
        f"{p.name:45} {len(program):10} {uncaptured:10.3f} {captured:10.3f} {gpu:10.3f} "
        f"{other:10.3f} {other / uncaptured:8.2f} {other / captured:8.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", help="part of the name of the adapter")
    parser.add_argument("--small", action="store_true", help="sizes for a software driver")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    with pk.Device(adapter=args.adapter) as dev:
        other = torch.cuda.get_device_name() if torch.cuda.is_available() else "its CPU"
        print(f"{dev.info['name']}, torch {torch.__version__} on {other}; ms a step\n")
        print(f"{'':45} dispatches uncaptured   captured        GPU      torch  x torch  captured")
        for p in problems(args.small):
            measure(dev, p, args.rounds)


if __name__ == "__main__":
    main()
