"""Times calls briefly and saves each time in a file at once, so that an interrupted command
continues where it stopped."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pykernels.bench.case import Loaded, load
from pykernels.bench.clock import GpuSample, Sample, Tracker
from pykernels.device import Device
from pykernels.errors import PyKernelsError
from pykernels.forcing import force
from pykernels.tuning import Tuning, save

from .choices import text_of
from .problems import Problem

__all__ = ["LONGEST", "Kept", "Meter"]

LONGEST = 0.05  # most seconds of a dispatch: other programs that draw with the device wait for it
EXPECTED = LONGEST / 3  # most seconds that a call may be expected to take
FIRST = 1 << 16  # operations of the first call on a device of unknown speed
WORSE = 100  # a body may be this many times slower than the tile that gives the rate
GROWTH = 64  # a call may have at most this many times the work of the call before it
LINEAR = 0.8  # time grows at most as work^(1 / LINEAR), because caches become too small
WARM = 0.3  # seconds of warm-up, at the start and after the device was found cold
SPIN = 3e-3  # seconds of calls before the timed calls, on a warm device
READING = 1e-3  # seconds of a reading
READINGS = 5


class Kept:
    """Numbers by name, saved in a file that names the device. A file of another device is
    replaced."""

    def __init__(self, path: Path | None, of: Mapping[str, Any]) -> None:
        self.path, self.of = path, dict(of)
        self.found: dict[str, float | None] = {}
        if path is not None and path.is_file():
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                if data["of"] == self.of:
                    self.found = {
                        k: None if v is None else float(v) for k, v in data["found"].items()
                    }
            except (ValueError, KeyError, TypeError, AttributeError, OSError):
                pass  # ignores a damaged file
        self.reused = len(self.found)

    def get(self, name: str, measure: Callable[[], float | None]) -> float | None:
        """The number with this name; if it is not known yet, it is measured."""
        if name not in self.found:
            self.found[name] = measure()
            if self.path is not None:
                save(self.path, json.dumps({"of": self.of, "found": self.found}))
        return self.found[name]

    def forget(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class Meter:
    """Times calls on one device.

    No dispatch should take more than LONGEST, whatever the device and the body. So a problem is
    timed only if similar calls with less work were so short that it is expected to be short too.

    Attributes:
        longest: seconds of the longest dispatch so far.
        rate: operations per second of the slowest tile; 0 until it is known.
    """

    def __init__(self, dev: Device, kept: Kept, probe: Sample | None = None) -> None:
        self.dev, self.kept = dev, kept
        self.longest = self.rate = 0.0
        self.slow = dev.info["type"] == "CPU"
        self._loaded: tuple[Problem, Loaded] | None = None
        self._small: tuple[Problem, Loaded] | None = None
        self._tracker: Tracker | None = None
        if probe is not None and not self.slow:
            self._spin(probe, WARM)
            warm = min(probe(1) for _ in range(5))
            self._tracker = Tracker(lambda: probe(1), warm)
            self._probe = probe

    def seconds(self, p: Problem, choice: Any = None) -> float | None:
        """Seconds of a problem, with a choice; None if the choice is refused, or if the call would
        be too long."""
        name = f"{p.name}: {text_of(choice) if choice is not None else 'as planned'}"
        choices = () if choice is None else (choice,)
        return self.kept.get(name, lambda: self._seconds(p, *choices))

    def with_table(self, p: Problem, name: str, t: Tuning) -> float | None:
        """Seconds of a problem, planned with a table of this name; None if the call is refused, or
        would be too long."""
        return self.kept.get(f"{p.name}: {name}", lambda: self._seconds(p, tuning=t))

    def loaded(self, p: Problem) -> Loaded:
        if self._loaded is None or self._loaded[0] != p:
            self._loaded = None
            self.dev.trim()
            self._loaded = p, load(self.dev, p.case)
        return self._loaded[1]

    def _seconds(self, p: Problem, *choices: Any, tuning: Tuning | None = None) -> float | None:
        call = self.loaded(p)
        try:
            with force(self.dev, *choices, tuning=tuning):
                return self.time(GpuSample(self.dev, call)) if self.is_short(p) else None
        except PyKernelsError:
            return None

    def is_short(self, p: Problem) -> bool:
        """True if a call is expected to take at most EXPECTED seconds.

        A call of little work is short with any body. Before a call of more work, the same problem
        is run with shorter axes: first with little work, then with as much more work as the time of
        the previous run allows. Raises if the choice refuses one of these runs.
        """
        allowed, done = self.rate * EXPECTED / WORSE or FIRST, 0
        while p.operations > allowed:
            less = p.smaller(allowed)
            if not done < less.operations <= allowed:
                return False
            if self._small is None or self._small[0] != less:
                self._small = less, load(self.dev, less.case)
            seconds, done = self._once(GpuSample(self.dev, self._small[1])), less.operations
            allowed = done * min((EXPECTED / seconds) ** LINEAR, GROWTH)
        return True

    def _once(self, sample: Sample) -> float:
        """Seconds of one call, after a call that compiles and allocates."""
        sample(1)
        one = max(sample(1), 1e-7)
        self.longest = max(self.longest, one / max(getattr(sample, "dispatches", 1), 1))
        return one

    def time(self, sample: Sample) -> float:
        """Seconds of a call after a short warm-up; measured again if the device was cold."""
        one = self._once(sample)
        if one > LONGEST:
            return one
        found = one
        for _ in range(3):
            if not self.slow:
                one = self._spin(sample, SPIN, one)
            n = max(1, min(math.ceil(READING / one), 512))
            each = [sample(n) / n for _ in range(self._readings(n * one))]
            # On a shared host, a disturbance only makes a reading longer.
            found = min(each) if self.slow else statistics.median(each)
            if self._tracker is None or self._tracker.probe() <= 1.15 * self._tracker.warm:
                break
            self._spin(self._probe, WARM)
        return max(found, 1e-9)

    def _readings(self, each: float) -> int:
        return READINGS if each < 0.02 else 3

    def _spin(self, sample: Sample, seconds: float, one: float = 1e-4) -> float:
        """Keeps the device busy, and returns the time of a call."""
        until = time.perf_counter() + seconds
        while True:
            n = max(1, min(math.ceil(5e-3 / one), 512))
            one = max(sample(n) / n, 1e-7)
            if time.perf_counter() >= until:
                return one
