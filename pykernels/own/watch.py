"""Builds a folder of kernels again whenever one of its files changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from .package import Built, SourceError, build_package

__all__ = ["watch"]

EVERY = 0.2  # seconds between two checks


def watch(
    folder: Path,
    into: Path,
    *,
    validate: Literal["auto", "require", "skip"] = "auto",
    report: Callable[[str], None] = print,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Built | SourceError]:
    """Yield the result of each build, the first one at once, until the caller stops."""
    before: dict[Path, tuple[int, int]] | None = None
    while True:
        now = _state(folder, into)
        if now == before:
            wait(EVERY)
            continue
        before = now
        try:
            yield build_package(folder, into, validate=validate, report=report)
        except SourceError as e:
            yield e


def _state(folder: Path, into: Path) -> dict[Path, tuple[int, int]]:
    """The time and the size of each file that a build may read. A file that an editor replaces at
    this moment may be missing."""
    skip = into.resolve()
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [
            f for f in folders if f[0] not in "._" and Path(root, f).resolve() != skip
        ]  # fmt: skip
        for path in (Path(root, n) for n in names if n.endswith((".wgsl", ".toml", ".py"))):
            try:
                stat = path.stat()
            except OSError:
                continue
            found[path] = stat.st_mtime_ns, stat.st_size
    return found
