"""Numbers out of range that kernels find on the device, and the error that says so later.

A launch of a kernel whose spec says `faults = true` takes a slot of a page (see
`pykernels.faults`). The kernel counts there what it leaves out, and keeps the first position with
its value. Synchronisations read pages along with their own data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pykernels.errors import IndexRangeError
from pykernels.faults import BITS, HEAD, SLOT, SLOTS, STARTED, Watch

from .blocks import Block

__all__ = ["Crowded", "Faults", "Page", "Snapshot"]

# Passes that callers recorded and did not submit yet; of more, the oldest are forgotten.
MAX_RECORDED = 64
# Full pages that no synchronisation has read; a launch that would need one more waits first.
MAX_FULL = 16
_LAST = 0x7FFFFFFF


class Crowded(Exception):
    """A launch must wait for the device before it can be recorded."""


class Page:
    """One buffer of slots, and the launches that have one."""

    STEP = SLOT  # words from the slot of one launch to the next

    def __init__(self, block: Block, since: str) -> None:
        self.block = block
        self.since = since  # what the launches are counted from
        self.closed = False  # no more launches come
        self.launches: list[tuple[str, Watch]] = []
        self.told = 0  # launches whose slots a synchronisation of the device has seen
        self.counts: dict[int, int] = {}  # rows left out, by launch, that were reported
        self.counter = [0]  # of the runs of a program, all its pages have one
        self.seen = 0  # runs that a synchronisation has seen

    @property
    def runs(self) -> int:
        return self.counter[0]

    @property
    def next_slot(self) -> int:
        """The first word of the slot that the next launch has."""
        return HEAD + SLOT * len(self.launches)

    def has_room(self, launches: int) -> bool:
        return len(self.launches) + launches <= SLOTS


class Snapshot:
    """A page as a synchronisation finds it: `nbytes` of `block` are to be copied."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.block = page.block
        self.taken = page.launches  # another list when slots count from the start again
        self.launches = len(page.launches)
        self.runs = page.runs
        self.nbytes = 4 * (HEAD + SLOT * self.launches)

    def news(self, data: Any) -> tuple[list[str], dict[int, int], int]:
        """What the slots say that was not reported, by launch; rows left out; launches started."""
        page = self.page
        words = struct.unpack_from(f"<{self.nbytes // 4}I", data)
        found: list[_Fault] = []
        counts = dict(page.counts)
        launch = 0
        for i in range(self.launches):
            op, watch = page.launches[i]
            launch += i >= page.told and watch.step == 0
            at = HEAD + SLOT * i
            rows = words[at] - counts.get(i, 0)
            if rows <= 0:
                continue
            counts[i] = words[at]
            first = words[at + 1 : at + SLOT]
            value = sum((w & 1) << k for k, w in enumerate(first))
            value -= (value >> (BITS - 1)) << BITS
            fault = _Fault(watch.number(_LAST - (first[0] >> 1)), op, watch, value, rows, launch)
            found.append(fault)
        return [f.text(page.since) for f in _by_launch(found)], counts, words[STARTED]


class _Fault(NamedTuple):
    """The first element that one step left out, and how many rows it left out."""

    number: int
    op: str
    watch: Watch
    value: int
    rows: int
    launch: int

    def text(self, since: str) -> str:
        watch = self.watch
        return (
            f"[{self.op}] {watch.name} must be in [0, {watch.below}) but is {self.value} at "
            f"position {watch.position(self.number)} (rows left out: {self.rows}; checked launch "
            f"{self.launch} {since})"
        )


def _by_launch(found: Sequence[_Fault]) -> list[_Fault]:
    """One for each launch: the first element of all its steps, and how many rows they left out."""
    out = []
    for _, steps in groupby(found, lambda f: f.launch):
        each = list(steps)
        first = min(each, key=lambda f: f.number)
        out.append(first._replace(rows=sum(f.rows for f in each)))
    return out


class Faults:
    """The pages of one device. All methods want the device's lock held.

    `create` makes a page's buffer, `clear` queues the write of zeros to its first bytes.
    """

    def __init__(self, create: Callable[[], Block], clear: Callable[[Block, int], None]) -> None:
        self._create, self._clear = create, clear
        self._own: Page | None = None
        self._full: list[Page] = []
        self._spare: list[Page] = []
        self._recorded: list[Page] = []
        self._programs: list[Page] = []
        self._pending: list[str] = []

    def own(self, launches: int) -> Page:
        """The page of the device's own batches, with room for some more launches.

        Raises Crowded where full pages wait to be read: then `Transfers.poll` makes room.
        """
        page = self._own
        if page is not None and not page.has_room(launches):
            self._reuse(page)
        if page is not None and not page.has_room(launches):
            if len(self._full) >= MAX_FULL:
                raise Crowded
            self._full += (page,)
            self._own = page = None
        if page is None:
            page = self._spare[-1] if self._spare else self._page("since the last synchronisation")
            self._own = page
            del self._spare[-1:]
        return page

    def _page(self, since: str) -> Page:
        return Page(self._create(), since)

    def _reuse(self, page: Page) -> None:
        """Slots count from the start again, if a synchronisation has seen all of them."""
        if page.launches and page.told == len(page.launches):
            if page.counts:
                self._clear(page.block, 4 * page.next_slot)
            page.launches = []
            page.counts = {}
            page.told = 0

    def run(self, page: Page) -> None:
        """A program is about to run: what was reported of the runs before does not count again."""
        if page.counts and page.seen == page.runs:
            self._clear(page.block, 4 * page.next_slot)
            page.counts = {}

    def recorded(self) -> Page:
        """A new page for a pass of a caller's."""
        page = self._page("recorded into the pass")
        self._recorded.append(page)
        del self._recorded[:-MAX_RECORDED]
        return page

    def program(self, counter: list[int]) -> Page:
        """A new page for a captured program, whose runs are counted there."""
        page = self._page("of the program")
        page.counter = counter
        self._programs.append(page)
        return page

    def close(self, pages: Sequence[Page]) -> None:
        """The program of these pages is gone."""
        for page in pages:
            page.closed = True
        self._forget_programs()

    def _forget_programs(self) -> None:
        """Pages of programs that are gone wait until their last run was seen."""
        self._programs = [p for p in self._programs if not p.closed or p.seen < p.runs]

    def waiting(self) -> list[Snapshot]:
        """The pages that may hold news."""
        own = [self._own] if self._own is not None and self._own.launches else []
        pages = [p for p in (*self._full, *own) if p.told < len(p.launches)]
        ran = [p for p in self._programs if p.seen < p.runs]
        return [Snapshot(p) for p in (*pages, *self._recorded, *ran)]

    def found(self, snapshots: Sequence[Snapshot], data: Sequence[Any]) -> None:
        """Take in what copies of `waiting` pages say, the launches before them being done."""
        for snapshot, words in zip(snapshots, data, strict=True):
            page = snapshot.page
            if page.launches is not snapshot.taken:
                continue  # another thread's, which was later, has told all of it
            news, counts, started = snapshot.news(words)
            if page in self._recorded:
                rest = self._recorded
                if page.closed and started == len(page.launches):
                    rest = [p for p in rest if p is not page]
                self._pending += news
                page.counts = counts
                self._recorded = rest
            elif page in self._programs:
                if page.seen >= snapshot.runs:
                    continue  # the same
                self._pending += news
                page.counts = counts
                page.seen = snapshot.runs
            elif page.told < snapshot.launches:
                self._pending += news
                page.counts = counts
                page.told = snapshot.launches
        self._forget_programs()
        for page in (*self._full, *([self._own] if self._own is not None else [])):
            self._reuse(page)
        emptied = [p for p in self._full if not p.launches]
        full = [p for p in self._full if p.launches]
        self._full = full
        self._spare += emptied

    def raise_pending(self) -> None:
        """Raise what was found and not yet raised."""
        if self._pending:
            first, more = self._pending[0], len(self._pending) - 1
            error = IndexRangeError(
                first + (f"; launches after it that failed: {more}" if more else "")
            )
            self._pending = []
            raise error
