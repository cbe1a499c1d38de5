"""Merges several reports of one adapter: the results of the last report, plus results that only
earlier reports have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pykernels.errors import PyKernelsError

from .clock import Timing
from .report import Report, Result

__all__ = ["in_order", "merge"]

ENGINES = ("wgpu", "dawn", "engine")  # these peers run this project's own kernels


def merge(reports: Sequence[Report]) -> Report:
    """Results by case: the time of a later report replaces the time of an earlier report. If the
    later report has no peers, the peers of the earlier report stay, because their times do not
    depend on our kernels. The times of the other engine do not stay, because it runs our kernels.
    Date, ceilings and limits come from the last report; a note names the older results.

    Raises PyKernelsError for reports of different adapters or drivers.
    """
    last = reports[-1]
    for r in reports:
        for what in ("adapter", "driver"):
            if r.meta[what] != last.meta[what]:
                raise PyKernelsError(
                    f"[bench] the reports differ in {what}: {r.meta[what]} and {last.meta[what]}"
                )
    found: dict[tuple[str, str, str, str], Result] = {}
    for r in reports:
        for result in r.results:
            found[result.key] = _joined(found.get(result.key), result)
    for result in found.values():
        ceilings = last.ceilings.get(result.engine)
        if ceilings is not None:
            result.limit = result.limit_by(ceilings)
    now = {r.key for r in last.results}
    older = sum(key not in now for key in found)
    fresh = {r.key for r in last.results if r.peers}
    kept = sum(bool(r.peers) and r.key in now - fresh for r in found.values())
    dates = ", ".join(dict.fromkeys(r.meta["date"] for r in reports[:-1]))
    notes = [last.meta["note"]] if last.meta.get("note") else []
    notes += [f"{older} cases are of earlier runs ({dates})"] if older else []
    notes += [f"peers of {kept} cases are of earlier runs ({dates})"] if kept else []
    meta = dict(last.meta)
    meta["versions"] = {k: v for r in reports for k, v in r.meta["versions"].items()}
    meta["note"] = "; ".join(notes)
    return Report(meta, last.ceilings, sorted(found.values(), key=in_order), last.failed)


def in_order(r: Result) -> tuple[object, ...]:
    """The sort key of results: by kernel, and then the largest case first."""
    return r.kernel, -r.counts.nbytes, r.id, r.key


def _joined(old: Result | None, new: Result) -> Result:
    if old is None or new.peers:
        return replace(new)
    kept: dict[str, Timing | str] = {
        k: v for k, v in old.peers.items() if k not in ENGINES and isinstance(v, Timing)
    }
    return replace(new, peers=kept)
