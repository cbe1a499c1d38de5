"""Numbers out of range that kernels find on the device, and the error that says so later.

A launch of a kernel whose spec says `faults = true` takes a slot of a page (see
`pykernels.faults`). The kernel counts there what it leaves out, and keeps the first position with
its value. Synchronisations read the head of a page along with their own data, and the slots only
where something was found.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from pykernels.errors import IndexRangeError
from pykernels.faults import BITS, FAULTS, HEAD, SLOT, SLOTS, STARTED, Watch

from .memory import Block

__all__ = ["Faults", "Page"]

# Passes that callers recorded and did not submit yet; of more, the oldest are forgotten.
MAX_RECORDED = 64
_LAST = 0x7FFFFFFF


class Page:
    """One buffer of slots, and the launches that have one."""

    def __init__(self, block: Block, recorded: bool) -> None:
        self.block = block
        self.recorded = recorded  # into a pass that the caller submits at any time
        self.closed = False  # no more launches come
        self.launches: list[tuple[str, Watch]] = []
        self.seen = 0  # faults that were reported already

    @property
    def full(self) -> bool:
        return len(self.launches) == SLOTS

    def take(self, op: str, watch: Watch) -> int:
        """The slot of one launch: its first word."""
        self.launches.append((op, watch))
        return HEAD + SLOT * (len(self.launches) - 1)

    @property
    def used(self) -> int:
        """Bytes up to the last slot taken."""
        return 4 * (HEAD + SLOT * len(self.launches))

    def reports(self, data: bytes | bytearray | memoryview) -> list[str]:
        """What the slots say, by launch."""
        words = struct.unpack_from(f"<{self.used // 4}I", data)
        found = []
        for i, (op, watch) in enumerate(self.launches):
            at = HEAD + SLOT * i
            if not words[at]:
                continue
            first = words[at + 1 : at + SLOT]
            value = sum((w & 1) << k for k, w in enumerate(first))
            value -= (value >> (BITS - 1)) << BITS
            where = watch.position(_LAST - (first[0] >> 1))
            since = "recorded into the pass" if self.recorded else "since the last synchronisation"
            found.append(
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

    def waiting(self) -> list[Page]:
        """The pages that may hold news: a synchronisation polls them."""
        own = [self._own] if self._own is not None and self._own.launches else []
        return own + self._recorded

    def poll(
        self, pages: Sequence[Page], heads: Any, read: Callable[[Block, int], memoryview]
    ) -> None:
        """Take in what the heads of `waiting` pages say, all their launches being done."""
        words = struct.unpack(f"<{HEAD * len(pages)}I", heads)
        for i, page in enumerate(pages):
            faults, started = words[HEAD * i + FAULTS], words[HEAD * i + STARTED]
            if faults != page.seen:
                self._pending += page.reports(read(page.block, page.used))
                page.seen = faults
            if not page.recorded:
                if faults:
                    self._clear(page.block, page.used)
                page.launches.clear()
                page.seen = 0
            elif page.closed and started == len(page.launches):
                self._recorded.remove(page)

    def raise_pending(self) -> None:
        """Raise what was found and not yet raised."""
        if self._pending:
            first, more = self._pending[0], len(self._pending) - 1
            self._pending = []
            raise IndexRangeError(
                first + (f"; launches after it that failed: {more}" if more else "")
            )
