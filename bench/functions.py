"""The host's cost of a call of layer two for each dispatch, compared with `pk.softmax`.

python -m bench.functions [--adapter NAME] [--rounds N] [--calls N]

Calls on the same small tensors with new results, inside `batch()`, so the device's work is not
included.
The calls of a round alternate with those of pk.softmax; a figure is the median of the rounds'
ratios, which a busy machine changes less than the times. `Device.profile` counts dispatches.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk

Call = Callable[[], Any]


def calls(dev: pk.Device) -> dict[str, Call]:
    """Twenty and more functions, one of each family; small tensors."""
    with dev.batch():
        x, y = dev.rand((8, 128), seed=0), dev.rand((8, 128), seed=1)
        w, v = dev.rand((128,), seed=2), dev.rand((128, 64), seed=3)
        image, taps = dev.rand((1, 8, 16, 16), seed=4), dev.rand((8, 8, 3, 3), seed=5)
        q = dev.rand((1, 2, 8, 32), seed=6)
    rows = dev.tensor(np.array([3, 1, 0, 2], "i4"))
    labels = dev.tensor(np.zeros(8, "i4"))
    places = dev.tensor(np.arange(8, dtype="i4"))
    return {
        "add": lambda: pk.add(x, y),
        "gelu": lambda: pk.gelu(x),
        "exp": lambda: pk.exp(x),
        "where": lambda: pk.where(labels.reshape(8, 1), x, y),
        "sum": lambda: pk.sum(x, axis=1),
        "max": lambda: pk.max(x, axis=1),
        "argmax": lambda: pk.argmax(x, axis=1),
        "var": lambda: pk.var(x, axis=1),
        "layer_norm": lambda: pk.layer_norm(x, 128, w, w),
        "rms_norm": lambda: pk.rms_norm(x, 128, w),
        "group_norm": lambda: pk.group_norm(image, 2),
        "matmul": lambda: pk.matmul(x, v),
        "linear": lambda: pk.linear(x, y),
        "conv2d": lambda: pk.conv2d(image, taps, padding=1),
        "max_pool2d": lambda: pk.max_pool2d(image, 2),
        "avg_pool2d": lambda: pk.avg_pool2d(image, 2),
        "cross_entropy": lambda: pk.cross_entropy(x, labels),
        "flash_attn": lambda: pk.flash_attn(q, q, q),
        "rope": lambda: pk.rope(q, places),
        "get_rows": lambda: pk.get_rows(x, rows),
        "embedding": lambda: pk.embedding(x, rows),
        "cumsum": lambda: pk.cumsum(x, axis=1),
        "sort": lambda: pk.sort(x, axis=1),
        "concatenate": lambda: pk.concatenate([x, y]),
        "resize": lambda: pk.resize(image, (32, 32)),
        "log_softmax": lambda: pk.log_softmax(x),
    }


def cost(call: Call, count: int) -> float:
    """Seconds of the host for each of a few calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measured(
    dev: pk.Device, wanted: dict[str, Call], rounds: int, count: int
) -> dict[str, tuple[float, float, int]]:
    """Of each function its time in seconds, what a dispatch of it takes as a share of a pk.softmax,
    and how many dispatches it has."""
    x = dev.rand((8, 128), seed=0)
    found = {}
    for name, call in wanted.items():
        for _ in range(3):
            call()
        with dev.profile() as profile:
            call()
        dispatches = max(len(profile.records), 1)
        times, ratios = [], []
        for _ in range(rounds):
            with dev.batch():
                plain = cost(lambda: pk.softmax(x), count)
                times.append(cost(call, count))
                plain = (plain + cost(lambda: pk.softmax(x), count)) / 2
            dev.sync()
            ratios.append(times[-1] / plain / dispatches)
        found[name] = (statistics.median(times), statistics.median(ratios), dispatches)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--adapter")
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=100)
    args = parser.parse_args()
    with pk.Device(args.adapter, engine=args.engine) as dev:
        print("| function | us | dispatches | a dispatch, of pk.softmax |\n|---|--:|--:|--:|")
        for name, (t, ratio, n) in measured(dev, calls(dev), args.rounds, args.calls).items():
            print(f"| {name} | {t * 1e6:.1f} | {n} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
