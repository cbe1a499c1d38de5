"""What a kernel may find wrong on the device, and the page of words in which it says so.

A page is a buffer of zeros that launches share. In words: how many faults in all, how many
launches have started; then the slots, one for each launch. A slot has the number of faults, then a
word for each bit of the first wrong value: see `codegen.head`. `runtime.faults` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BITS",
    "FAULTS",
    "HEAD",
    "HEAD_BYTES",
    "PAGE_BYTES",
    "SLOT",
    "SLOTS",
    "STARTED",
    "Watch",
]

FAULTS, STARTED, HEAD = 0, 1, 4
BITS = 64
SLOT = 1 + BITS
SLOTS = 512
HEAD_BYTES = 4 * HEAD
PAGE_BYTES = 4 * (HEAD + SLOTS * SLOT)


@dataclass(frozen=True, slots=True)
class Watch:
    """What a step may find wrong: elements of the argument `name` outside [0, `below`).

    A position counts the elements of `space`, to which the argument of shape `shape` repeats.
    """

    name: str
    below: int
    shape: tuple[int, ...]
    space: tuple[int, ...]

    def position(self, number: int) -> tuple[int, ...]:
        """The element that the first number found stands for: it lies in the first repeat."""
        at = []
        for n in reversed(self.space):
            number, i = divmod(number, n)
            at.append(i)
        return tuple(reversed(at[: len(self.shape)]))
