"""Compares two versions: fresh processes of both versions take turns, and each process is one
sample.

Some differences between runs (places in memory, choices of the driver, other programs) are the same
for all passes of a process, so passes cannot measure them. Processes can. A case that looks
different is measured once more, with the same number of fresh processes, and only these processes
decide. The chance that equal code is called slower or faster is the product of the levels of both
stages.

With a time limit, undecided cases are measured further, and each case is looked at several times.
The first stage of a look uses all readings so far. The second stage uses only the next batch, which
has as many processes as all batches before it. The sizes of the batches are fixed beforehand, and
the looks share FALSE_ALARMS, so the chances of all looks together do not exceed it.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pykernels.errors import PyKernelsError

from .clock import Clock, Timing, clock_of, seconds_of
from .compare import UNMEASURED, Change, Comparison, differences, name_of
from .intervals import FALSE_ALARMS, Interval, student, variance, welch
from .report import Report

__all__ = [
    "CEILINGS",
    "Measured", "Side", "Verdict", "against", "level_of", "order", "paired",
    "smallest",
]  # fmt: skip

POWER = 0.95
# The environment variable that tells the processes to measure no ceilings: on a software driver the
# device's clock is not watched, and ceilings would take most of the time without showing a change.
CEILINGS = "PYKERNELS_BENCH_CEILINGS"

Side = Literal["old", "new"]
Measured = Mapping[str, Sequence[float]]  # for each case, one time from each process
Pair = tuple[Measured, Measured]
Measure = Callable[[Sequence[str] | None, int], Pair]
Kind = Literal["slower", "faster", "slightly slower", "the same", "too noisy", "missing"]
RANKS: list[Kind] = ["missing", "slower", "too noisy", "slightly slower", "faster", "the same"]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a case, its interval, and the smallest slowdown that the run can show."""

    case: str
    kind: Kind
    interval: Interval | None = None
    smallest: float = math.inf  # the smallest slowdown, as a share, that the run can show
    again: bool = False  # measured a second time
    before: float = 0.0  # seconds: the mean of the old version, then of the new version
    after: float = 0.0

    def unconfirmed(self, threshold: float) -> Verdict:
        """The verdict on a case that looked different when there was no time for the second
        stage."""
        below = self.interval is not None and self.interval.high < 1 + threshold
        return replace(self, kind="the same" if below else "too noisy")


def level_of(cases: int, look: int | None = None) -> float:
    """The significance level of each of the two stages for `cases` cases. With a time limit there
    are many looks; the levels of all looks, starting with look 0, add up to FALSE_ALARMS."""
    part = 1.0 if look is None else 6 / (math.pi * (look + 1)) ** 2
    return math.sqrt(part * FALSE_ALARMS / max(cases, 1))


def order(processes: int, seed: int) -> list[Side]:
    """The side (old or new) of each process; in each pair of processes the order is random."""
    draw, turns = random.Random(seed), list[Side]()
    for _ in range(processes):
        pair: list[Side] = ["old", "new"]
        draw.shuffle(pair)
        turns += pair
    return turns


def smallest(old: Sequence[float], new: Sequence[float], level: float) -> float:
    """The smallest slowdown, as a share, that such readings show with a probability of POWER."""
    if min(len(old), len(new)) < 2:
        return math.inf
    parts = [variance([math.log(t) for t in side]) / len(side) for side in (old, new)]
    freedom = len(old) + len(new) - 2
    factor = student(1 - level / 2, freedom) + student(POWER, freedom)
    return math.expm1(factor * math.sqrt(sum(parts)))


def paired(
    measure: Measure, threshold: float, more: Callable[[int], bool] | None = None
) -> Iterator[Verdict]:
    """The verdict on each case; failures come first.

    Args:
        measure: a function that returns the times of the old and of the new version, from fresh
            processes. Its arguments are the cases (None means all) and a factor on the usual number
            of processes. It is called once, and once more for cases that look different.
        threshold: the slowdown, as a share, from which a case counts as slower.
        more: a function of the factor of a batch: True if there is time for this batch. If given,
            cases that are too noisy are measured until they are decided or the time is over.
    """
    pool = measure(None, 1)
    names = [*dict.fromkeys([*pool[0], *pool[1]])]
    found, asked = dict[str, Verdict](), names
    for look in itertools.count():
        level, size = level_of(len(names), look if more else None), 2**look
        found |= {n: _verdict(n, pool, level, threshold, look > 0) for n in asked}
        flagged = [n for n in asked if _differs(found[n])]
        noisy = [n for n in asked if found[n].kind == "too noisy"]
        goes_on = more is not None and bool(noisy or flagged) and more(size)
        if look and not goes_on:
            found |= {n: found[n].unconfirmed(threshold) for n in flagged}
            break
        wanted = [n for n in asked if n in flagged or (goes_on and n in noisy)]
        if not wanted:
            break
        fresh = measure(wanted, size)
        found |= {n: _verdict(n, fresh, level, threshold, True) for n in flagged}
        pool = _joined(pool, fresh, wanted)
        asked = [n for n in wanted if found[n].kind == "too noisy"]
        if not goes_on or not asked:
            break
    yield from sorted(found.values(), key=lambda v: RANKS.index(v.kind))


def _joined(pool: Pair, fresh: Pair, cases: Sequence[str]) -> Pair:
    old, new = ({c: [*a.get(c, ()), *b.get(c, ())] for c in cases}
                for a, b in zip(pool, fresh, strict=True))  # fmt: skip
    return old, new


def _differs(v: Verdict) -> bool:
    return v.interval is not None and (v.interval.low > 1 or v.interval.high < 1)


def _verdict(name: str, measured: Pair, level: float, threshold: float, again: bool) -> Verdict:
    old, new = (side.get(name, ()) for side in measured)
    if not old or not new:
        return Verdict(name, "missing", again=again)
    i = welch(old, new, level)
    kind: Kind = "the same"
    if i.low > 1 and i.ratio >= 1 + threshold:
        kind = "slower"
    elif i.high >= 1 + threshold:
        kind = "too noisy"
    elif i.low > 1 or i.high < 1:
        kind = "slightly slower" if i.low > 1 else "faster"
    means = [statistics.geometric_mean(side) for side in (old, new)]
    return Verdict(name, kind, i, smallest(old, new, level), again, *means)


def against(
    python: str, kernels: Sequence[str], options: Sequence[str], *, processes: int,
    threshold: float, seed: int, say: Callable[[str], None], seconds: float | None = None,
) -> Comparison:  # fmt: skip
    """Compare this version with the version of another interpreter, to find cases that became
    slower.

    Args:
        python: the interpreter of the old version, or its virtual environment.
        kernels, options: arguments for `pykernels bench`.
        processes: the number of processes of each version; cases that look different are measured
            again with the same number.
        threshold: the slowdown, as a share, from which a case counts as slower.
        seed: the seed of the random order in which the versions take turns.
        say: a function that gets a line about each process.
        seconds: the time limit; until then, cases that are too noisy are measured further. With
            None there are no further measurements.

    Raises:
        PyKernelsError: an interpreter cannot run the bench.
    """
    runs = _Processes(_interpreter(python), kernels, options, processes, seed, say)
    more = None if seconds is None else runs.until(time.monotonic() + seconds)
    changes = [runs.change(v) for v in paired(runs.measure, threshold, more)]
    changes += runs.unmeasured({c.what for c in changes})
    changes.sort(key=lambda c: (c.kind not in UNMEASURED, c.kind == "new"))
    basis = f"{processes} processes of each version in pairs of random order (--seed {seed})"
    if runs.total > processes:
        basis += f", {runs.total} with those of what was measured again"
    found = [*differences(runs.last["old"], runs.last["new"])] if len(runs.last) == 2 else []
    return Comparison(changes, found, False, basis)


def _interpreter(python: str) -> str:
    """The interpreter of a virtual environment, or `python` itself."""
    inside = [Path(python, "bin", "python"), Path(python, "Scripts", "python.exe")]
    return next((str(p) for p in inside if p.is_file()), python)


class _Processes:
    """Runs of both versions, and their measurements."""

    def __init__(
        self, python: str, kernels: Sequence[str], options: Sequence[str], processes: int,
        seed: int, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._python: dict[Side, str] = {"old": python, "new": sys.executable}
        self._kernels, self._options = kernels, options
        self._processes, self._seed, self._say = processes, seed, say
        self._kernel_of: dict[str, str] = {}
        self._clock: dict[str, Clock] = {}
        self._batches, self._last = 0, 0.0  # seconds that the last process took
        self.total = 0  # number of processes of each version
        self._named: dict[str, str] = {}  # the name of each case in `Report.failed`
        self._cold: dict[str, str] = {}
        self._timed: dict[Side, set[str]] = {"old": set(), "new": set()}
        self._failed: dict[Side, dict[str, str]] = {"old": {}, "new": {}}
        self.last: dict[Side, Report] = {}

    def until(self, end: float) -> Callable[[int], bool]:
        """A function that returns True if a batch of `size` times the usual number of processes
        will be done before `end`."""
        return lambda size: time.monotonic() + 2 * size * self._processes * self._last <= end

    def measure(self, cases: Sequence[str] | None, size: int = 1) -> Pair:
        """Times of the old and the new version, from fresh processes of both."""
        kernels = self._kernels if cases is None else {self._kernel_of[c]: 0 for c in cases}
        timings: dict[Side, dict[str, list[Timing]]] = {"old": {}, "new": {}}
        turns = order(size * self._processes, self._seed + self._batches)
        self._batches += 1
        self.total += size * self._processes
        for i, side in enumerate(turns):
            self._say(f"process {i + 1} of {len(turns)}: {side}")
            start = time.monotonic()
            report = self._run(side, [*kernels])
            self._last = time.monotonic() - start
            self.last[side] = report
            self._failed[side] |= report.failed
            for r in report.results:
                name = name_of(r)
                self._kernel_of[name], self._named[name] = r.kernel, f"{r.kernel} {r.id} {r.engine}"
                self._timed[side].add(name)
                if r.timing.cold:
                    self._cold[name] = r.timing.cold
                else:
                    timings[side].setdefault(name, []).append(r.timing)
        old, new = timings["old"], timings["new"]
        self._clock |= {c: clock_of([*old[c], *new[c]]) for c in old.keys() & new.keys()}
        found = [
            {c: [seconds_of(t, self._clock[c]) for t in side[c]]
             for c in side if self._clock.get(c)}
            for side in (old, new)
        ]  # fmt: skip
        return found[0], found[1]

    def _run(self, side: Side, kernels: Sequence[str]) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.json"
            command = [self._python[side], "-m", "pykernels", "bench", *kernels, *self._options]
            try:
                done = subprocess.run(
                    [*command, "--passes", "1", "--json", str(path)], capture_output=True,
                    text=True, check=False, env=os.environ | {CEILINGS: "0"},
                )  # fmt: skip
            except OSError as e:
                raise PyKernelsError(f"[bench] {command[0]} does not run: {e}") from None
            if not path.is_file():
                told = (done.stderr or done.stdout).strip().splitlines()
                raise PyKernelsError(
                    f"[bench] the bench of {command[0]} ended with exit code {done.returncode}: "
                    f"{told[-1] if told else 'no output'}"
                )
            return Report.load(path)

    def unmeasured(self, known: Collection[str]) -> Iterator[Change]:
        """Cases that failed, and cases without times of both versions."""
        old, new = self._timed["old"], self._timed["new"]
        failed, added = self._failed, set[str]()
        for name in dict.fromkeys(n for n in self._named if n not in known):
            what = self._named[name]
            if name not in old:
                added.add(what)
                why = failed["old"].get(what, "")
                yield Change(name, "new", note=f"the old version has none: {why}" if why else "")
            elif name not in new:
                if what not in failed["new"]:
                    yield Change(name, "missing", note="the new version has none")
            elif name in self._cold:
                yield Change(name, "cold", note=self._cold[name])
            else:
                yield Change(name, "no common clock")
        for side, found in failed.items():
            for what, why in found.items():
                if side == "new" or (what not in added and what not in failed["new"]):
                    yield Change(what, "failed", note=f"{why} (in the {side} version)")

    def change(self, v: Verdict) -> Change:
        """A verdict as a row of a comparison."""
        if v.interval is None:
            return Change(v.case, "missing", note="one of the versions has no time of it")
        shown = f"shows {v.smallest:.1%} or more"
        return Change(
            v.case, v.kind, self._clock[v.case], v.before, v.after, v.interval,
            f"{shown}, measured again" if v.again else shown,
        )  # fmt: skip
