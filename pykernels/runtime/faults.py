"""Collects the indices out of range that kernels find on the device, and raises the error later.

A launch of a kernel whose spec says `faults = true` takes a slot of a page (see
`pykernels.wgsl.watch`). In the slot the kernel counts the elements that it skips, and stores the
position and the value of the first one. The skipped elements of a launch are a fault. A
synchronisation reads pages together with its own data. It keeps the faults for the owners of the
launches, who get them at their own synchronisations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pykernels.errors import IndexRangeError
from pykernels.wgsl.watch import BITS, HEAD, PAGE_BYTES, SLOT, SLOTS, STARTED, Watch

from .blocks import Block
from .owners import Check, Owner, check_of

__all__ = ["Crowded", "Faults", "Moves", "Page", "Snapshot"]

# The most passes that callers have recorded and not submitted yet. Beyond this number the oldest
# are forgotten.
MAX_RECORDED = 64
# The most full pages that no synchronisation has read. A launch that needs one more page waits
# first.
MAX_FULL = 16
# The most copies of programs' pages whose faults were not reported to their owners yet.
MAX_ASIDE = 256
# The most unreported faults, and the most of these that belong to ended owners. Beyond these
# numbers the oldest are forgotten.
MAX_FOUND, MAX_ENDED = 4096, 64
_LAST = 0x7FFFFFFF


# The tensors of a program's runs, and the number of uploads before these runs.
Mark = tuple[object, int]


class Crowded(Exception):
    """A launch must wait for the device before it can be recorded."""


class Term:
    """Runs of a program whose faults are reported together: the runs of one owner since the
    program's page was last cleared, on the same tensors, without an upload between them."""

    __slots__ = ("check", "counts", "mark", "seen")

    def __init__(self, check: Check, seen: int, mark: Mark) -> None:
        self.check = check
        self.counts: dict[int, int] = {}  # reported skipped rows, by launch
        self.seen = seen  # number of runs that a synchronisation has seen
        self.mark = mark


class Page:
    """One buffer of slots, and the launches that use its slots.

    `checks` names the owner of each launch; the launches of a program belong to its `term`.
    """

    STEP = SLOT  # words between the slots of two launches

    def __init__(self, block: Block, since: str) -> None:
        self.block = block
        self.since = since  # says in errors from where launches are counted
        self.closed = False  # True if no more launches follow
        self.launches: list[tuple[str, Watch]] = []
        self.checks: list[Check] = []
        self.told = 0  # number of launches whose slots a synchronisation has read
        # for each launch, the number of skipped rows that were reported
        self.counts: dict[int, int] = {}
        self.counter = [0]  # counts runs; all pages of a program share it
        self.term: Term | None = None

    @property
    def runs(self) -> int:
        return self.counter[0]

    @property
    def unread(self) -> bool:
        """True if a program has run since a synchronisation read its page."""
        return self.term is not None and self.term.seen < self.runs

    @property
    def nbytes(self) -> int:
        """Bytes of the slots in use."""
        return 4 * self.next_slot

    @property
    def next_slot(self) -> int:
        """The first word of the next launch's slot."""
        return HEAD + SLOT * len(self.launches)

    def has_room(self, launches: int) -> bool:
        return len(self.launches) + launches <= SLOTS


class Snapshot:
    """The state of a page at a synchronisation, which copies the first `nbytes` of `block`."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.block = page.block
        self.taken = page.launches  # a new list begins when slots are reused
        self.launches = len(page.launches)
        self.runs = page.runs
        self.term = page.term
        self.nbytes = page.nbytes

    def news(self, data: Any) -> tuple[list[_Found], dict[int, int], int]:
        """The unreported faults by launch, the number of skipped rows of each launch, and the
        number of launches that were started."""
        page, term = self.page, self.term
        words = struct.unpack_from(f"<{self.nbytes // 4}I", data)
        found: list[_Fault] = []
        counts = dict(page.counts if term is None else term.counts)
        numbers: dict[Owner, int] = {}  # counts the launches of each owner
        call = 0
        for i in range(self.launches):
            op, watch = page.launches[i]
            check = page.checks[i] if term is None else term.check
            if watch.step == 0:
                call += 1
                numbers[check.owner] = numbers.get(check.owner, 0) + (i >= page.told)
            at = HEAD + SLOT * i
            rows = words[at] - counts.get(i, 0)
            if rows <= 0:
                continue
            counts[i] = words[at]
            first = words[at + 1 : at + SLOT]
            value = sum((w & 1) << k for k, w in enumerate(first))
            value -= (value >> (BITS - 1)) << BITS
            number = watch.number(_LAST - (first[0] >> 1))
            launch = numbers[check.owner]
            found.append(_Fault(number, op, watch, value, rows * watch.each, launch, call, check))
        told = [(f.check, f.text(page.since)) for f in _by_launch(found)]
        return told, counts, words[STARTED]


_Found = tuple[Check, str]


class _Fault(NamedTuple):
    """The first element that one step skipped, and the number of rows that it skipped."""

    number: int
    op: str
    watch: Watch
    value: int
    rows: int
    launch: int  # its number among the launches of its owner
    call: int
    check: Check

    def text(self, since: str) -> str:
        watch = self.watch
        return (
            f"[{self.op}] {watch.name} must be in [{watch.least}, {watch.below}) but is "
            f"{self.value} at position {watch.position(self.number)} (rows left out: {self.rows}; "
            f"checked launch {self.launch} {since})"
        )


def _by_launch(found: Sequence[_Fault]) -> list[_Fault]:
    """For each launch: its first skipped element, and the number of skipped rows."""
    out = []
    for _, steps in groupby(found, lambda f: f.call):
        each = list(steps)
        first = min(each, key=lambda f: f.number)
        out.append(first._replace(rows=sum(f.rows for f in each)))
    return out


class Moves(NamedTuple):
    """The work on a program's pages before the program runs: `aside` are copies to make of pages
    with unread faults, and `cleared` are pages to clear. The device does both in order with the
    runs. `terms` are the next terms of `pages`, and name their owner."""

    aside: tuple[Page, ...]
    cleared: tuple[Page, ...]
    pages: tuple[Page, ...]
    terms: tuple[Term, ...]


class Faults:
    """The pages of one device. The caller of each method must hold the device's lock.

    `create` makes a buffer of the given size for a page. `clear` queues a write of zeros to the
    page's first bytes.

    Attributes:
        current: the page of the device's own batches; None before the first.
        open: True if there may be faults that a living owner has not received.
        aside: copies of programs' pages, with the faults of runs that were not reported to their
            owners yet.
    """

    def __init__(self, create: Callable[[int], Block], clear: Callable[[Block, int], None]) -> None:
        self._create, self._clear = create, clear
        self.current: Page | None = None
        self._full: list[Page] = []
        self._spare: list[Page] = []
        self._recorded: list[Page] = []
        self._programs: list[Page] = []
        self._blocks: list[Block] = []  # buffers of former copies, for reuse
        self._found: list[_Found] = []
        self.aside: list[Page] = []
        self.open = False

    def own(self, launches: int) -> Page:
        """The page of the device's own batches, with free slots.

        Raises Crowded if full pages wait to be read; `Transfers.poll` then makes room.
        """
        page = self.current
        if page is not None and not page.has_room(launches):
            self._reuse(page)
        if page is not None and not page.has_room(launches):
            if len(self._full) >= MAX_FULL:
                raise Crowded
            self._full += (page,)
            self.current = page = None
        if page is None:
            page = self._spare[-1] if self._spare else self._page("since the last synchronisation")
            self.current = page
            del self._spare[-1:]
        return page

    def _page(self, since: str) -> Page:
        return Page(self._create(PAGE_BYTES), since)

    def _reuse(self, page: Page) -> None:
        """Reuse the slots from the first one on, if a synchronisation has read all of them."""
        if page.launches and page.told == len(page.launches):
            if page.counts:
                self._clear(page.block, page.nbytes)
            page.launches = []
            page.checks = []
            page.counts = {}
            page.told = 0

    def moves(self, pages: Sequence[Page], owner: Owner, mark: Mark) -> Moves | None:
        """The work on a program's pages before an owner runs it: unread faults of other runs are
        copied aside, and reported faults do not count again. Returns None if there is nothing to
        do.

        Raises Crowded if too many copies of pages wait.
        """
        term = pages[0].term
        assert term is not None
        if pages[0].unread and term.check.owner is owner and term.mark == mark:
            return None
        check = check_of(owner)
        unread = [p for p in pages if p.unread]
        if len(self.aside) + len(unread) > MAX_ASIDE:
            raise Crowded
        cleared = [p for p in pages if p.unread or (p.term and p.term.counts)]
        terms = [Term(check, p.runs, mark) for p in pages]
        aside = [self._copy_of(p) for p in unread]
        return Moves((*aside,), (*cleared,), (*pages,), (*terms,))

    def _copy_of(self, page: Page) -> Page:
        """A page for a copy of another page."""
        size = max(1 << (page.nbytes - 1).bit_length(), 1024)
        block = next((b for b in self._blocks if b.size >= page.nbytes), None)
        if block is None:
            block = self._create(size)
        else:
            self._blocks.remove(block)
        copy = Page(block, page.since)
        copy.launches = page.launches
        copy.counter = [page.runs]
        copy.term = page.term
        return copy

    def recorded(self) -> Page:
        """A new page for a caller's pass."""
        page = self._page("recorded into the pass")
        self._recorded.append(page)
        del self._recorded[:-MAX_RECORDED]
        return page

    def program(self, counter: list[int], owner: Owner) -> Page:
        """A new page for a captured program; it counts the program's runs."""
        page = self._page("of the program")
        page.counter = counter
        page.term = Term(check_of(owner), counter[0], (None, 0))
        self._programs.append(page)
        return page

    def close(self, pages: Sequence[Page]) -> None:
        """Note that the program of these pages was deleted."""
        for page in pages:
            page.closed = True
        self._forget_programs()

    def _forget_programs(self) -> None:
        """Keep the pages of deleted programs until a synchronisation has seen their last run."""
        self._programs = [p for p in self._programs if not p.closed or p.unread]

    def waiting(self) -> list[Snapshot]:
        """The pages that may have new faults."""
        return [Snapshot(p) for p in (*self._unread(), *self._recorded)]

    def _unread(self) -> list[Page]:
        """The pages with launches that no synchronisation has read. They do not include the pages
        of callers' passes, because such a pass may not have run yet."""
        own = [self.current] if self.current is not None and self.current.launches else []
        pages = [p for p in (*self._full, *own) if p.told < len(p.launches)]
        return pages + [p for p in (*self.aside, *self._programs) if p.unread]

    def found(self, snapshots: Sequence[Snapshot], data: Sequence[Any]) -> None:
        """Read the copies of `waiting` pages. The launches before these copies are done."""
        for snapshot, words in zip(snapshots, data, strict=True):
            page, term = snapshot.page, snapshot.term
            if page.launches is not snapshot.taken:
                continue  # another thread's later synchronisation has reported everything
            news, counts, started = snapshot.news(words)
            checks = page.checks[page.told : snapshot.launches]
            if term is not None:
                if term.seen >= snapshot.runs:
                    continue  # as above
                self._found += news
                term.counts = counts
                term.seen = snapshot.runs
                checks = [] if page.term is term and page.unread else [term.check]
            elif page in self._recorded:
                rest = self._recorded
                if page.closed and started == len(page.launches):
                    rest = [p for p in rest if p is not page]
                checks = []
                self._found += news
                page.counts = counts
                self._recorded = rest
            elif page.told < snapshot.launches:
                self._found += news
                page.counts = counts
                page.told = snapshot.launches
            else:
                continue
            self._mark(checks, news)
        self._forget_programs()
        for page in (*self._full, *([self.current] if self.current is not None else [])):
            self._reuse(page)
        emptied = [p for p in self._full if not p.launches]
        full = [p for p in self._full if p.launches]
        read = [p.block for p in self.aside if not p.unread]
        aside = [p for p in self.aside if p.unread]
        self._full = full
        self._spare += emptied
        self.aside = aside
        self._blocks += read
        self._bound()

    def _mark(self, checks: Sequence[Check], news: Sequence[_Found]) -> None:
        """Set `open` of these checks: True if the news has a fault of the check, else False."""
        for check in checks:
            check.open = False
        for check, _ in news:
            check.open = True

    def _bound(self) -> None:
        """Forget the oldest of too many faults, and update `open`."""
        ended = [f for f in self._found if f[0].owner.ended]
        if len(ended) > MAX_ENDED or len(self._found) > MAX_FOUND:
            old = [*ended[:-MAX_ENDED], *self._found[:-MAX_FOUND]]
            self._found = [f for f in self._found if not any(f is o for o in old)]
        self.open = len(self._found) > len(ended) or bool(self._unread())

    def raise_found(
        self, owner: Owner, checks: Sequence[Check] = (), ended: bool = False, all_: bool = False
    ) -> None:
        """Raise the unreported faults of an owner's calls and of these checks.

        `ended` includes the calls of ended owners, `all_` the calls of all owners.
        """
        if not self._found:
            return
        own, others, rest = [], [], []
        for fault in self._found:
            check, text = fault
            if check.owner is owner or check in checks:
                own.append(text)
            elif all_ or (ended and check.owner.ended):
                end = ", which has ended" if check.owner.ended else ""
                others.append(f"{text}, of {check.owner.name}{end}")
            else:
                rest.append(fault)
        told = own + others
        if told:
            more = f"; launches after it that failed: {len(told) - 1}" if len(told) > 1 else ""
            error = IndexRangeError(told[0] + more)
            still = any(not check.owner.ended for check, _ in rest) or bool(self._unread())
            self._found = rest
            self.open = still
            raise error
