"""Real SIGINTs, from another process and at any microsecond, in a loop of calls.

    python -m tests.runtime.interrupt_signals CALLS ROUNDS SEED

After each one the checks of `interrupts`. The last line of the output counts the rounds; an error
ends the process.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np

import pykernels as pk
from tests.runtime.interrupt_scenarios import Scenario, numbers
from tests.runtime.interrupts import Bench, Unraisable

__all__ = ["CALLS"]

# Waits for as many seconds as a line says, and sends the signal to its parent.
_SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    end = time.perf_counter() + float(line)
    while time.perf_counter() < end:
        pass
    os.kill(os.getppid(), signal.SIGINT)
"""


class Mixed(Scenario, register=False):
    """Calls of all kinds, which may be repeated."""

    def setup(self) -> None:
        dev = self.dev
        self.x, self.long = dev.tensor(numbers(8, 16)), dev.tensor(numbers(2, 30_000))
        self.index = dev.tensor(np.array([3, 1, 7, 0], "i4"))
        self.a, self.b, self.c = (
            self.output((8, 16)),
            self.output((4, 16)),
            self.output((2, 30_000)),
        )
        self.d, self.e = self.output((8, 16)), self.output((8, 16))
        self.f, self.array = self.output((8, 16)), np.zeros((8, 16), "f4")
        self.given = numbers(9, 16)[1:]

    def run(self) -> None:
        dev = self.dev
        pk.kernels.softmax(self.x, self.a)
        pk.kernels.get_rows(self.x, self.index, self.b)
        pk.kernels.softmax(self.long, self.c)
        with dev.batch():
            pk.kernels.neg(self.x, self.d)
            pk.kernels.add(self.x, self.x, self.e)
        dev.full((3, 5), 2)
        t = pk.softmax(dev.tensor(self.given))
        dev.flush()
        t[::2, ::2].numpy()
        with dev.profile():
            pk.neg(t)
        t.write(self.given)
        dev.sync()
        t[::-1].write(self.given)
        dev.trim()
        with dev.capture(x=self.x) as program:
            pk.kernels.neg(pk.softmax(self.x), self.f)
        program()
        program(x=self.x)
        self.a.numpy(out=self.array)


class Reads(Scenario, register=False):
    """A loop of reads."""

    def setup(self) -> None:
        self.x = self.dev.tensor(numbers(64, 64))

    def run(self) -> None:
        for _ in range(10):
            self.x.numpy()


CALLS = {"mixed": Mixed, "reads": Reads}


def send(bench: Bench, scenario: Scenario, k: int, sender: Any, delay: float) -> bool:
    """One round: did the interrupt come out?"""
    swallowed = Unraisable()
    sys.unraisablehook = swallowed
    bench.begin(scenario, k)
    came = False
    try:
        end = time.monotonic() + delay + 30  # when the other process had its turn for certain
        sender.stdin.write(f"{delay}\n".encode())
        while time.monotonic() < end and not swallowed.interrupts:
            scenario.run()
    except KeyboardInterrupt:
        came = True
    assert came or swallowed.interrupts, "the interrupt is lost"
    assert not swallowed.errors, swallowed.errors
    bench.check(scenario, k, whole=False)
    return came


def main() -> None:
    calls, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = subprocess.Popen([sys.executable, "-c", _SENDER], stdin=subprocess.PIPE, bufsize=0)
    bench = Bench()
    scenario = CALLS[calls](bench.dev)
    begun = time.perf_counter()
    scenario.run()
    bench.dev.sync()
    longest = 2 * (time.perf_counter() - begun)
    rng = random.Random(seed)
    swallowed = 0
    for k in range(rounds):
        try:
            swallowed += not send(bench, scenario, k, sender, rng.uniform(0, longest))
        except BaseException:
            print(f"after {k} interrupts, {swallowed} of them in finalisers", flush=True)
            raise
    sender.kill()
    print(f"{rounds} interrupts, {swallowed} of them in finalisers")


if __name__ == "__main__":
    main()
