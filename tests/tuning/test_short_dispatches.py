"""No call of `pykernels tune` takes long, however slow the device and the body: by a clock that
follows from the work of a call, on devices of which nothing is known before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pykernels.bench.tune import facts, meter, run
from pykernels.bench.tune.direct import KEYS, Turned
from pykernels.bench.tune.meter import FIRST, LONGEST, Kept, Meter
from pykernels.bench.tune.problems import Problem, others, problems
from pykernels.tuning import named

# Operations per second: from less than a software driver of one core to a large GPU.
RATES = [10.0**n for n in (7, 8, 9, 10, 11, 12, 13)]
SLOWER = (1, 8, 100)  # bodies: as fast as the slowest tile, and many times slower
OVERHEAD = 1e-5
ALL = {p.name: p for p in (*problems(), *problems(small=True))}
KEYED = {p.name: p for key in KEYS for p in (*key.calls, *key.small)}


class Device:
    """Its calls take the time that their work takes; `longest` is the longest one.

    A call is a number of bytes to copy, or a problem. More work than the caches hold is slower.
    """

    def __init__(self, rate: float, kind: str = "DiscreteGPU") -> None:
        self.rate, self.slower, self.longest = rate, 1, 0.0
        self.info = {"type": kind}
        self.limits = {"max-storage-buffer-binding-size": 1 << 30}

    def zeros(self, shape: tuple[int, ...]) -> Any:
        return SimpleNamespace(nbytes=4 * math.prod(shape), permute=lambda *_: None)

    def trim(self) -> None: ...

    def seconds(self, call: Any) -> float:
        if isinstance(call, Problem):
            cached = 1 if call.operations < 1e7 else 3
            each = OVERHEAD + call.operations / self.rate * self.slower * cached
        else:
            each = OVERHEAD + 2 * call / self.rate
        self.longest = max(self.longest, each)
        return each


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def force(dev: Device, slower: int = 1, *, tuning: Any = None) -> Iterator[None]:
        dev.slower = slower if isinstance(slower, int) else 1
        yield
        dev.slower = 1

    def sample(dev: Device, call: Any) -> Callable[[int], float]:
        return lambda n: n * dev.seconds(call)

    for kind in (Problem, Turned):
        monkeypatch.setattr(kind, "case", property(lambda p: p))
    monkeypatch.setattr(Problem, "nbytes", property(lambda p: 4 * math.prod(p.shape)))
    monkeypatch.setattr(meter, "load", lambda dev, case: case)
    monkeypatch.setattr(meter, "force", force)
    monkeypatch.setattr(meter, "text_of", str)
    monkeypatch.setattr(facts, "_call", lambda src, dst: dst.nbytes)
    for module in (meter, facts):
        monkeypatch.setattr(module, "GpuSample", sample)


def started(rate: float, small: bool) -> tuple[Meter, Device, Any]:
    """A meter that has measured how much work the device can do."""
    dev: Any = Device(rate, "CPU" if small else "DiscreteGPU")
    found = Meter(dev, Kept(None, {}))
    found.slow = True  # no spinning: the clock does not move
    return found, dev, run.limits_of(found, small)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("rate", RATES)
def test_no_call_is_long(rate: float, small: bool) -> None:
    """Of problems within the limits, and of those that are measured for the facts of a table."""
    timed, dev, limits = started(rate, small)
    assert 0 < dev.longest <= LONGEST
    random = others(30, limits, small=small)
    for p in (*ALL.values(), *KEYED.values(), *random):
        for slower in SLOWER:
            found = timed.seconds(p, slower)
            assert dev.longest <= LONGEST, (p, slower)
            assert found is None or found <= LONGEST
        timed.with_table(p, "a table", named("generic-large"))
        assert dev.longest <= LONGEST, p
    assert timed.longest == dev.longest


@pytest.mark.parametrize("rate", [r for r in RATES if r >= 1e9])
def test_what_is_short_is_measured(rate: float) -> None:
    """All problems within the limits of the device, by bodies as fast as those of other devices."""
    timed, _, limits = started(rate, small=False)
    some = [p for p in ALL.values() if limits.allow(p) and p.operations < rate * LONGEST / 16]
    assert len(some) > 4
    assert [p.name for p in some if timed.seconds(p, 1) is None] == []
    few = [p for p in some if 300 * p.operations / rate < LONGEST / 16]
    assert [p.name for p in few if timed.seconds(p, 100) is None] == []


def test_the_first_call_is_small() -> None:
    timed, dev, _ = started(1e7, small=False)
    assert timed.rate <= 1e7 and dev.longest < 3 * FIRST / 1e7


@pytest.mark.parametrize("p", [*ALL.values(), *KEYED.values()], ids=lambda p: p.name)
def test_smaller_problems(p: Problem) -> None:
    """They have the kernel and all arguments of a problem, and no more work than asked for."""
    for operations in (1e5, 1e6, 1e7, 1e12):
        less = p.smaller(operations)
        assert 0 < less.operations <= max(operations, 1e5)
        assert type(less) is type(p) and len(less.shape) == len(p.shape)
        assert all(min(b, 1) <= a <= b for a, b in zip(less.shape, p.shape, strict=True))
        if p.operations <= operations:
            assert less == p
        elif operations == 1e7:
            assert less.operations > operations / 64  # or there would be many steps


@pytest.mark.parametrize("rate", RATES)
def test_the_probe_is_short(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def fma(dev: object, t: str, sums: int, steps: int, rounds: int, groups: int) -> Any:
        seconds = 2 * 4 * sums * steps * rounds * groups * 256 / (rate * 100)

        def program(n: int) -> float:
            times.append(seconds)
            return n * seconds

        program(1)
        return program

    monkeypatch.setattr(facts, "_fma", fma)
    facts.probe(Device(rate))  # type: ignore[arg-type]
    assert max(times) <= LONGEST and (times[-1] > 2e-4 or rate > 1e11)
