"""The progress of a build: "n of m" and the time left, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Part", "told"]

EVERY = 3.0  # seconds between two lines


class Part(NamedTuple):
    """A part of the work: the number of its steps, and its share of the time."""

    number: int
    work: float


def told(parts: Sequence[Part], what: str, report: Callable[[str], None]) -> Iterator[int]:
    """Yield the index of each part in turn, and report a line of progress every few seconds."""
    count, work = sum(p.number for p in parts), sum(p.work for p in parts)
    done, spent = 0, 0.0
    start = last = time.monotonic()
    for index, part in enumerate(parts):
        now = time.monotonic()
        if spent and now - last >= EVERY:
            last, left = now, (now - start) * (work - spent) / spent
            report(f"pykernels: {what}: {done} of {count}, about {left:.0f} s left")
        yield index
        done, spent = done + part.number, spent + part.work
