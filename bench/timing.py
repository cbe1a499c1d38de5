"""GPU time of calls, by timestamp queries, after a warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pykernels as pk

__all__ = ["gpu_time"]

WARM = 0.3  # s of continuous work: an idle GPU clock reads 2 to 3 times too slow


def gpu_time(
    dev: pk.Device, call: Callable[[], object], rounds: int = 20, warm: float = WARM
) -> float:
    """Seconds of GPU time of one call: the median of `rounds`, dispatches of a call summed.

    Without timestamp queries, wall time over all rounds divided by their number.
    """
    call()
    dev.sync()
    started = time.perf_counter()
    once = 1
    while time.perf_counter() - started < warm:
        before = time.perf_counter()
        for _ in range(once):
            call()
        dev.sync()
        if time.perf_counter() - before < 0.02:
            once = min(once * 2, 256)
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
