"""For `pytest bench`: the cases of `pykernels bench` under pytest-benchmark, on the GPU's clock.

pytest-benchmark reads its timer before and after each pedantic round. The timer `gpu_seconds`
advances by the GPU time of the round, divided by its number of calls, so the table and the files
show the GPU time of one call. PYKERNELS_BENCH_EDGE=32 reduces sizes for a software driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykernels.bench.case import Case
from pykernels.bench.cases import cases, peers
from pykernels.bench.report import Result
from pykernels.bench.run import Runner

EDGE = int(os.environ.get("PYKERNELS_BENCH_EDGE", "0"))
_clock = [0.0]


def gpu_seconds() -> float:
    """The timer: the sum, over all rounds so far, of the GPU seconds of a call."""
    return _clock[0]


def params() -> list[Any]:
    """One benchmark for each case, grouped by kernel."""
    return [
        pytest.param(
            c,
            id=f"{c.kernel}-{c.id}",
            marks=pytest.mark.benchmark(group=c.kernel, timer=gpu_seconds),
        )
        for c in cases(EDGE)
    ]


@pytest.mark.parametrize("case", params())
def bench_kernel(case: Case, benchmark: Any, runner: Runner, wanted_peers: list[str]) -> None:
    def take(read: Callable[[], float], count: int) -> list[float]:
        def once() -> None:
            _clock[0] += read()

        before = _clock[0]
        benchmark.pedantic(once, rounds=count, iterations=1)
        if not benchmark.enabled:  # once, untimed
            return [_clock[0] - before]
        return list(benchmark.stats.stats.data)

    known = peers()[case.kernel]
    chosen = {k: v for k, v in known.items() if k in wanted_peers or "all" in wanted_peers}
    (result,) = runner.case(runner.devices[0], case, chosen, take)
    benchmark.extra_info.update(extra_info(result, runner.report.meta))
    runner.report.results.append(result)


def extra_info(r: Result, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that are saved with a benchmark, in addition to its times."""
    found = {
        "kernel": r.kernel,
        "variant": r.counts.variant,
        "dtype": r.dtype,
        "shape": list(r.shape),
        "origin": r.origin,
        "bytes": r.counts.nbytes,
        "operations": r.counts.operations,
        "dispatches": r.counts.dispatches,
        "GB/s": r.rate / 1e9,
        "TFLOP/s": r.speed / 1e12,
        "share of the ceiling": r.share,
        "per call": r.timing.per_call,
        "engine": r.engine,
        "adapter": meta["adapter"],
        "driver": meta["driver"],
        "versions": meta["versions"] | meta["engines"],
        "check": str(r.check),
        "cache": r.cache,
        "clock": r.timing.clock,
        "cold": r.timing.cold,
        "steady": r.timing.steady,
    }
    return found | {f"times {p}": r.ratio(p) or r.peers[p] for p in r.peers}
