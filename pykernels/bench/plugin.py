"""A fixture for pytest-benchmark, `gpu_benchmark`, which uses the device's clock.

    def test_double(gpu_benchmark):
        gpu_benchmark(lambda x: x * 2, x, check=lambda x: x * 2)

`gpu_benchmark` has the arguments of `pykernels.bench.measure` and returns a Measurement.
pytest-benchmark reads a timer before and after each round. This plugin's timer advances by the
device's time of one call, so the table and the files show GPU time (without timestamp queries, the
host's time).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .own import Measurement

_clock = [0.0]


def _seconds() -> float:
    return _clock[0]


@pytest.fixture
def gpu_benchmark(request: pytest.FixtureRequest) -> Callable[..., Measurement]:
    """`pykernels.bench.measure`, which passes its readings on to pytest-benchmark."""
    request.node.add_marker(pytest.mark.benchmark(timer=_seconds))
    benchmark: Any = request.getfixturevalue("benchmark")

    def run(fn: Callable[..., object], *args: Any, **options: Any) -> Measurement:
        from .own import measure

        found = measure(fn, *args, **options)
        readings = iter(found.result.timing.rounds)

        def once() -> None:
            _clock[0] += next(readings)

        rounds = len(found.result.timing.rounds) if benchmark.enabled else 1
        benchmark.pedantic(once, rounds=rounds, iterations=1)
        benchmark.extra_info.update(
            clock=found.result.timing.clock, call_us=found.call_us, noise=found.noise,
            error=found.error, bytes=found.result.counts.nbytes,
        )  # fmt: skip
        return found

    return run
