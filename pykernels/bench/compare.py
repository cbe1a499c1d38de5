"""What got slower between two runs, beyond the noise of both, and what to run to find out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pykernels.dtypes import DTYPES

from .case import Case
from .cases import cases, problem
from .clock import Timing
from .report import Report, Result

__all__ = ["FLOOR", "PASSES", "SINGLE", "Change", "again", "compare", "describe"]

# What two runs of the same text may differ by beyond the noise that each sees: of at least PASSES
# passes each, and of fewer, which do not know what a place in memory does (docs/records/bench.md).
FLOOR, PASSES = 0.01, 3
SINGLE = 0.03

Kind = Literal["slower", "faster", "same", "only before", "only after", "cold"]


@dataclass(frozen=True)
class Change:
    """One case in both runs: the ratio of its times, and how far the ratio may be off by noise."""

    what: str
    kind: Kind
    before: float = 0.0
    after: float = 0.0
    allowed: float = 0.0

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else 0.0


def compare(a: Report, b: Report) -> list[Change]:
    """The changes from a to b, worst first. A case that ran on a cold device proves nothing."""
    before, after = {r.key: r for r in a.results}, {r.key: r for r in b.results}
    changes = [_change(before.get(key), after.get(key)) for key in before | after]
    return sorted(changes, key=lambda c: -c.ratio)


def _change(a: Result | None, b: Result | None) -> Change:
    found = b or a
    assert found is not None
    what = f"{found.kernel} {found.id} ({found.engine}, {found.cache})"
    if a is None or b is None:
        return Change(what, "only after" if a is None else "only before")
    old, new = a.timing.seconds, b.timing.seconds
    allowed = _allowed(a.timing, b.timing)
    kind: Kind = "same"
    if a.timing.cold or b.timing.cold:
        kind = "cold"
    elif new > old * (1 + allowed):
        kind = "slower"
    elif old > new * (1 + allowed):
        kind = "faster"
    return Change(what, kind, old, new, allowed)


def _allowed(a: Timing, b: Timing) -> float:
    """The floor, and three standard errors of the difference."""
    floor = FLOOR if min(a.places, b.places) >= PASSES else SINGLE
    return floor + 1.5 * math.hypot(a.noise, b.noise)


def describe(a: Report, b: Report, changes: list[Change]) -> Iterator[str]:
    """In words, for people."""
    for what in ("adapter", "driver", "engines", "checks"):
        if a.meta[what] != b.meta[what]:
            yield f"different {what}: {a.meta[what]}, then {b.meta[what]}"
    for engine in a.ceilings.keys() & b.ceilings.keys():
        for name in ("fill", "copy", "fma32", "fma16"):
            old, new = getattr(a.ceilings[engine], name), getattr(b.ceilings[engine], name)
            if old and abs(new / old - 1) > SINGLE:
                yield f"the device itself: {name} of {engine} {new / old - 1:+.1%}"
    for c in changes:
        if c.kind in ("slower", "faster", "cold"):
            yield (
                f"{c.kind:<7}{c.before * 1e6:>11.1f} us ->{c.after * 1e6:>11.1f} us "
                f"{c.ratio - 1:>+8.1%} (noise {c.allowed:.1%})  {c.what}"
            )
        elif c.kind != "same":
            yield f"{c.kind}: {c.what}"
    same = sum(c.kind == "same" for c in changes)
    slower = sum(c.kind == "slower" for c in changes)
    yield f"{len(changes)} cases: {slower} slower, {same} the same within the noise"


def again(report: Report) -> Iterator[Case]:
    """The cases of a run, those that there still are."""
    edges = {0, 256, *map(int, re.findall(r"--edge[ =](\d+)", report.meta["command"]))}
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
    except (ValueError, TypeError, AttributeError):  # no such kernel, or no such problem of it
        return []
    return [case] if case.id == r.id else []
