"""The memory of this process over time."""

from __future__ import annotations

import threading
from statistics import mean
from types import TracebackType

from bench.facts import resident

__all__ = ["COUNT", "LONG", "Resident", "grown"]

COUNT = 40  # samples of a run
LONG = 300.0  # seconds; a shorter run still fills its caches, and is not judged
MOST = 16.0  # MB


def grown(samples: list[float]) -> str:
    """What is wrong with samples at equal intervals, or nothing: the mean of the last quarter may
    be `MOST` above the mean of the second quarter."""
    quarter = len(samples) // 4
    before, after = mean(samples[quarter : 2 * quarter]), mean(samples[-quarter:])
    if after - before <= MOST:
        return ""
    return f"the process grew from {before:.0f} to {after:.0f} MB"


class Resident:
    """Samples the memory at equal intervals of a block of so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.samples: list[float] = []
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def _sample(self) -> None:
        while len(self.samples) < COUNT and not self._ended.wait(self._seconds / COUNT):
            found = resident()
            if not found:
                return
            self.samples.append(found / 1e6)

    def wait(self) -> None:
        """Wait for the last sample."""
        self._thread.join()

    def grown(self) -> list[str]:
        """What is wrong after the block, if it was long enough."""
        found = grown(self.samples) if self._seconds >= LONG and self.samples else ""
        return [found] if found else []

    def __enter__(self) -> Resident:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self._ended.set()
        self.wait()
