"""A driver without memory at each allocation: what must be true after each.

    python -m tests.proofs.allocation_faults [SCENARIO ...]     on PYKERNELS_TEST_COLUMN

Every scenario of the interrupts runs with an empty pool. The driver refuses the k-th buffer that
the run asks for, and the one that is asked for again after the pool was given back, for every k.
Then: the error is OutOfMemoryError; each output is as before or as after; nothing that was launched
before is lost; other threads go on; no memory leaks; the same run works afterwards.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pykernels as pk
from tests.runtime import interrupt_blocks as interrupt_blocks
from tests.runtime._helpers import refusal
from tests.runtime.interrupt_scenarios import SCENARIOS, Scenario, Skip, numbers
from tests.runtime.interrupts import Bench

__all__ = ["ALL", "Refusals", "report", "sweep"]


# -- calls that take many buffers -----------------------------------------------------------------


class Layers(Scenario, register=False):
    """Functions that allocate their results and temporaries."""

    def setup(self) -> None:
        self.x, self.w = self.dev.tensor(numbers(33, 64)), self.dev.tensor(numbers(96, 64))
        self.image = self.dev.tensor(numbers(2, 8, 9, 9))
        self.filters = self.dev.tensor(numbers(5, 8, 3, 3))

    def run(self) -> None:
        y = pk.linear(pk.layer_norm(self.x, 64), self.w, activation="gelu")
        z = pk.matmul(y.T, pk.softmax(y)).sum(0)
        picture = pk.max_pool2d(pk.conv2d(self.image.transpose(0, 1, 3, 2), self.filters), 2)
        self.result = z[:80] + picture.reshape(-1)[:80]


class Orders(Scenario, register=False):
    """Sorts, scans and sums by index, whose temporaries are many."""

    def setup(self) -> None:
        self.x = self.dev.tensor(numbers(5000))
        index = np.random.default_rng(0).integers(0, 100, 5000).astype("i4")
        self.index = self.dev.tensor(index)

    def run(self) -> None:
        order = pk.argsort(self.x)
        sums = pk.bincount(self.index, self.x, length=100)
        self.result = pk.cumsum(pk.take_along_axis(self.x, order))[:100] + sums


class Attention(Scenario, register=False):
    """Attention and its gradients."""

    def setup(self) -> None:
        self.q, self.k, self.v = (self.dev.tensor(numbers(1, 2, 40, 16) + i) for i in range(3))

    def run(self) -> None:
        with pk.Tape() as tape:
            y = pk.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)
            loss = pk.sum(y * y)
        dq, dk, dv = tape.gradient(loss, [self.q, self.k, self.v])
        self.result = dq + dk + dv


OWN = {c.__name__: c for c in (Layers, Orders, Attention)}
ALL: dict[str, Callable[[pk.Device], Scenario]] = {**SCENARIOS, **OWN}


# -- refusals -------------------------------------------------------------------------------------


class Refusals:
    """Counts the buffers that a device makes, and refuses one of them twice."""

    def __init__(self, dev: pk.Device) -> None:
        self.made = 0
        self._dev, self._raw = dev, dev.wgpu_device

    @contextmanager
    def at(self, k: int | None) -> Iterator[None]:
        """The k-th buffer made inside is refused, and so is the next one; None refuses none."""
        self.made = 0
        create: Callable[..., Any] = self._raw.create_buffer

        def refusing(**options: Any) -> Any:
            at, self.made = self.made, self.made + 1
            if k is not None and at in (k, k + 1):
                raise refusal(self._dev)
            return create(**options)

        self._raw.create_buffer = refusing
        try:
            yield
        finally:
            del self._raw.create_buffer


def attempt(bench: Bench, scenario: Scenario, refusals: Refusals, k: int) -> tuple[str, str]:
    """The outcome of a run whose k-th buffer is refused, and a traceback if it is wrong."""
    out = "nothing"
    try:
        bench.begin(scenario, k)
        bench.dev.trim()
        with refusals.at(k):
            try:
                scenario.run()
                scenario.finish()
            except pk.OutOfMemoryError:
                out = "OutOfMemoryError"
                scenario.drop()  # what was made before the call that failed
        bench.check(scenario, k, whole=out == "nothing")
    except BaseException:
        return out, traceback.format_exc()
    return out, ""


def sweep(bench: Bench, name: str) -> tuple[int, list[str]]:
    """The number of allocations of a scenario, and what was wrong after a refusal of one."""
    scenario = ALL[name](bench.dev)
    refusals = Refusals(bench.dev)
    for _ in range(2):
        bench.begin(scenario, 0)
        bench.dev.trim()
        with refusals.at(None):
            scenario.run()
            scenario.finish()
        bench.check(scenario, 0, whole=True)
    count, wrong = refusals.made, []
    for k in range(count):
        out, trace = attempt(bench, scenario, refusals, k)
        if trace:
            wrong.append(f"{name}, allocation {k} of {count}, {out}: {trace}")
            break  # what it left behind must not count against the next
    return count, wrong


def report(sweep: Callable[[str], tuple[int, list[str]]], faults: str) -> int:
    """Sweep the scenarios that the command names, or all, and print what each gave. Returns 1 if
    anything was wrong."""
    total, bad = 0, 0
    for name in sys.argv[1:] or ALL:
        try:
            count, wrong = sweep(name)
        except Skip as e:
            print(f"{name}: {e}")
            continue
        total, bad = total + count, bad + len(wrong)
        print(f"{name}: {count} {faults}, {len(wrong)} wrong", *wrong, sep="\n", flush=True)
    print(f"{total} {faults}, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(report(lambda name: sweep(Bench(), name), "allocations refused"))
