"""The pytest side of a bench file: cases become benchmarks on the GPU's clock.

    bench_softmax = form.benches(cases, PEERS)

pytest-benchmark reads its timer before and after each pedantic round. Ours, `gpu_seconds`, is moved
on by what the GPU says the round took, one call's worth, so its table and files show GPU time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pykernels.bench.case import Case
from pykernels.bench.run import Peer, Result, Runner

__all__ = ["benches", "edge", "extra_info", "gpu_seconds"]

_clock = [0.0]


def gpu_seconds() -> float:
    """The timer: GPU seconds of all rounds so far."""
    return _clock[0]


def edge() -> int:
    """PYKERNELS_BENCH_EDGE=32: sizes are cut to this, for a software driver."""
    return int(os.environ.get("PYKERNELS_BENCH_EDGE", "0"))


def benches(cases: Callable[[int], Iterator[Case]], peers: Mapping[str, Peer]) -> Any:
    """The test function of a bench file, one benchmark per case, grouped by kernel.

    None without pytest: `pykernels bench` runs the cases by itself.
    """
    try:
        import pytest
    except ImportError:
        return None
    given = [
        pytest.param(
            c,
            id=f"{c.kernel}-{c.id}",
            marks=pytest.mark.benchmark(group=c.kernel, timer=gpu_seconds),
        )
        for c in cases(edge())
    ]

    @pytest.mark.parametrize("case", given)
    def bench(case: Case, benchmark: Any, runner: Runner, wanted_peers: list[str]) -> None:
        def take(read: Callable[[], float], count: int) -> list[float]:
            def once() -> None:
                _clock[0] += read()

            before = _clock[0]
            benchmark.pedantic(once, rounds=count, iterations=1)
            if not benchmark.enabled:  # once, untimed
                return [_clock[0] - before]
            return list(benchmark.stats.stats.data)

        chosen = {k: v for k, v in peers.items() if k in wanted_peers or "all" in wanted_peers}
        (result,) = runner.case(runner.devices[0], case, chosen, take)
        benchmark.extra_info.update(extra_info(result, runner.report.meta))
        runner.report.results.append(result)

    return bench


def extra_info(r: Result, meta: Mapping[str, Any]) -> dict[str, Any]:
    """What a saved benchmark says beside its times."""
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
