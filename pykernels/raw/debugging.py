"""Runs texts that record their `debug` calls or check their indices, and reads what they wrote."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pykernels.device import Tensor
from pykernels.errors import ArgumentError, BufferStateError, IndexRangeError
from pykernels.validate._instrument import (
    CHECKED_WORDS,
    HEADER_WORDS,
    MEMORY,
    MOST_VALUES,
    Instrumented,
    checked,
    debugging,
)

from .records import call_of

if TYPE_CHECKING:
    from pykernels.steps import Kernel

    from .kernel import RawKernel

__all__ = ["DebugRecord", "Debugged", "debugged", "instrumented_call"]

_LAST = 0xFFFFFFFF
_MOST_RECORDS = 1_000_000


@dataclass(frozen=True)
class DebugRecord:
    """One call of debug: the kernel, the line of its text, invocation, label and numbers.

    For a kernel of a folder of sources, `line` is the line of its source, and `file` is the source.
    """

    kernel: str
    line: int
    invocation: tuple[int, int, int]
    label: str
    values: tuple[int | float, ...]
    file: str = ""

    def __str__(self) -> str:
        values = ", ".join(f"{v:.8g}" if isinstance(v, float) else str(v) for v in self.values)
        where = ", ".join(map(str, self.invocation))
        return f"{self.file or self.kernel}:{self.line} ({where}) {self.label}" + (
            values and f": {values}"
        )


class Debugged:
    """The records of a block `with dev.debug()`. They exist after the end of the block, and print
    as lines.

    Attributes:
        records: The records, sorted by kernel and then by the order in which they were written.
        lost: True if there were more records than the block has room for.
    """

    def __init__(self, device: Any, limit: int, first: Sequence[int], last: Sequence[int]) -> None:
        self.records: tuple[DebugRecord, ...] = ()
        self.lost = False
        self._device, self._limit = device, limit
        self._filter = [*first, *last]
        self._memory: dict[Any, tuple[str, Instrumented | None, Tensor]] = {}

    def memory_of(self, kernel: RawKernel, made: Instrumented) -> Tensor:
        """The buffer for the records of a raw kernel."""
        most = max(site.values for site in made.sites)
        return self._buffer(kernel._body.name, kernel.name, made, most)

    def memory_of_kernel(self, kernel: Kernel) -> Tensor:
        """The buffer for the records of a kernel of the build or of a package."""
        return self._buffer(kernel, kernel.name, None, MOST_VALUES)

    def _buffer(self, key: Any, name: str, made: Instrumented | None, values: int) -> Tensor:
        found = self._memory.get(key)
        if found is None:
            words = np.zeros(HEADER_WORDS + self._limit * (4 + 3 * values), np.uint32)
            words[:HEADER_WORDS] = [0, words.size - HEADER_WORDS, *self._filter]
            # Uploaded, not filled by a launch: a launch would itself ask for a buffer for records.
            found = self._memory.setdefault(key, (name, made, self._device.tensor(words)))
        return found[2]

    def collect(self) -> None:
        """Read all buffers."""
        records: list[DebugRecord] = []
        for name, made, memory in self._memory.values():
            words = memory.numpy()
            capacity = int(words[1])
            self.lost |= int(words[0]) > capacity
            records += self._of(name, made, words[HEADER_WORDS:])
        self._memory.clear()
        self.records = tuple(records)

    def _of(self, name: str, made: Instrumented | None, words: Any) -> Iterator[DebugRecord]:
        at = 0
        while at < words.size and words[at]:
            number, file = int(words[at]) - 1, ""
            if made is None:
                site, place = call_of(number)
                file, _, line = place.rpartition(":")
                site = replace(site, line=int(line) if file else site.line)
            else:
                site = made.sites[number]
            end = at + 4 + 3 * site.values
            x, y, z = words[at + 1 : at + 4].tolist()
            values = tuple(_decoded(words[at + 4 : end]))
            yield DebugRecord(name, site.line, (x, y, z), site.label, values, file)
            at = end

    def __str__(self) -> str:
        more = ["... and more, for which there was no room"] if self.lost else []
        return "\n".join([*map(str, self.records), *more])


def _decoded(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> Iterator[int | float]:
    """The numbers of a record."""
    for f, i, u in zip(
        words[0::3].view(np.float32).tolist(), words[1::3].view(np.int32).tolist(),
        words[2::3].tolist(), strict=True,
    ):  # fmt: skip
        whole = u if f >= 0 else i
        yield whole if np.float32(whole) == np.float32(f) else f


@contextmanager
def debugged(device: Any, invocation: Any, limit: Any) -> Iterator[Debugged]:
    """The block of `Device.debug`."""
    if type(limit) is not int or not 0 < limit <= _MOST_RECORDS:
        raise ArgumentError(
            f"[debug] limit must be a number of records up to {_MOST_RECORDS} but is {limit!r:.40}"
        )
    first, last = _range(invocation)
    context = device._context
    context.refuse("debug", "inside a capture or a recorded pass")
    found = Debugged(device, limit, first, last)
    outer = context.debugging
    context.debug_into(found)
    try:
        yield found
    finally:
        context.debug_into(outer)
    found.collect()


def _range(invocation: Any) -> tuple[list[int], list[int]]:
    """The first and the last invocation to record, along x, y and z."""
    parts = invocation if isinstance(invocation, tuple) else (invocation,)
    first, last = [0, 0, 0], [_LAST] * 3
    for axis, part in enumerate(parts):
        if part is None:
            continue
        wanted = range(part, part + 1) if type(part) is int else part
        plain = isinstance(wanted, range) and wanted.step == 1 and len(wanted) > 0
        if axis > 2 or not plain or not 0 <= wanted[0] <= wanted[-1] <= _LAST:
            raise ArgumentError(
                "[debug] invocation must be a number or a range along x, or up to three of them, "
                f"but is {invocation!r:.60}"
            )
        first[axis], last[axis] = wanted[0], wanted[-1]
    return first, last


@functools.lru_cache(maxsize=256)
def _variant(kernel: RawKernel, how: str) -> tuple[RawKernel, Instrumented] | None:
    """A kernel with its calls of debug, or with its indices checked; None if it has no such calls
    or indices."""
    text = (kernel.wgsl if how == "debug" else kernel._text).rstrip() + "\n"
    made = debugging(kernel.name, text) if how == "debug" else checked(text)
    if not made.sites:
        return None
    other = type(kernel)(made.text, kernel.entry, kernel._constants, kernel.name)
    other._instrumented = True
    if MEMORY not in other.outputs:  # all such calls or indices are in other entry points
        return None
    return other, made


def instrumented_call(kernel: RawKernel, device: Any, given: dict[str, Any], grid: Any) -> bool:
    """Run a call with records or checks, if the device asks for them. Returns False if the plain
    text must run."""
    context = device._context
    found = context.debugging and _variant(kernel, "debug")
    if found:
        other, made = found
        memory = context.debugging.memory_of(other, made)
        other(**given, **{MEMORY: memory}, grid=grid)
        return True
    if not context.checks_indices:
        return False
    try:
        context.refuse("debug", "inside a capture or a recorded pass")
    except BufferStateError:
        return False  # inside a capture or a recorded pass, launches cannot be waited for
    found = _variant(kernel, "check")
    if found is None:
        return False
    other, made = found
    memory = device.zeros(CHECKED_WORDS, "uint32")
    other(**given, **{MEMORY: memory}, grid=grid)
    count, number, index, elements, x, y, z = memory.numpy()[:7].tolist()
    if count:
        site = made.sites[number]
        index -= (index >> 31) << 32
        more = f"; {count - 1} more" if count > 1 else ""
        raise IndexRangeError(
            f"[{kernel.name}] line {site.line} of the text: {site.name}[{site.label}] has the "
            f"index {index}, but {site.name} has {elements} elements; invocation "
            f"({x}, {y}, {z}){more}"
        )
    return True
