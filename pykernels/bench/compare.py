"""Finds cases that became slower between two runs of the bench, and reports cases for which the
runs are not exact enough."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pykernels.dtypes import DTYPES
from pykernels.errors import PyKernelsError

from .case import Case
from .cases import cases, problem
from .clock import Clock, Timing, clock_of, seconds_of
from .intervals import (
    FALSE_ALARMS,
    FLOOR,
    PASSES,
    SINGLE,
    THRESHOLD,
    Interval,
    Scatter,
    student,
    welch,
)  # fmt: skip
from .report import Report, Result

__all__ = ["Change", "Comparison", "again", "compare", "differences", "name_of"]

Kind = Literal[
    "failed", "interrupted", "missing", "cold", "no common clock", "slower", "too noisy",
    "unsteady", "slightly slower", "faster", "the same", "new",
]  # fmt: skip
# Kinds of changes that decide the exit code of a comparison: see `Comparison.exit_code`.
UNMEASURED: tuple[Kind, ...] = ("failed", "interrupted", "missing", "cold", "no common clock")
UNDECIDED: tuple[Kind, ...] = ("too noisy", "unsteady")


@dataclass(frozen=True)
class Change:
    """One case in both runs: its times in seconds by one clock, and the interval of their ratio."""

    what: str
    kind: Kind
    clock: Clock = ""
    before: float = 0.0
    after: float = 0.0
    interval: Interval | None = None
    note: str = ""  # the reason for the verdict, or further differences of the case

    def record(self) -> dict[str, Any]:
        found = {k: v for k, v in vars(self).items() if k != "interval"}
        return found | ({} if self.interval is None else vars(self.interval))


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: the `differences` of the runs themselves, and a change for each
    case."""

    changes: list[Change]
    differences: list[str]
    same_run: bool
    basis: str  # says where the intervals come from

    def of(self, *kinds: Kind) -> list[Change]:
        return [c for c in self.changes if c.kind in kinds]

    @property
    def exit_code(self) -> int:
        """3 if a case was not measured, else 1 if a case is slower, else 4 if a case is undecided,
        else 0."""
        if self.same_run:
            return 0
        if self.of(*UNMEASURED):
            return 3
        return 1 if self.of("slower") else 4 if self.of(*UNDECIDED) else 0

    def lines(self) -> Iterator[str]:
        """The comparison as text."""
        if self.same_run:
            yield "the same run"
            return
        yield from self.differences
        for c in self.changes:
            if c.kind != "the same" or c.note:
                yield _line(c)
        yield self.basis
        counts = [(k, len(self.of(k))) for k in (*UNMEASURED, "slower", *UNDECIDED)]
        told = "".join(f", {n} {k}" for k, n in counts if n and k != "slower")
        yield f"{len(self.changes)} cases: {len(self.of('slower'))} slower{told}"

    def markdown(self) -> Iterator[str]:
        """A table of all cases."""
        yield from (f"- {line}" for line in (*self.differences, self.basis))
        yield ""
        yield "| case | verdict | clock | before, us | after, us | after / before | interval | |"
        yield "|---|---|---|--:|--:|--:|--:|---|"
        for c in self.changes:
            times = ["", "", "", ""]
            if c.interval is not None:
                i = c.interval
                times = [f"{c.before * 1e6:.1f}", f"{c.after * 1e6:.1f}", f"{i.ratio:.3f}",
                         f"{i.low:.3f} to {i.high:.3f}"]  # fmt: skip
            yield f"| {' | '.join([c.what, c.kind, c.clock, *times, c.note])} |"

    def annotations(self) -> Iterator[str]:
        """Annotations for GitHub: an error for each case that fails, and a warning for each
        undecided case."""
        for c in () if self.same_run else self.changes:
            if c.kind in (*UNMEASURED, "slower"):
                yield f"::error title=pykernels bench::{_line(c)}"
            elif c.kind in UNDECIDED:
                yield f"::warning title=pykernels bench::{_line(c)}"

    def record(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code, "same_run": self.same_run, "basis": self.basis,
            "differences": self.differences, "changes": [c.record() for c in self.changes],
        }  # fmt: skip


def _line(c: Change) -> str:
    note = f": {c.note}" if c.note else ""
    if c.interval is None:
        return f"{c.kind}: {c.what}{note}"
    i = c.interval
    return (
        f"{c.kind:<15}{c.before * 1e6:>11.1f} us ->{c.after * 1e6:>11.1f} us {i.ratio - 1:>+8.1%} "
        f"({i.low - 1:+.1%} to {i.high - 1:+.1%}, {c.clock})  {c.what}{note}"
    )


def compare(
    old: Report, new: Report, *, threshold: float = THRESHOLD, baseline: Sequence[Report] = (),
    wanted: Callable[[str, str], bool] = lambda kernel, what: True,
) -> Comparison:  # fmt: skip
    """The changes from one run to another; failures come first.

    A case is slower if its interval lies above 1 and its ratio is 1 + threshold or more; it is not
    slower if the interval ends below 1 + threshold; else it is undecided. The intervals hold for
    all cases together (see FALSE_ALARMS).

    Args:
        threshold: the slowdown, as a share, from which a case counts as slower.
        baseline: two or more other runs of the code of `old` on this machine. They show how much
            times differ from run to run.
        wanted: a function that gets the kernel and the name of a case, and returns True if the case
            is compared.

    Raises:
        PyKernelsError: `baseline` has only one run.
    """
    if len(baseline) == 1:
        raise PyKernelsError("[bench] a baseline needs two runs of the same code besides A")
    before, after = [
        {r.key: r for r in run.results if wanted(r.kernel, f"{r.kernel} {r.id} {r.name}")}
        for run in (old, new)
    ]
    known = [{r.key: r for r in b.results} for b in baseline]
    level = FALSE_ALARMS / max(len(before.keys() & after.keys()), 1)
    clocks: tuple[Clock, ...] = ("gpu", "call")
    scatter = {clock: _scatter(before, known, clock) for clock in clocks}

    def ratio(a: Result, b: Result, clock: Clock) -> Interval:
        runs = _runs(a, known, clock)
        s = scatter[clock]
        if len(runs) < 3 or s.freedom < 2:
            return _two_runs(a.timing, b.timing, clock, level)
        own = Scatter.of([runs])
        wide = max(s.deviation, own.deviation) * math.sqrt(1 + 1 / len(runs))
        middle = statistics.fmean(math.log(t) for t in runs)
        difference = math.log(seconds_of(b.timing, clock)) - middle
        return Interval.around(difference, wide * student(1 - level / 2, s.freedom))

    interrupted = new.meta.get("note", "").startswith("interrupted")
    found = [_without(a, new, interrupted) for key, a in before.items() if key not in after]
    found += [_change(a, after[key], ratio, threshold) for key, a in before.items() if key in after]
    found += [Change(name_of(b), "new") for key, b in after.items() if key not in before]
    known_failures = {_failure(a) for a in before.values()}
    found += [
        Change(what, "failed", note=why) for what, why in new.failed.items()
        if what not in known_failures and wanted(what.partition(" ")[0], what)
    ]  # fmt: skip
    order = [*UNMEASURED, "slower", *UNDECIDED]
    found.sort(key=lambda c: (
        order.index(c.kind) if c.kind in order else 99, -(c.interval.ratio if c.interval else 0)
    ))  # fmt: skip
    same = _is_same(old, new)
    return Comparison(found, [*differences(old, new)], same, _basis(known))


def name_of(r: Result) -> str:
    """The name of a case in a comparison."""
    return f"{r.kernel} {r.id} ({r.engine}, {r.cache})"


def _failure(r: Result) -> str:
    """The key of this case in `Report.failed`."""
    return f"{r.kernel} {r.id} {r.engine}"


def _without(a: Result, new: Report, interrupted: bool) -> Change:
    """The change of a case without a time in the later run."""
    why = new.failed.get(_failure(a))
    if why is not None:
        return Change(name_of(a), "failed", note=why)
    return Change(name_of(a), "interrupted" if interrupted else "missing")


def _change(
    a: Result, b: Result, ratio: Callable[[Result, Result, Clock], Interval], threshold: float
) -> Change:
    what, note = name_of(b), _what_changed(a, b)
    if a.timing.cold or b.timing.cold:
        return Change(what, "cold", note=a.timing.cold or b.timing.cold)
    clock = clock_of((a.timing, b.timing))
    if not clock:
        return Change(what, "no common clock", note=f"{a.timing.clock}, then {b.timing.clock}")
    found = ratio(a, b, clock)
    kind: Kind = "the same"
    if found.low > 1 and found.ratio >= 1 + threshold:
        kind = "slower"
    elif found.high >= 1 + threshold:
        kind = "too noisy"
    elif not (a.timing.steady and b.timing.steady):
        kind = "unsteady"
    elif found.low > 1:
        kind = "slightly slower"
    elif found.high < 1:
        kind = "faster"
    times = seconds_of(a.timing, clock), seconds_of(b.timing, clock)
    return Change(what, kind, clock, *times, found, note)


def _two_runs(a: Timing, b: Timing, clock: Clock, level: float) -> Interval:
    floor = FLOOR if min(a.places, b.places) >= PASSES else SINGLE
    return welch(a.units(clock), b.units(clock), level, floor=floor)


def _runs(a: Result, known: Sequence[dict[Any, Result]], clock: Clock) -> list[float]:
    """The times of a case in all runs of the old code."""
    found = [a, *[run[a.key] for run in known if a.key in run]]
    timings = [r.timing for r in found if not r.timing.cold]
    return [s for t in timings if (s := seconds_of(t, clock))]


def _scatter(
    before: dict[Any, Result], known: Sequence[dict[Any, Result]], clock: Clock
) -> Scatter:  # fmt: skip
    return Scatter.of([_runs(a, known, clock) for a in before.values()] if known else [])


def _basis(known: Sequence[object]) -> str:
    if known:
        return f"from run to run: as {len(known) + 1} runs of the same code differ"
    return (
        f"from run to run: assumed to be {FLOOR:.0%}, or {SINGLE:.0%} of fewer than {PASSES} "
        "passes; --baseline with runs of the same code measures it"
    )


def _is_same(old: Report, new: Report) -> bool:
    run = old.meta.get("run")
    return bool(run) and run == new.meta.get("run")


def _what_changed(a: Result, b: Result) -> str:
    """Further differences of a case."""
    found = []
    if a.bodies and b.bodies and a.bodies != b.bodies:
        found.append(f"{' + '.join(a.bodies)}, then {' + '.join(b.bodies)}")
    if a.timing.clock != b.timing.clock:
        found.append(f"clock {a.timing.clock}, then {b.timing.clock}")
    return "; ".join(found)


def differences(a: Report, b: Report) -> Iterator[str]:
    """The differences between the runs themselves."""
    for what in (
        "adapter",
        "driver",
        "engines",
        "checks",
        "tuning",
        "passes",
        "rounds",
        "cpu",
        "commit",
    ):
        if a.meta.get(what) != b.meta.get(what):
            yield f"different {what}: {a.meta.get(what)}, then {b.meta.get(what)}"
    versions = a.meta["versions"] | b.meta["versions"]
    for name in versions:
        old, new = a.meta["versions"].get(name), b.meta["versions"].get(name)
        if old != new:
            yield f"different {name}: {old}, then {new}"
    for engine in a.ceilings.keys() & b.ceilings.keys():
        for name in ("fill", "copy", "fma32", "fma16"):
            was, now = getattr(a.ceilings[engine], name), getattr(b.ceilings[engine], name)
            if was and abs(now / was - 1) > SINGLE:
                yield f"the device itself: {name} of {engine} {now / was - 1:+.1%}"


def again(report: Report) -> Iterator[Case]:
    """The cases of a run that still exist."""
    edges = {0, 256, *map(int, re.findall(r"--edge[ =](\d+)", report.meta["command"]))}
    edges.add(report.settings.get("edge", 0))
    known = {(c.kernel, c.id): c for edge in sorted(edges) for c in cases(edge)}
    results = {(r.kernel, r.id): r for r in report.results}
    for key, result in results.items():
        yield from [known[key]] if key in known else _problem(result)


def _problem(r: Result) -> list[Case]:
    """The case of a result that --shape and --dtype asked for."""
    names = {d.short: name for name, d in DTYPES.items()}
    inputs, _, out = r.dtype.partition(">")
    first = inputs.split("x")[0]
    try:
        case = problem(r.kernel, r.shape, f"{names[first]}:{names[out or first]}")
    except (ValueError, TypeError, AttributeError):
        # the kernel or its problem does not exist any more
        return []
    return [case] if case.id == r.id else []
