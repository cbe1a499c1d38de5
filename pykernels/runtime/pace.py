"""When recorded launches are submitted: soon after the device was idle, in growing batches.

An idle device should start early, but each submit costs the host as much as several launches. So
the first batch after a pause is small, and each batch is twice as large as the batch before it.
Batches grow up to `STEADY` while the device keeps up with the host, else without limit.

Sizes are counted in units. A unit is a launch, or the work that a data-centre GPU does while the
host records a launch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["FIRST", "STEADY", "Pace", "next_size", "work"]

UNIT_BYTES = 8 << 20
UNIT_OPERATIONS = 125_000_000
FIRST = 8.0
STEADY = 128.0
# A driver ends a process whose batch keeps the device busy for some seconds. So a batch should take
# less than LONGEST (s); the times of earlier batches predict its time. A unit of work takes 2.5 us
# on a data-centre GPU. Before the first batch it is assumed to take SLOW_UNIT (s), as on a slow
# integrated GPU.
LONGEST = 0.05
SLOW_UNIT = 200e-6
MAX_WORK = 16384.0
_MEASURABLE = 0.005  # seconds; a shorter time consists mostly of launches, not of work


def work(nbytes: int, operations: int) -> float:
    """The units of work of this many bound bytes and operations; launches are not counted."""
    return nbytes / UNIT_BYTES + operations / UNIT_OPERATIONS


def next_size(size: float, idle: bool) -> float:
    """The number of units of the batch that follows a batch of `size` units. `idle`: the device had
    no work when that batch arrived."""
    return min(2 * size, max(STEADY, size / 2)) if idle else 2 * size


class Pace:
    """Decides how large a device's batches are.

    Attributes:
        due: units (launches and work) at which a batch is submitted.
        most: units of work at which a batch is submitted even if it is held.
        held: number of open `batch()` blocks, which decide where a batch ends.
        whole: number of these blocks that also hold back calls on the caller's buffers.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.due = FIRST
        self.held = self.whole = 0
        self._unit = SLOW_UNIT  # an upper bound of the seconds that a unit of work takes
        self.most = LONGEST / SLOW_UNIT
        self._since = 0.0  # when the device began its current work
        self._busy = 0.0  # units of the device's current work

    def submitted(self, amount: float, idle: bool, full: bool = True) -> None:
        """Note that a batch with this much work was submitted. `idle`: the device had no work. A
        batch that is not `full` was submitted before it was due, and does not make the next batch
        larger."""
        now = self._clock()
        if idle:
            self._learn(now)
            self._since = now
        elif self._busy and now - self._since > _MEASURABLE:
            # If the work was less than one unit, its time says nothing about a unit, because the
            # machine may have been busy or asleep.
            self._unit = max(self._unit, (now - self._since) / max(self._busy, 1.0))
        self._busy += amount
        if full:
            self.due = next_size(self.due, idle)
        self.most = min(LONGEST / self._unit, MAX_WORK)

    def waited(self) -> None:
        """Note that the device has finished all work, and that the host waited for it."""
        self._learn(self._clock())
        self.due = FIRST

    def _learn(self, now: float) -> None:
        """Note that the device has finished its current work, now or earlier."""
        if self._busy:
            found = (now - self._since) / self._busy
            if found < self._unit:
                self._unit = max(found, self._unit / 2)
        self._busy = 0.0
