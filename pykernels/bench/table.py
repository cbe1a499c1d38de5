"""The table of a run, for a terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterator
from typing import Any

from .clock import Clock
from .report import Report, Result

__all__ = ["as_csv", "digits", "headline", "markdown", "table", "where"]

Row = list[str]
PEERS = ("torch", "ort", "numpy", "naive", "wgpu", "dawn")  # in this order


def where(report: Report) -> str:
    """Adapter, driver and versions in one line."""
    m = report.meta
    engines = ", ".join(f"{k} {v}" for k, v in m["engines"].items())
    checks = "" if m["checks"] else ", unchecked shaders"
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items())
    return f"{m['adapter']} ({m['backend']}, {m['driver']}), {engines}{checks}; {versions}"


def headline(report: Report) -> Iterator[str]:
    """The lines above the table."""
    m = report.meta
    yield f"{m['date']} UTC, {where(report)}"
    if m.get("note"):
        yield m["note"]
    if m.get("type") == "CPU":
        yield "a software driver: times only show that everything runs"
    for engine, c in report.ceilings.items():
        half = f", {digits(c.fma16 / 1e12)} in f16" if c.fma16 else ""
        yield (
            f"ceilings of {engine}: fill {c.fill / 1e9:.0f} GB/s, copy {c.copy / 1e9:.0f} GB/s, "
            f"multiply-adds {digits(c.fma32 / 1e12)} TFLOP/s{half}, "
            f"launch {c.launch_gpu * 1e6:.1f} us on the device, "
            f"{c.launch_host * 1e6:.1f} us on the host"
        )


class _Columns:
    """The columns that a report needs."""

    def __init__(self, report: Report) -> None:
        results = report.results
        named = {p for r in results for p in r.peers if r.ratio(p)}
        self.peers = sorted(named, key=lambda p: (PEERS.index(p) if p in PEERS else 99, p))
        by_gpu = {p for r in results for p in r.peers if r.clock_beside(p) == "gpu"}
        self.call_peers = [
            p for p in self.peers if p in by_gpu and any(r.ratio(p, "call") for r in results)
        ]
        small = any(0 < r.speed < 1e9 for r in results)
        self.speed, self.unit = ("GFLOP/s", 1e9) if small else ("TFLOP/s", 1e12)
        self.gpu = any(r.clock == "gpu" for r in results)
        self.engines = len({r.engine for r in results}) > 1
        self.caches = len({_state(r) for r in results}) > 1
        self.sets = any(r.sets for r in results)

    @property
    def left(self) -> Row:
        """The names of columns that contain text."""
        engine = ["engine"] if self.engines else []
        return ["kernel", "case", *engine, *(["cache"] if self.caches else [])]

    @property
    def names(self) -> Row:
        numbers = ["error", "gpu us", "call us", "±", "GB/s", self.speed, "share"]
        numbers += ["sets"] if self.sets else []
        numbers += [f"x {p}" for p in self.peers]
        return [*self.left, *numbers, *(f"call x {p}" for p in self.call_peers), ""]

    @property
    def spare(self) -> Row:
        """The columns that a narrow table drops, in this order. If the column of kernels is
        dropped, each kernel's name gets a line of its own. The columns of the case, the error, the
        noise and the decisive time always stay."""
        called = [f"call x {p}" for p in reversed(self.call_peers)]
        peers = [f"x {p}" for p in reversed(self.peers)]
        peers += ["sets"] if self.sets else []
        other = "call us" if self.gpu else "gpu us"
        return [*called, *peers, "kernel", "share", other, self.speed, "GB/s"]

    def row(self, r: Result) -> Row:
        t = r.timing
        cells = [r.kernel, r.id]
        cells += [r.engine] if self.engines else []
        cells += [_state(r)] if self.caches else []
        cells += [f"{r.check.error:.0e}" if r.check.error else "0"]
        speed = digits(r.speed / self.unit) if r.counts.operations else ""
        share = f"{r.share:.2f}" if r.limit else ""
        cells += [digits(s * 1e6) if s else "" for s in (t.gpu, t.per_call)]
        cells += [f"{r.noise:.1%}" if r.noise else "", digits(r.rate / 1e9), speed, share]
        cells += [_sets(r)] if self.sets else []
        cells += [_ratio(r, p, r.clock_beside(p)) for p in self.peers]
        cells += [_ratio(r, p, "call") for p in self.call_peers]
        return [*cells, _flags(r)]


NO_INTERVAL = "*"


def _ratio(r: Result, peer: str, clock: Clock) -> str:
    """A ratio and half of its interval, or a ratio with the mark NO_INTERVAL."""
    x, i = r.ratio(peer, clock), r.interval(peer, clock)
    if x is None:
        return ""
    if i is None:
        return f"{x:.2f}{NO_INTERVAL}"
    return f"{x:.2f} ±{math.sqrt(i.high / i.low) - 1:.1%}"


def _state(r: Result) -> str:
    """The state of the caches; for older files, the requested state."""
    return r.state if r.sets else r.cache


def _sets(r: Result) -> str:
    """The number of tensor sets that calls use in turn, and the bytes of a set."""
    if not r.sets:
        return ""
    size, unit = r.rotated / r.sets, "B"
    for larger in ("KiB", "MiB", "GiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{r.sets} x {digits(size)} {unit}"


def _flags(r: Result) -> str:
    """The marks at the end of a row."""
    t = r.timing
    found = {"COLD": bool(t.cold), "unsteady": not t.steady, "untrusted": not t.trusted}
    return " ".join(name for name, holds in found.items() if holds)


def digits(x: float) -> str:
    """Three significant digits, or all digits before the decimal point if there are more."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}" if x >= 1e-4 else "0"


def table(report: Report, width: int = 100) -> Iterator[str]:
    """The table as text, at most `width` characters wide if possible."""
    columns = _Columns(report)
    names = columns.names
    rows = [names, *(columns.row(r) for r in report.results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept, left_out = list(range(len(names))), []
    for name in columns.spare:
        indent = 0 if 0 in kept else 2
        if indent + sum(widths[i] + 2 for i in kept) - 2 > width:
            kept.remove(names.index(name))
            left_out.append(name)
    for line in headline(report):
        yield from _wrapped(line, width)
    title, titled = names[0], 0 not in kept
    for row in rows:
        if titled and row[0] != title:
            title = row[0]
            yield title
        cells = (
            row[i].ljust(widths[i]) if i < len(columns.left) else row[i].rjust(widths[i])
            for i in kept
        )
        yield "  " * titled + "  ".join(cells).rstrip()
    missing = ", ".join(name for name in left_out if name != "kernel")
    if missing:
        yield from _wrapped(f"no room for {missing}: --markdown writes all columns", width)
    for line in _notes(report):
        yield from _wrapped(line, width)


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(
        line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def markdown(report: Report) -> Iterator[str]:
    """The table for a README."""
    columns = _Columns(report)
    names, left = columns.names, len(columns.left)
    for line in headline(report):
        yield f"- {line}"
    yield f"- `{report.meta['command']}`"
    yield ""
    yield f"| {' | '.join(names[:-1])} | |"
    yield "|" + "|".join("---" if i < left else "--:" for i in range(len(names))) + "|"
    for r in report.results:
        yield f"| {' | '.join(columns.row(r))} |"
    notes = list(_notes(report))
    if notes:
        yield ""
        yield from (f"- {n}" for n in notes)


def as_csv(report: Report) -> str:
    """All numbers as CSV, with a line for each result; unknown numbers are empty."""
    columns = _Columns(report)
    rows = []
    for r in report.results:
        t = r.timing
        row: dict[str, Any] = {
            "kernel": r.kernel, "case": r.id, "engine": r.engine, "cache": _state(r),
            "sets": _sets(r), "error": r.check.error,
            "gpu us": t.gpu * 1e6 or "", "call us": t.per_call * 1e6 or "",
            "noise": r.noise, "GB/s": r.rate / 1e9, "GFLOP/s": r.speed / 1e9,
            "share": r.share or "", "bytes": r.counts.nbytes, "operations": r.counts.operations,
            "flags": _flags(r),
        }  # fmt: skip
        for p in columns.peers:
            i = r.interval(p)
            low, high = ("", "") if i is None else (i.low, i.high)
            row |= {f"x {p}": r.ratio(p), f"x {p} low": low, f"x {p} high": high}
        row |= {f"call x {p}": r.ratio(p, "call") for p in columns.call_peers}
        rows.append({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0]] if rows else ["kernel"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _notes(report: Report) -> Iterator[str]:
    single = [p for r in report.results for p in r.peers if r.ratio(p) and not r.interval(p)]
    if single:
        names = ", ".join(dict.fromkeys(single))
        yield f"no interval where {NO_INTERVAL}: {names} or ours had one pass (--alternate 5: five)"
    for r in report.results:
        if r.timing.cold:
            yield f"COLD {r.kernel} {r.id}: {r.timing.cold}; its time says nothing"
        if r.parts:
            parts = ", ".join(f"{seconds * 1e6:.1f} us {label}" for label, seconds in r.parts)
            yield f"parts of {r.kernel} {r.id}: {parts}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for r in report.results:
        for peer, found in r.peers.items():
            if isinstance(found, str):
                reasons.setdefault((peer, found), []).append(r.kernel)
    for (peer, why), kernels in reasons.items():
        names = ", ".join(dict.fromkeys(kernels))
        cases = f"{len(kernels)} case{'s' * (len(kernels) > 1)}"
        yield f"{peer} skipped for {cases} of {names}: {why}"
    for what, why in report.failed.items():
        yield f"FAILED {what}: {why}"
