"""GPU time of calls, by timestamp queries, after a warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pykernels as pk

__all__ = ["gpu_time"]

WARM = 0.3  # s of continuous work: an idle GPU clock reads 2 to 3 times too slow
STEADY = 0.02  # two medians in a row this close end the measurement
MAX_ATTEMPTS = 8


def gpu_time(
    dev: pk.Device, call: Callable[[], object], rounds: int = 20, warm: float = WARM
) -> float:
    """Seconds of GPU time of one call: the median of `rounds`, dispatches of a call summed.

    Measured until two medians in a row agree: a clock that was idle for seconds rises slowly.
    Without timestamp queries, wall time over all rounds divided by their number.
    """
    call()
    dev.sync()
    last = float("inf")
    for _ in range(MAX_ATTEMPTS):
        _warm_up(dev, call, warm)
        seconds = _median(dev, call, rounds)
        if abs(seconds - last) <= STEADY * seconds:
            break
        last = seconds
    return min(seconds, last)


def _warm_up(dev: pk.Device, call: Callable[[], object], seconds: float) -> None:
    """Keep the device busy for this long."""
    started = time.perf_counter()
    count = 1
    while time.perf_counter() - started < seconds:
        before = time.perf_counter()
        for _ in range(count):
            call()
        dev.sync()
        if time.perf_counter() - before < 0.02:
            count = min(count * 2, 256)


def _median(dev: pk.Device, call: Callable[[], object], rounds: int) -> float:
    with dev.profile() as p:
        for _ in range(rounds):
            call()
    if p.clock == "wall":
        return p.wall / rounds
    per_call = len(p.records) // rounds
    times = [
        sum(r.gpu for r in p.records[i : i + per_call])
        for i in range(0, per_call * rounds, per_call)
    ]
    return statistics.median(times)
