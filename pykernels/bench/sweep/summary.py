"""The summary of a sweep: the geometric mean of each family, and the worst calls."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pykernels.bench.report import Report, Result
from pykernels.bench.table import digits, headline

from .grid import FAMILIES

__all__ = ["as_markdown", "beside", "lines", "ratio"]

Row = list[str]
WORST = 30  # number of rows in the table of the worst calls
LOW = 0.7  # a call with a lower ratio counts as slow


def beside(report: Report) -> list[str]:
    """The peers that have a time."""
    return sorted({p for r in report.results for p in r.peers if ratio(r, p)})


def ratio(r: Result, peer: str) -> float | None:
    """The peer's time of a call divided by our time, by the caller's clock."""
    return r.ratio(peer, "call")


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def families(report: Report, peer: str) -> Iterator[Row]:
    """For each family and dtype, the geometric mean of the ratios, the worst ratio, and the number
    of slow calls."""
    yield ["family", "dtype", "calls", f"mean x {peer}", "worst", f"below {LOW}"]
    for family in FAMILIES:
        for dtype in ("f32", "f16"):
            some = [r for r in report.results if (r.origin, r.dtype) == (family, dtype)]
            found = [x for r in some if (x := ratio(r, peer))]
            if found:
                slow = sum(x < LOW for x in found)
                numbers = f"{len(found)}", f"{mean(found):.2f}", f"{min(found):.2f}", f"{slow}"
                yield [family, dtype, *numbers]


def worst(report: Report, peer: str) -> Iterator[Row]:
    """The calls with the lowest ratios to a peer."""
    found = sorted((x, r) for r in report.results if (x := ratio(r, peer)))[:WORST]
    yield ["function", "call", "call us", f"{peer} us", f"x {peer}", "dispatches", "bodies"]
    for x, r in found:
        ours = r.timing.per_call * 1e6
        bodies = " + ".join(dict.fromkeys(b.partition(" ")[0] for b in r.bodies))
        cells = [digits(ours), digits(ours * x), f"{x:.2f}", f"{r.counts.dispatches}", bodies]
        yield [r.kernel, r.id, *cells]


def slowest(report: Report) -> Iterator[Row]:
    """The worst calls if there is no peer: the calls that reach the smallest fraction of the
    roofline, or that take longest."""
    found = sorted(report.results, key=lambda r: (r.share, -r.timing.per_call))[:WORST]
    yield ["function", "call", "call us", "share", "dispatches"]
    for r in found:
        share = f"{r.share:.2f}" if r.limit else ""
        yield [r.kernel, r.id, digits(r.timing.per_call * 1e6), share, f"{r.counts.dispatches}"]


def tables(report: Report) -> Iterator[tuple[str, list[Row]]]:
    for peer in beside(report):
        yield f"Beside {peer}, by the caller's clock", [*families(report, peer)]
        yield f"The worst calls beside {peer}", [*worst(report, peer)]
    if not beside(report):
        yield "No peer has a time; the calls that take longest for their work", [*slowest(report)]


def notes(report: Report) -> Iterator[str]:
    yield f"{len(report.results)} calls"
    unchecked = sum(r.check.size == 0 for r in report.results)
    if unchecked:
        yield f"{unchecked} calls are too large for numpy, and without torch were not checked"
    for what, why in report.failed.items():
        yield f"FAILED {what}: {why}"
    reasons: dict[tuple[str, str], int] = {}
    for r in report.results:
        for peer, found in r.peers.items():
            if isinstance(found, str):
                reasons[peer, found] = reasons.get((peer, found), 0) + 1
    for (peer, why), count in reasons.items():
        yield f"{peer} skipped for {count} calls: {why}"


def lines(report: Report) -> Iterator[str]:
    """The summary as text for a terminal."""
    yield from headline(report)
    for title, rows in tables(report):
        yield title
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            yield "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
    yield from notes(report)


def as_markdown(report: Report) -> Iterator[str]:
    """The summary as Markdown."""
    yield from (f"- {line}" for line in headline(report))
    yield f"- `{report.meta['command']}`"
    for title, (names, *rows) in tables(report):
        yield from ("", title, "", f"| {' | '.join(names)} |", "|" + "---|" * len(names))
        yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""
    yield from (f"- {n}" for n in notes(report))
