"""The host's cost of a function call: time, dispatches, buffers; and its bounds.

The functions are those of the sweep (`pykernels.bench.sweep`), at small sizes, tensors in and out,
warm. Host time is that of a call inside `batch()`. A call of one dispatch and one output may take
CALL; each further dispatch DISPATCH more, each further output OUTPUT: on the machine of the bench,
so on another one what counts is the place beside `softmax`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pykernels as pk
from pykernels.bench.sweep import Call, SweepCase, calls
from pykernels.bench.sweep.small import SMALL

__all__ = ["REASONS", "Price", "price", "prices", "table"]

CALL, DISPATCH, OUTPUT = 5e-6, 2e-6, 1e-6
ROUNDS, LOOP = 9, 30

# Functions above the bound, and why.
ANEW = "judges its arguments anew in each call: it has no short path yet"
REASONS = {
    **dict.fromkeys(("top_k", "resize", "sort", "argsort", "bincount"), ANEW),
    "cumsum": "along another axis than the last: makes two views",
    "gather": "keeps a slot for what it reports of its indices",
    "embedding": "keeps a slot for what it reports of its indices",
    "concatenate": "makes views, and copies each part by a call of its own",
    "permute": "makes a view, then copies it: two calls",
    "scatter_add": "copies, then sorts: keys, sort and sums are calls of their own",
    "nonzero": "reads how many there are before it can make its outputs: waits for the device",
}


@dataclass(frozen=True)
class Price:
    """Of one call: seconds of host time, dispatches, outputs, and new buffers."""

    name: str
    host: float
    dispatches: int
    outputs: int
    buffers: int

    @property
    def bound(self) -> float:
        return CALL + DISPATCH * (self.dispatches - 1) + OUTPUT * (self.outputs - 1)


def prices(dev: pk.Device, only: str = "") -> Iterator[Price]:
    """The price of each function whose name contains `only`."""
    for name in SMALL:
        if only in name:
            family = next(c.family for c in calls() if c.function == name)
            yield price(dev, SweepCase(Call(family, name, SMALL[name], "float32")))


def price(dev: pk.Device, case: SweepCase) -> Price:
    """Checked, warmed up, and the fastest of some loops."""
    loaded = case.load(dev, 0, 0)
    loaded.check()
    with dev.profile() as p:
        loaded()
    result = loaded.result
    times, made = [], dev.memory_stats().misses
    for _ in range(ROUNDS):
        with dev.batch():
            started = time.perf_counter()
            for _ in range(LOOP):
                loaded()
            times.append((time.perf_counter() - started) / LOOP)
        dev.sync()
    buffers = (dev.memory_stats().misses - made) // (ROUNDS * LOOP)
    outputs = len(result) if isinstance(result, tuple) else 1
    return Price(case.kernel, min(times), len(p.records), outputs, buffers)


def table(found: list[Price]) -> Iterator[str]:
    """The most expensive first; each function above its bound has its reason, or is unexplained."""
    base = next((p.host for p in found if p.name == "softmax"), 0.0)
    yield f"{'function':<14}{'host us':>10}{'x softmax':>11}{'dispatches':>12}{'outputs':>9}" + (
        f"{'new buffers':>13}{'bound us':>10}"
    )
    for p in sorted(found, key=lambda p: -p.host):
        beside = f"{p.host / base:.1f}" if base else "-"
        over = p.host > p.bound
        reason = f"  {REASONS.get(p.name, 'above, no reason is known')}" if over else ""
        yield f"{p.name:<14}{p.host * 1e6:>10.1f}{beside:>11}{p.dispatches:>12}{p.outputs:>9}" + (
            f"{p.buffers:>13}{p.bound * 1e6:>10.0f}{reason}"
        )
