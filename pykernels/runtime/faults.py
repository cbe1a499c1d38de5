"""Numbers out of range that kernels find on the device, and the error that says so later.

A launch of a kernel whose spec says `faults = true` takes a slot of a page (see
`pykernels.faults`). The kernel counts there what it leaves out, and keeps the first position with
its value. Synchronisations copy the pages along with their own data, and take in what they say once
that is done. Meanwhile other launches may take slots: a snapshot knows which ones it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykernels.errors import IndexRangeError
from pykernels.faults import BITS, FAULTS, HEAD, SLOT, SLOTS, STARTED, Watch

from .memory import Block

__all__ = ["Faults", "Page", "Snapshot"]

# Passes that callers recorded and did not submit yet; of more, the oldest are forgotten.
MAX_RECORDED = 64
_LAST = 0x7FFFFFFF


class Page:
    """One buffer of slots, and the launches that have one."""

    def __init__(self, block: Block, recorded: bool) -> None:
        self.block = block
        self.recorded = recorded  # into a pass that the caller submits at any time
        self.closed = False  # no more launches come
        self.launches: list[tuple[str, Watch]] = []  # another list when slots are given out again
        self.reported: frozenset[int] = frozenset()  # the launches whose faults are known

    @property
    def full(self) -> bool:
        return len(self.launches) == SLOTS

    def take(self, op: str, watch: Watch) -> int:
        """The slot of one launch: its first word."""
        self.launches.append((op, watch))
        return HEAD + SLOT * (len(self.launches) - 1)


class Snapshot:
    """What a synchronisation copies of a page: the slots that are taken now."""

    __slots__ = ("block", "launches", "nbytes", "page", "taken")

    def __init__(self, page: Page) -> None:
        self.page = page
        self.block = page.block
        self.launches = page.launches
        self.taken = len(page.launches)
        self.nbytes = 4 * (HEAD + SLOT * self.taken)

    def news(self, words: Sequence[int]) -> dict[int, str]:
        """What the slots say that was not reported yet, by launch."""
        found = {}
        for i, (op, watch) in enumerate(self.launches[: self.taken]):
            at = HEAD + SLOT * i
            if not words[at] or i in self.page.reported:
                continue
            first = words[at + 1 : at + SLOT]
            value = sum((w & 1) << k for k, w in enumerate(first))
            value -= (value >> (BITS - 1)) << BITS
            where = watch.position(_LAST - (first[0] >> 1))
            recorded = self.page.recorded
            since = "recorded into the pass" if recorded else "since the last synchronisation"
            found[i] = (
                f"[{op}] {watch.name} must be in [0, {watch.below}) but is {value} at position "
                f"{where} (rows left out: {words[at]}; checked launch {i + 1} {since})"
            )
        return found


class Faults:
    """The pages of one device. All methods want the device's lock held.

    `create` makes a page's buffer, `clear` queues the write of zeros to its first bytes.
    """

    def __init__(self, create: Callable[[], Block], clear: Callable[[Block, int], None]) -> None:
        self._create, self._clear = create, clear
        self._own: Page | None = None
        self._recorded: list[Page] = []
        self._pending: list[str] = []

    @property
    def own(self) -> Page:
        """The page of the device's own batches."""
        if self._own is None:
            self._own = Page(self._create(), recorded=False)
        return self._own

    def recorded(self) -> Page:
        """A new page for a pass of a caller's."""
        page = Page(self._create(), recorded=True)
        self._recorded.append(page)
        del self._recorded[:-MAX_RECORDED]
        return page

    def waiting(self) -> list[Snapshot]:
        """What a synchronisation is to copy, once all that is recorded was submitted."""
        own = [self._own] if self._own is not None and self._own.launches else []
        return [Snapshot(page) for page in own + self._recorded]

    def found(self, waiting: Sequence[Snapshot], data: Sequence[memoryview]) -> None:
        """Take in the copied bytes of `waiting`.

        Each step leaves a state that a repetition may start from: an interrupt loses no report.
        """
        for snapshot, copied in zip(waiting, data, strict=True):
            page = snapshot.page
            if page.launches is not snapshot.launches:
                continue  # one that came later has been here before
            words = copied.cast("I")
            if words[FAULTS]:
                news = snapshot.news(words)
                reported, reports = page.reported.union(news), [*self._pending, *news.values()]
                page.reported, self._pending = reported, reports
            if page.recorded:
                if page.closed and words[STARTED] == len(page.launches):
                    self._recorded = [p for p in self._recorded if p is not page]
            elif snapshot.taken == len(page.launches):
                if words[FAULTS]:
                    self._clear(page.block, snapshot.nbytes)
                page.launches, page.reported = [], frozenset()

    def raise_pending(self) -> None:
        """Raise what was found and not yet raised."""
        if self._pending:
            first, more = self._pending[0], len(self._pending) - 1
            error = IndexRangeError(
                first + (f"; launches after it that failed: {more}" if more else "")
            )
            self._pending = []
            raise error
