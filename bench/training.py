"""Compares the times of training steps with torch's times, for single calls and for captured steps,
by the host's clock. Outputs are checked first.

    python -m bench.training [--adapter NAME] [--small] [--rounds N] [--only TEXT]

A step is the forward pass, the gradients and Adam. The networks are those of examples/: the LeNet
with 128 pictures; the transformer with 4 layers of width 256 and 16 x 256 characters; and the
transformer with GPT-2's shape and vocabulary, and 8 x 512 or 1 x 128 tokens. Times are milliseconds
of a step: the median over rounds that measure all columns in turn, each as a loop of steps with one
sync at the end. GPU time is measured by timestamps, for captured steps. torch runs with TF32 off,
on a GPU if there is one. It runs eagerly; on a GPU it also runs as a CUDA graph, and with autocast
to float16 and a scaled loss. Without torch its columns are empty, and nothing is compared. Memory
is in MiB. For calls it is the peak, including memory that waits for reuse, and the smallest budget
in which they run. For a captured step it is the memory in use, and the smallest memory that the
lifetimes of its tensors allow. For torch it is the peaks of eager steps, allocated and reserved.
`--small` is for software drivers.
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
import lenet  # noqa: E402
import transformer  # noqa: E402

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]
else:
    import from_torch

RATE = 1e-3
CHECKED = 5  # number of steps in which the losses must agree
SECONDS = 0.3  # seconds of a loop
MIB = 2**20
LARGE = transformer.Size(width=256, heads=4, hidden=1024, layers=4)
SMALL = transformer.Size(width=32, heads=2, hidden=64, layers=4)
GPT2 = transformer.Size(width=768, heads=12, hidden=3072, layers=12)
GPT2_SMALL = transformer.Size(width=96, heads=12, hidden=192, layers=12)
COLUMNS = (
    "dispatches", "each call", "captured", "GPU", "torch", "graph", "autocast", "x torch",
    "x graph", "MiB calls", "budget", "captured", "least", "torch", "reserved",
)  # fmt: skip


class Problem(NamedTuple):
    """A network with a batch."""

    name: str
    weights: dict[str, Any]
    x: Any
    y: Any
    loss: Callable[..., pk.Tensor]
    torch_logits: Callable[..., Any]


def tied(w: dict[str, Any]) -> dict[str, Any]:
    """The weights, with the embedding also as the output layer, as is usual for GPT-2."""
    return {**w, "head": w["characters"]}


def gpt2_loss(
    w: dict[str, pk.Tensor], x: pk.Tensor, y: pk.Tensor, size: transformer.Size
) -> pk.Tensor:
    """The mean cross entropy of all tokens."""
    found = transformer.logits(tied(w), x, size)
    return pk.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))


def gpt2_logits(w: dict[str, Any], x: Any, size: transformer.Size) -> Any:
    """The same network in torch."""
    return from_torch.transformer_logits(tied(w), x, size)


def gpt2(small: bool, batch: int, context: int) -> Problem:
    """The transformer of the example, with the shape and the vocabulary of GPT-2."""
    size, tokens = (GPT2_SMALL, 199) if small else (GPT2, 50_257)
    weights = transformer.initial_weights(size)
    del weights["head"]
    rng = np.random.default_rng(0)
    weights["characters"] = 0.02 * rng.standard_normal((tokens, size.width), np.float32)
    pieces = rng.integers(tokens, size=(batch, context + 1), dtype=np.int32)
    return Problem(
        f"transformer {size.layers} x {size.width}, {batch} x {context} tokens", weights,
        pieces[:, :-1], pieces[:, 1:], partial(gpt2_loss, size=size),
        partial(gpt2_logits, size=size),
    )  # fmt: skip


def characters(small: bool) -> Problem:
    """A larger version of the example's transformer."""
    size, batch, context = (SMALL, 4, 16) if small else (LARGE, 16, 256)
    pieces = np.random.default_rng(0).integers(
        len(transformer.CHARACTERS), size=(batch, context + 1), dtype=np.int32
    )
    return Problem(
        f"transformer {size.layers} x {size.width}, {batch} x {context} characters",
        transformer.initial_weights(size), pieces[:, :-1], pieces[:, 1:],
        partial(transformer.loss, size=size),
        lambda w, x: from_torch.transformer_logits(w, x, size),
    )  # fmt: skip


def problems(small: bool) -> list[Callable[[], Problem]]:
    """The four problems. Each problem is created when its turn comes, because the large problems
    take gigabytes."""

    def pictures() -> Problem:
        found, shown = digits.draw(digits.TRAINING, 8 if small else 128, seed=1)
        return Problem(
            f"LeNet, {len(found)} pictures", lenet.initial_weights(), found, shown, lenet.loss,
            lambda w, x: from_torch.lenet_logits(w, x),
        )  # fmt: skip

    shapes = ((2, 32), (1, 16)) if small else ((8, 512), (1, 128))
    return [
        pictures, partial(characters, small), *(partial(gpt2, small, *shape) for shape in shapes),
    ]  # fmt: skip


class Ours:
    """A training step, which returns its loss as a tensor."""

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
        self.optimizer.step(tape.gradient(loss, [self.flat], release=True))
        return loss


class Torch:
    """The same step in torch. With `half`, it uses autocast to float16 and a scaled loss."""

    def __init__(self, p: Problem, half: bool = False, capturable: bool = False) -> None:
        self.problem, self.half = p, half
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.w = {
            n: torch.tensor(a, device=self.device, requires_grad=True) for n, a in p.weights.items()
        }
        self.x = torch.tensor(p.x, device=self.device)
        self.y = torch.tensor(p.y, device=self.device).long().ravel()
        self.optimizer = torch.optim.Adam(self.w.values(), lr=RATE, capturable=capturable)
        self.scaler = torch.amp.GradScaler(self.device, enabled=half)

    def __call__(self) -> Any:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.float16, enabled=self.half):
            found = self.problem.torch_logits(self.w, self.x)
            loss = torch.nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    @classmethod
    def graph(cls, p: Problem) -> Callable[[], object]:
        """A function that replays a CUDA graph of a step."""
        step, stream = cls(p, capturable=True), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        found = torch.cuda.CUDAGraph()
        with torch.cuda.graph(found):
            step()

        def replay(kept: object = step) -> None:
            """Replay the graph. It uses the weights and moments of `kept`, so `kept` must stay
            alive."""
            found.replay()

        return replay


def check(name: str, found: list[float], want: list[float]) -> None:
    """Compare the losses. Rounding changes the losses by about a millionth (examples/curves); a
    wrong gradient changes them by far more."""
    if not np.allclose(found, want, rtol=1e-5):
        raise SystemExit(f"{name}: the losses are {found} but others are {want}")


def torch_loop(step: Callable[[], object]) -> Callable[[int], float]:
    """A function of n: the seconds of n steps and the sync after them, by the host's clock."""
    sync = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None

    def loop(n: int) -> float:
        sync()
        start = time.perf_counter()
        for _ in range(n):
            step()
        sync()
        return time.perf_counter() - start

    return loop


def least_budget(dev: pk.Device, step: Callable[[], pk.Tensor]) -> int:
    """The smallest memory budget in which steps run, in bytes, exact to 1 %: the most memory that a
    step uses at a time."""
    stats = dev.memory_stats()
    low, high = stats.current, stats.peak
    while high - low > high // 100:
        budget = (low + high) // 2
        dev.trim()
        dev.set_memory_budget(budget)
        try:
            for _ in range(2):
                step().item()
            high = budget
        except pk.OutOfMemoryError:
            low = budget
        dev.set_memory_budget(None)
    return high


def taken(adapter: str | None, p: Problem) -> tuple[float, ...]:
    """MiB on a separate device. For steps as calls: the peak, and the smallest budget. For a
    captured step: the memory in use, and the smallest memory that the lifetimes of its tensors
    allow."""
    with pk.Device(adapter=adapter) as dev:
        step = Ours(dev, p)
        for _ in range(2):
            step().item()
        peak = dev.memory_stats().peak
        budget = least_budget(dev, step)
        dev.trim()
        with dev.capture() as program:
            step()
        program()
        dev.sync()
        dev.trim()
        used, memory = dev.memory_stats().current, program.memory()
        least = used - memory.nbytes + memory.bound
        return peak / MIB, budget / MIB, used / MIB, least / MIB


def torch_taken(p: Problem) -> tuple[float | None, float | None]:
    """MiB: torch's peaks of eager steps, allocated and reserved; None without a GPU."""
    if torch is None or not torch.cuda.is_available():
        return None, None
    torch.cuda.empty_cache()
    before, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    step = Torch(p)
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    tensors = torch.cuda.max_memory_allocated() - before
    return tensors / MIB, (torch.cuda.max_memory_reserved() - reserved) / MIB


def measure(dev: pk.Device, p: Problem, rounds: int, memory: tuple[float | None, ...]) -> None:
    """Check a problem, time it, and print its row."""
    eager, captured = Ours(dev, p), Ours(dev, p)
    losses = [eager().item() for _ in range(CHECKED)]
    theirs = None if torch is None else Torch(p)
    if theirs is not None:
        check(f"{p.name}, each call", losses, [theirs().item() for _ in range(CHECKED)])
    with dev.capture() as program:
        loss = captured()
    replayed = []
    for _ in range(CHECKED):
        program()
        replayed.append(loss.item())
    check(f"{p.name}, captured", replayed, losses)

    loops: dict[str, Callable[[int], float]] = {
        "calls": HostSample(dev, eager),
        "captured": HostSample(dev, program),
        "GPU": GpuSample(dev, program),
    }
    if theirs is not None:
        loops["torch"] = torch_loop(theirs)
        if torch.cuda.is_available():
            loops["graph"] = torch_loop(Torch.graph(p))
            loops["autocast"] = torch_loop(Torch(p, half=True))
    counts = {name: max(1, int(SECONDS * 3 / loop(3))) for name, loop in loops.items()}
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, loop in loops.items():
            times[name].append(1e3 * loop(counts[name]) / counts[name])
    ms = {name: statistics.median(found) for name, found in times.items()}

    def ratio(other: str, ours: str) -> float | None:
        return ms[other] / ms[ours] if other in ms else None

    columns = ("calls", "captured", "GPU", "torch", "graph", "autocast")
    row = [
        *(ms.get(name) for name in columns), ratio("torch", "calls"), ratio("graph", "captured"),
    ]  # fmt: skip
    cells = [f"{len(program)}", *(_cell(n, 3) for n in row), *(_cell(n, 1) for n in memory)]
    print(f"{p.name:40}" + "".join(f"{cell:>11}" for cell in cells), flush=True)


def _cell(n: float | None, digits: int) -> str:
    return "-" if n is None else f"{n:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", help="part of the name of the adapter")
    parser.add_argument("--small", action="store_true", help="sizes for a software driver")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="a part of the names of the rows")
    args = parser.parse_args()
    with pk.Device(adapter=args.adapter) as dev:
        other = "no torch"
        if torch is not None:
            where = torch.cuda.get_device_name() if torch.cuda.is_available() else "its CPU"
            other = f"torch {torch.__version__} on {where}"
        print(f"{dev.info['name']}, {other}; ms a step, MiB\n")
        print(" " * 40 + "".join(f"{name:>11}" for name in COLUMNS))
        for make in problems(args.small):
            p = make()
            if args.only in p.name:
                measure(dev, p, args.rounds, (*taken(args.adapter, p), *torch_taken(p)))
                dev.trim()


if __name__ == "__main__":
    main()
