"""Measurements that run once: first calls, memory after many calls, several threads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import pykernels as pk
from pykernels.bench.case import CheckFailed
from pykernels.bench.check import verdict

__all__ = ["check_softmax", "first_calls", "memory", "resident", "threads"]

Array: TypeAlias = np.ndarray[Any, Any]

FIRST = """
import json, sys, time
at = [time.perf_counter()]
def lap(): at.append(time.perf_counter()); return at[-1] - at[-2]
import numpy, pykernels as pk
found = {"import": lap()}
dev = pk.Device(sys.argv[2], engine=sys.argv[1])
found["device"] = lap()
x, y = dev.tensor(numpy.ones((8, 128), "f4")), dev.empty((8, 128))
found["tensors"] = lap()
pk.kernels.softmax(x, y)
found["call"] = lap()
ok = y.numpy()
found["read"] = lap()
assert abs(ok - 1 / 128).max() < 1e-6
print(json.dumps(found))
"""


def check_softmax(x: Array, got: Array) -> None:
    """Raise CheckFailed if `got` is not the softmax of x."""
    found = verdict("softmax", {"x": x}, {}, [got])
    if found.wrong:
        raise CheckFailed(f"[softmax] {found}")


def first_calls(dev: pk.Device, small: bool) -> dict[str, float]:
    """The seconds of a process's first call, part by part; and, as "shape", the median seconds of a
    call with a new shape, whose shader is compiled already."""
    runs: list[dict[str, float]] = []
    for _ in range(1 if small else 3):
        started = time.perf_counter()
        child = subprocess.run(
            [sys.executable, "-c", FIRST, dev.engine, dev.info["name"]],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        spent = time.perf_counter() - started
        runs.append(json.loads(child.stdout) | {"process": spent})
    found = {k: statistics.median(run[k] for run in runs) for k in runs[0]}
    shapes = [(rows, 128) for rows in range(8, 14 if small else 60)]
    times = []
    for x, y in [(dev.rand(s, seed=0), dev.empty(s)) for s in shapes]:
        started = time.perf_counter()
        pk.kernels.softmax(x, y)
        times.append(time.perf_counter() - started)
        check_softmax(x.numpy(), y.numpy())
    return found | {"shape": statistics.median(times[1:])}  # without the call that compiles


def memory(dev: pk.Device, small: bool) -> dict[str, int]:
    """Bytes of the process after one call of each of 1,000 shapes, and after 100,000 calls; then
    the counters of the pool."""
    shapes, turns = (50, 4) if small else (1000, 100)
    given = [dev.rand((1 + i, 32), seed=0) for i in range(shapes)]

    def turn() -> None:
        for x in given:
            pk.softmax(x)

    turn()
    dev.sync()
    before = resident()
    for _ in range(turns - 1):
        turn()
    dev.sync()
    stats = asdict(dev.memory_stats())
    found = {"calls": turns * shapes, "resident before": before, "resident": resident(), **stats}
    for x in (given[0], given[-1]):
        check_softmax(x.numpy(), pk.softmax(x).numpy())
    return found


def resident() -> int:
    """The bytes of this process in memory; 0 if the system does not report them."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def threads(dev: pk.Device, small: bool) -> dict[str, float]:
    """The seconds of a call, for the same number of calls from one thread and from eight
    threads."""
    calls = 80 if small else 8000
    pairs = [(dev.rand((8, 128), seed=0), dev.empty((8, 128))) for _ in range(8)]

    def work(x: pk.Tensor, y: pk.Tensor, n: int) -> None:
        for _ in range(n):
            pk.kernels.softmax(x, y)

    def spent(count: int) -> float:
        some = [threading.Thread(target=work, args=(*p, calls // count)) for p in pairs[:count]]
        dev.sync()
        started = time.perf_counter()
        for t in some:
            t.start()
        for t in some:
            t.join()
        dev.sync()
        return (time.perf_counter() - started) / calls

    times: dict[int, list[float]] = {1: [], 8: []}
    for _ in range(2 if small else 7):
        for count, own in times.items():
            own.append(spent(count))
    check_softmax(pairs[-1][0].numpy(), pairs[-1][1].numpy())
    return {str(k): statistics.median(v) for k, v in times.items()}
