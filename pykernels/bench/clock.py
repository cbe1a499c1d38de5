"""Times of calls: after a warm-up until times are steady, by the GPU's own clock, with many calls
for each reading.

A `Sample` runs n calls and returns the seconds that they took, by any clock (timestamp queries,
CUDA events, the host's clock). `measure` treats all of them alike. `loops` measures the time of a
call by the host's clock as well: in a loop of calls with one sync after it.
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

# times are steady if the medians of two windows of the warm-up differ by less than this share
STEADY = 0.01
WINDOW = 6
# The device is not warm if each block is faster than the block before it, and the first block takes
# longer than the last block by more than this share (beyond the spread of the readings).
DRIFT = 0.03
SLOW_CLOCK = 1.25  # the clock is low if a probe takes this many times its time on a warm device
LONGEST_CHAIN = 4096
# no more blocks are read if the standard error, as a share of the time, is below this
EXACT = 0.005
EXTRA = 5  # most further blocks of a pass while the standard error is above EXACT
LOOPS = 5  # number of loops of calls that are timed by the host's clock


@dataclass(frozen=True)
class Effort:
    """The length of a measurement.

    warm, most: the least seconds of warm-up, and the most seconds while the time is not steady.
    rounds: the number of readings, in `blocks` blocks. reading: seconds of work for one reading.
    loop: the length of a loop of calls by the host's clock, in readings.
    longest: the most seconds of all readings together; slower calls get fewer readings.
    """

    warm: float = 0.3
    most: float = 3.0
    rounds: int = 30
    blocks: int = 3
    reading: float = 2e-4
    longest: float = 2.0
    loop: int = 100

    def beside(self) -> Effort:
        """The effort for a peer: a slow peer gets fewer readings."""
        return replace(self, most=min(self.most, 0.5), longest=min(self.longest, 0.5))

    def brief(self) -> Effort:
        """The effort for slow work that is timed by the host's clock."""
        return replace(
            self.beside(), warm=self.warm / 6, most=self.warm, rounds=min(self.rounds, 4), blocks=1
        )

    def once(self) -> Effort:
        """The effort for one of several passes: a single block."""
        return replace(self, rounds=max(self.rounds // 3, 1), blocks=1)

    @classmethod
    def of(cls, dev: Device) -> Effort:
        """The effort for a device. A software driver has no clock to warm up, so it gets a short
        warm-up and fewer readings. On a software driver, and by the host's clock, readings are
        longer, because host threads begin and end a batch."""
        if dev.info["type"] == "CPU":
            return cls(warm=0.02, most=0.2, rounds=6, reading=1e-2, loop=10)
        return cls() if "timestamp-query" in dev.features else cls(reading=2e-3, loop=10)


def _half(n: int) -> float:
    """Half of the 95 % interval of the mean of `n` values, in standard errors."""
    return student(0.975, n - 1) if n > 1 else 0.0


@dataclass(frozen=True)
class Timing:
    """Seconds of one call for each reading, and how they were measured."""

    rounds: tuple[float, ...]
    calls: int  # number of calls in one reading
    clock: str  # the clock: timestamps, wall or CUDA events
    warmed: float  # seconds of warm-up
    steady: bool = True
    cold: str = ""  # the reason why the device was not warm; "" if it was warm
    blocks: int = 1
    pace: float = 1.0  # the probe's time during the blocks, divided by its time on a warm device
    passes: tuple[int, ...] = ()  # number of blocks of each pass, if there were several passes
    loops: tuple[float, ...] = ()  # seconds of a call by the host's clock, for each loop of calls

    @property
    def seconds(self) -> float:
        """The mean of the medians of the blocks: a median ignores a disturbed reading, and if a
        kernel has two speeds, only the mean is the same in a repetition."""
        return statistics.mean(self.block_medians())

    @property
    def gpu(self) -> float:
        """Seconds of a call by the device's clock; 0 if unknown."""
        return 0.0 if self.clock == "wall" else self.seconds

    @property
    def per_call(self) -> float:
        """Seconds of a call by the host's clock, from a loop of calls and the sync after it: the
        median of the loops; 0 if unknown."""
        if self.loops:
            return statistics.median(self.loops)
        return self.seconds if self.clock == "wall" else 0.0

    @property
    def trusted(self) -> bool:
        """True if the GPU's time can be trusted: it must be at most the call's time by the host's
        clock, within the noise of both. With fewer than PASSES passes, the effect of places in
        memory is unknown, so the noise of the call's time is at least SINGLE."""
        if self.clock == "wall" or len(self.loops) < 2:
            return True
        floor = SINGLE if len(self.loops) < PASSES * LOOPS else 0.0
        spread = max(self.call_noise, floor)
        return self.seconds * (1 - self.noise) <= self.per_call * (1 + spread)

    @property
    def noise(self) -> float:
        """The expected difference of a repetition, relative to the time: half the 95 % interval of
        the mean over the passes. For one pass, it is at least half the interquartile range of the
        readings, because the place in memory did not change."""
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
        """The standard error of the time, as a share of it: over the passes, because the blocks of
        a pass share a place in memory; if there is a single pass, over its blocks."""
        times = self.pass_means() if self.places > 1 else self.block_medians()
        if len(times) < 2:
            return 0.0
        return statistics.stdev(times) / math.sqrt(len(times)) / self.seconds

    @property
    def places(self) -> int:
        """The number of passes, each with its tensors at other places in memory."""
        return max(len(self.passes), 1)

    def units(self, clock: Clock) -> list[float]:
        """Independent times: one for each pass, or for each block of a single pass."""
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
    """The clock by which all timings are compared: the GPU's clock if all of its times can be
    trusted, else the host's."""
    if all(t.gpu and t.trusted for t in timings):
        return "gpu"
    return "call" if all(t.per_call for t in timings) else ""


def seconds_of(t: Timing, clock: Clock) -> float:
    """The time of a call by this clock."""
    return t.gpu if clock == "gpu" else t.per_call


def without_timestamps(dev: Device) -> Device:
    """The device itself, changed so that it reports no timestamp queries."""
    dev.features = dev._context.features = dev.features - {"timestamp-query"}
    return dev


@dataclass(frozen=True)
class Calls:
    """Calls that are ready to be timed: by the clock `clock`, and by the host's clock in a loop
    with one sync at its end, if that gives another time."""

    sample: Sample
    clock: str
    loop: Sample | None = None


class GpuSample:
    """The seconds of n calls by timestamp queries around whole batches; by the host's clock if
    there are none."""

    def __init__(self, dev: Device, call: Callable[[], object]) -> None:
        self.dev, self.call = dev, call
        self.clock = "timestamps" if "timestamp-query" in dev.features else "wall"
        self.dispatches = 0  # number of dispatches of the last sample

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
    """Watches the device's clock by a kernel whose time on the warm device is known."""

    probe: Callable[[], float]
    warm: float
    seen: list[float] = field(default_factory=list)

    def ready(self) -> bool:
        """True if the device is as fast as when it was warm."""
        return self.probe() <= 1.05 * self.warm

    def poll(self) -> None:
        self.seen.append(self.probe() / self.warm)

    def verdict(self) -> tuple[float, str]:
        """The probe's time since the last verdict, divided by its warm time; and the reason why
        the device counts as cold, "" if it does not."""
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
    """Warm up until the time per call is steady, then read in blocks. A device that is already
    warm, according to the tracker, is warmed up for a fifth of the time.

    With a tracker there are two signs of a cold device: the probe next to a block ran too slowly,
    or each block was faster than the block before.

    before: the timing of earlier passes. The result has their blocks too; new blocks are equally
    long, and there are up to EXTRA more of them while the mean is not exact.
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
        # A sample that takes less than a tick of the clock returns 0.
        blocks.append(take(lambda: max(sample(calls) / calls, 1e-9), each))
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
    """Seconds of a call, from loops that are so long that their sync does not matter."""
    n = 1
    while (spent := loop(n)) < effort.loop * effort.reading / 4 and n < LONGEST_CHAIN:
        n = min(4 * n, LONGEST_CHAIN)
    n = _chain(effort.loop * effort.reading, max(spent / n, 1e-9))
    return tuple(loop(n) / n for _ in range(min(LOOPS, effort.rounds)))


def _warm_up(sample: Sample, effort: Effort, least: float) -> tuple[float, bool, float]:
    """Returns the seconds of warm-up, True if the time became steady, and the time of a call."""
    started = time.perf_counter()
    times, n = [max(sample(1), 1e-9)], 1
    if not effort.warm:
        return 0.0, False, times[-1]
    while True:
        # A single reading that is too short must not lead to thousands of long calls.
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
    """The number of calls that take this many seconds together."""
    return max(1, min(math.ceil(wanted / seconds), LONGEST_CHAIN))


def _trend(blocks: list[list[float]]) -> str:
    """A text about the gain if each block was faster than the block before it, and the whole gain
    is more than DRIFT and the spread of the readings; else ""."""
    medians = [statistics.median(b) for b in blocks]
    falling = len(medians) > 2 and all(a > b for a, b in pairwise(medians))
    spread = (max(blocks[-1]) - min(blocks[-1])) / medians[-1]
    if falling and medians[0] > (1 + DRIFT + spread) * medians[-1]:
        return f"calls became {medians[0] / medians[-1] - 1:.0%} faster while they were timed"
    return ""
