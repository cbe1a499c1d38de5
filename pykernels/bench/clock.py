"""Times of calls: warmed up until steady, by the GPU's own clock, many calls for each reading.

A `Sample` runs n calls and says how many seconds they took, on whatever clock its owner has
(timestamp queries, CUDA events, the host's). `measure` treats all of them alike. `loops` takes the
second time of a call: what the host sees of a loop of calls and the sync behind it.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Literal

from pykernels.device import Device

from .intervals import PASSES, SINGLE, student

__all__ = [
    "Calls",
    "Clock",
    "Effort",
    "GpuSample",
    "HostSample",
    "Sample",
    "Timing",
    "Tracker",
    "clock_of",
    "loops",
    "measure",
    "seconds_of",
    "without_timestamps",
]

Clock = Literal["gpu", "call", ""]
Sample = Callable[[int], float]

STEADY = 0.01  # two windows of warm-up whose medians are this close: the time is steady
WINDOW = 6
DRIFT = 0.03  # blocks that differ by more, each faster than the last: not warm yet
SLOW_CLOCK = 1.25  # a probe this much slower than it was when warm: the clock is down
LONGEST_CHAIN = 4096
EXACT = 0.005  # standard error of a time, as a share of it, from which more blocks are no use
EXTRA = 5  # more blocks for each pass in that case
LOOPS = 5  # loops of calls by the host's clock


@dataclass(frozen=True)
class Effort:
    """The length of a measurement.

    warm, most: seconds of warm-up at least, and at most while the time is not steady.
    rounds: readings, in `blocks` blocks. reading: seconds of work for one reading.
    loop: readings that a loop of calls by the host's clock is as long as.
    longest: seconds of readings; what takes longer gets fewer.
    """

    warm: float = 0.3
    most: float = 3.0
    rounds: int = 30
    blocks: int = 3
    reading: float = 2e-4
    longest: float = 2.0
    loop: int = 100

    def beside(self) -> Effort:
        """For a peer: a slow one gets fewer readings."""
        return replace(self, most=min(self.most, 0.5), longest=min(self.longest, 0.5))

    def brief(self) -> Effort:
        """The effort for slow work that is timed by the host's clock."""
        return replace(
            self.beside(), warm=self.warm / 6, most=self.warm, rounds=min(self.rounds, 4), blocks=1
        )

    def once(self) -> Effort:
        """For one pass of several: a block."""
        return replace(self, rounds=max(self.rounds // 3, 1), blocks=1)

    @classmethod
    def of(cls, dev: Device) -> Effort:
        """Fewer readings on a software driver, which has no clock to warm up, and longer ones there
        and by the host's clock: a batch begins and ends by the host's threads."""
        if dev.info["type"] == "CPU":
            return cls(warm=0.02, most=0.2, rounds=6, reading=1e-2, loop=10)
        return cls() if "timestamp-query" in dev.features else cls(reading=2e-3, loop=10)


def _half(n: int) -> float:
    """Half a 95 % interval of the mean of so many values, in standard errors."""
    return student(0.975, n - 1) if n > 1 else 0.0


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, for each reading; how they came about."""

    rounds: tuple[float, ...]
    calls: int  # of one reading
    clock: str  # timestamps, wall, CUDA events
    warmed: float  # s of warm-up
    steady: bool = True
    cold: str = ""  # why the device was not warm, "" if it was
    blocks: int = 1
    pace: float = 1.0  # time of the probe meanwhile, over its time when the device is warm
    passes: tuple[int, ...] = ()  # blocks of each pass, if there were several
    loops: tuple[float, ...] = ()  # s of a call by the host's clock, for each loop of calls

    @property
    def seconds(self) -> float:
        """The mean of the medians of the blocks: a median takes no notice of a reading that was
        disturbed, and where a kernel has two speeds the mean is what repeats."""
        return statistics.mean(self.block_medians())

    @property
    def gpu(self) -> float:
        """Seconds of a call by the device's clock; 0 if unknown."""
        return 0.0 if self.clock == "wall" else self.seconds

    @property
    def per_call(self) -> float:
        """Seconds of a call by the host's clock, a loop of calls and the sync behind it: the median
        of the loops; 0 where it is not known."""
        if self.loops:
            return statistics.median(self.loops)
        return self.seconds if self.clock == "wall" else 0.0

    @property
    def trusted(self) -> bool:
        """True if the GPU's time can be trusted: it must be at most the call's time by the host's
        clock. With fewer than PASSES passes, the effect of places in memory is unknown."""
        if self.clock == "wall" or len(self.loops) < 2:
            return True
        floor = SINGLE if len(self.loops) < PASSES * LOOPS else 0.0
        spread = max(self.call_noise, floor)
        return self.seconds * (1 - self.noise) <= self.per_call * (1 + spread)

    @property
    def noise(self) -> float:
        """The expected difference of a repetition, relative to the time: half the 95 % interval of
        the mean over the passes; within one pass, half the interquartile range of the readings if
        that is more, as the place in memory did not change."""
        if self.places > 1:
            return self.error * _half(self.places)
        if len(self.rounds) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.rounds, n=4)
        blocks = len(self.block_medians())
        return max((high - low) / 2 / self.seconds, self.error * _half(blocks))

    @property
    def call_noise(self) -> float:
        """The expected difference of a repetition of `per_call`, relative to it: half the 95 %
        interval over the passes, or over the loops of one pass."""
        if len(self.loops) < 2:
            return self.noise if self.clock == "wall" else 0.0
        times = self.units("call")
        return _half(len(times)) * statistics.stdev(times) / math.sqrt(len(times)) / self.per_call

    @property
    def error(self) -> float:
        """The standard error of the time, as a share of it: over the passes, as the blocks of a
        pass share a place in memory; over the blocks of a single pass."""
        times = self.pass_means() if self.places > 1 else self.block_medians()
        if len(times) < 2:
            return 0.0
        return statistics.stdev(times) / math.sqrt(len(times)) / self.seconds

    @property
    def places(self) -> int:
        """The number of passes, each with its tensors at other places in memory."""
        return max(len(self.passes), 1)

    def units(self, clock: Clock) -> list[float]:
        """Times that differ as passes differ; within a single pass, as blocks differ."""
        if clock == "call" and self.loops:
            each = len(self.loops) // self.places
            if self.places == 1 or not each:
                return [*self.loops]
            starts = range(0, each * self.places, each)
            return [statistics.median(self.loops[i : i + each]) for i in starts]
        return self.pass_means() if self.places > 1 else self.block_medians()

    def block_medians(self) -> list[float]:
        each = max(len(self.rounds) // self.blocks, 1)
        starts = range(0, min(each * self.blocks, len(self.rounds)), each)
        return [statistics.median(self.rounds[i : i + each]) for i in starts]

    def pass_means(self) -> list[float]:
        medians = iter(self.block_medians())
        counts = self.passes or (self.blocks,)
        found = [list(islice(medians, n)) for n in counts]
        return [statistics.mean(some) for some in found if some]

    def joined(self, later: Timing) -> Timing:
        """This timing with the blocks of a later pass, which are equally long."""
        return replace(
            self, rounds=self.rounds + later.rounds, blocks=self.blocks + later.blocks,
            passes=(*(self.passes or (self.blocks,)), later.blocks),
            steady=self.steady and later.steady, cold=self.cold or later.cold,
            pace=max(self.pace, later.pace), loops=self.loops + later.loops,
        )  # fmt: skip

    def record(self) -> dict[str, Any]:
        found = asdict(self)
        known = {"seconds": self.seconds, "noise": self.noise, "per_call": self.per_call}
        return found | known

    @classmethod
    def of(cls, record: dict[str, Any]) -> Timing:
        computed = ("seconds", "noise", "per_call")
        known = {k: v for k, v in record.items() if k not in computed}
        for name in ("rounds", "passes", "loops"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


def clock_of(timings: Sequence[Timing]) -> Clock:
    """The clock that all timings have: the GPU's if all of them can be trusted, else the host's."""
    if all(t.gpu and t.trusted for t in timings):
        return "gpu"
    return "call" if all(t.per_call for t in timings) else ""


def seconds_of(t: Timing, clock: Clock) -> float:
    """The time of a call by this clock."""
    return t.gpu if clock == "gpu" else t.per_call


def without_timestamps(dev: Device) -> Device:
    """The device, as if it had no timestamp queries."""
    dev.features = dev._context.features = dev.features - {"timestamp-query"}
    return dev


@dataclass(frozen=True)
class Calls:
    """Calls that are ready to be timed: on the clock `clock`, and by the host's clock, as a loop
    with one sync at its end, if that is another time."""

    sample: Sample
    clock: str
    loop: Sample | None = None


class GpuSample:
    """n calls timed by timestamp queries around whole batches; without them, by the host."""

    def __init__(self, dev: Device, call: Callable[[], object]) -> None:
        self.dev, self.call = dev, call
        self.clock = "timestamps" if "timestamp-query" in dev.features else "wall"
        self.dispatches = 0  # of the last sample

    def __call__(self, n: int) -> float:
        call = self.call
        with self.dev.profile(batches=True) as p:
            for _ in range(n):
                call()
        self.dispatches = sum(r.dispatches for r in p.records)
        return p.wall if self.clock == "wall" else sum(r.gpu for r in p.records)


class HostSample:
    """Seconds of n calls and the sync after them, by the host's clock."""

    def __init__(self, dev: Device, call: Callable[[], object]) -> None:
        self.dev, self.call = dev, call

    def __call__(self, n: int) -> float:
        call = self.call
        self.dev.sync()
        started = time.perf_counter()
        for _ in range(n):
            call()
        self.dev.sync()
        return time.perf_counter() - started


@dataclass
class Tracker:
    """Watches the device's clock by a kernel whose time is known when it is warm."""

    probe: Callable[[], float]
    warm: float
    seen: list[float] = field(default_factory=list)

    def ready(self) -> bool:
        """True if the device is as fast as when it was warm."""
        return self.probe() <= 1.05 * self.warm

    def poll(self) -> None:
        self.seen.append(self.probe() / self.warm)

    def verdict(self) -> tuple[float, str]:
        """The probe's time over its warm time since the last verdict, and why the device is cold,
        "" if it is not."""
        seen, self.seen = self.seen or [1.0], []
        pace, worst = statistics.median(seen), max(seen)
        slow = f"the device ran {worst:.1f} times slower than when it is warm"
        return pace, slow if worst > SLOW_CLOCK else ""


def take(read: Callable[[], float], count: int) -> list[float]:
    """Take this number of readings."""
    return [read() for _ in range(count)]


def measure(
    sample: Sample,
    effort: Effort,
    *,
    clock: str = "",
    tracker: Tracker | None = None,
    take: Callable[[Callable[[], float], int], list[float]] = take,
    before: Timing | None = None,
) -> Timing:
    """Warm up until the time per call is steady, then read in blocks. A device that a tracker finds
    warm already is warmed up for a fifth of the time.

    With a tracker there are two signs of a cold device: a probe beside each block ran too slowly,
    or each block was faster than the one before.

    before: what earlier passes found. The result has their blocks too; the new ones are as long,
    and up to EXTRA more while the mean is not exact.
    """
    sample(1)  # compiles, allocates
    ready = tracker is not None and tracker.ready()
    warmed, steady, seconds = _warm_up(sample, effort, effort.warm / 5 if ready else effort.warm)
    calls = before.calls if before else _chain(effort.reading, seconds)
    most = math.ceil(effort.longest / (seconds * calls) / effort.blocks)
    each = max(min(effort.rounds // effort.blocks, most), 1)
    if before:
        each = len(before.rounds) // before.blocks
    blocks: list[list[float]] = []
    found = before
    while len(blocks) < effort.blocks or (
        before is not None and len(blocks) < EXTRA and found is not None and found.error > EXACT
    ):
        if blocks and effort.warm:
            sample(_chain(min(0.02, effort.warm), seconds))
        if tracker:
            tracker.poll()
        blocks.append(take(lambda: max(sample(calls) / calls, 1e-9), each))  # 0: below a tick
        if tracker:
            tracker.poll()
        rounds = tuple(t for block in blocks for t in block)
        found = Timing(rounds, calls, "", warmed, steady, blocks=len(blocks))
        found = before.joined(found) if before else found
    assert found is not None
    pace, cold = tracker.verdict() if tracker else (1.0, "")
    trend = _trend(blocks) if tracker else ""
    return replace(
        found, clock=clock or getattr(sample, "clock", "wall"), cold=found.cold or cold or trend,
        pace=max(found.pace, pace) if before else pace,
    )  # fmt: skip


def loops(loop: Sample, effort: Effort) -> tuple[float, ...]:
    """Seconds of a call, of loops that are long enough for their sync not to count."""
    n = 1
    while (spent := loop(n)) < effort.loop * effort.reading / 4 and n < LONGEST_CHAIN:
        n = min(4 * n, LONGEST_CHAIN)
    n = _chain(effort.loop * effort.reading, max(spent / n, 1e-9))
    return tuple(loop(n) / n for _ in range(min(LOOPS, effort.rounds)))


def _warm_up(sample: Sample, effort: Effort, least: float) -> tuple[float, bool, float]:
    """Seconds of warm-up, whether the time became steady, and the time of a call."""
    started = time.perf_counter()
    times, n = [max(sample(1), 1e-9)], 1
    if not effort.warm:
        return 0.0, False, times[-1]
    while True:
        # One reading that is too short must not ask for thousands of long calls.
        n = min(_chain(max(effort.reading, effort.warm / 60), times[-1]), 8 * n)
        times.append(max(sample(n) / n, 1e-9))
        spent = time.perf_counter() - started
        if (spent >= least and _settled(times)) or spent >= effort.most:
            known = [t for t in times[-WINDOW:] if t > 1e-9]
            return spent, _settled(times), min(known or times)


def _settled(times: list[float]) -> bool:
    if len(times) < 2 * WINDOW:
        return False
    last = statistics.median(times[-WINDOW:])
    return abs(statistics.median(times[-2 * WINDOW : -WINDOW]) - last) <= STEADY * last


def _chain(wanted: float, seconds: float) -> int:
    """The number of calls that take this many seconds."""
    return max(1, min(math.ceil(wanted / seconds), LONGEST_CHAIN))


def _trend(blocks: list[list[float]]) -> str:
    """True if each block was faster than the one before, by more than their readings differ."""
    medians = [statistics.median(b) for b in blocks]
    falling = len(medians) > 2 and all(a > b for a, b in pairwise(medians))
    spread = (max(blocks[-1]) - min(blocks[-1])) / medians[-1]
    if falling and medians[0] > (1 + DRIFT + spread) * medians[-1]:
        return f"calls became {medians[0] / medians[-1] - 1:.0%} faster while they were timed"
    return ""
