"""Validates many texts: validators run in parallel processes, and verdicts are cached.

A worker is ``python -m pykernels.validate._pool``: one job as JSON on stdin, its findings on
stdout. A worker shares no state with the calling process, so any program may start workers.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._apart import TIMEOUT, apart
from ._cache import Cache
from ._files import unique
from ._lints import Lints
from ._naga import find_naga
from ._tint import allow_experiments, experimental, find_tint
from ._types import Finding, Limits, Source, Target, Validator, knows

__all__ = ["Checker", "check"]

# A worker takes about 0.2 s to start, so fewer texts than this are checked in this process.
_FEW = 64
_CHUNK = 200


@dataclass(frozen=True)
class Checker:
    """A validator's name, version and options, from which another process can create it."""

    name: str
    version: str
    targets: tuple[Target, ...] = ()  # target languages, for naga
    ignore: tuple[str, ...] = ()  # ignored codes, for lints

    @property
    def options(self) -> tuple[str, ...]:
        """The options that a verdict depends on, besides the source."""
        return (self.name, self.version, *self.targets, "", *self.ignore)

    def run(self, sources: Sequence[Source]) -> list[Finding]:
        """Check texts in this process."""
        if self.name == "lint":
            return Lints(self.ignore).check(sources)
        if self.name == "naga":
            naga = find_naga()
            assert naga is not None
            return naga.check(sources, self.targets)
        tint: Validator | None = find_tint()
        assert tint is not None
        return tint.check(sources)


def check(
    sources: Sequence[Source], checkers: Sequence[Checker], *, cache: Path | None, jobs: int = 0
) -> list[Finding]:
    """The findings of all checkers. Equal texts are checked once; `cache` is a folder, or None."""
    groups = unique(sources)
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        done = [_start(pool, c, list(groups), cache) for c in checkers]
        findings = [f for part in done for f in _finish(*part)]
    by_name = {one.name: [s.name for s in same] for one, same in groups.items()}
    return [
        Finding(**{**asdict(f), "source": name}) for f in findings for name in by_name[f.source]
    ]


def _start(
    pool: ThreadPoolExecutor, checker: Checker, sources: Sequence[Source], folder: Path | None
) -> tuple[Cache | None, list[Finding], list[Any]]:
    """The cached findings, and the jobs that compute the other findings."""
    store = Cache(folder, checker.name, checker.options) if folder else None
    known: list[Finding] = []
    todo: list[Source] = []
    for s in (s for s in sources if knows(checker.name, s)):
        found = store.get(s) if store else None
        if found is None:
            todo.append(s)
        else:
            known += found
    # naga needs no worker, because naga-cli already runs in a separate process.
    here = checker.name == "naga" or len(todo) < _FEW
    size = max(len(todo), 1) if here else _CHUNK
    run = _here if here else _elsewhere
    apart_ = {s for s in todo if checker.name == "tint" and experimental(s.text)}
    kinds = ([s for s in todo if s not in apart_], [s for s in todo if s in apart_])
    chunks = [kind[i : i + size] for kind in kinds for i in range(0, len(kind), size)]
    return store, known, [pool.submit(run, checker, chunk) for chunk in chunks]


def _finish(store: Cache | None, known: list[Finding], jobs: list[Any]) -> list[Finding]:
    findings = list(known)
    for job in jobs:
        sources, found = job.result()
        findings += found
        if store:
            by_name: dict[str, list[Finding]] = {s.name: [] for s in sources}
            for f in found:
                by_name[f.source].append(f)
            for s in sources:
                if all(f.code != TIMEOUT for f in by_name[s.name]):
                    store.put(s, by_name[s.name])
    if store:
        store.save()
    return findings


def _here(checker: Checker, sources: list[Source]) -> tuple[list[Source], list[Finding]]:
    return sources, checker.run(sources)


def _elsewhere(checker: Checker, sources: list[Source]) -> tuple[list[Source], list[Finding]]:
    return sources, apart(asdict(checker), sources)


def _work() -> None:
    job = json.loads(sys.stdin.read())
    fields = job["checker"]
    checker = Checker(
        fields["name"], fields["version"], tuple(fields["targets"]), tuple(fields["ignore"])
    )
    sources = [
        Source(
            s["name"], s["text"], Limits(**s["limits"]) if s["limits"] else None,
            tuple(s["features"]), tuple((name, value) for name, value in s["overrides"]),
        )
        for s in job["sources"]
    ]  # fmt: skip
    if checker.name == "tint" and any(experimental(s.text) for s in sources):
        allow_experiments()
    tint = find_tint() if checker.name == "tint" else None
    found = tint.check_here(sources) if tint else checker.run(sources)
    json.dump([asdict(f) for f in found], sys.stdout)


if __name__ == "__main__":
    _work()
