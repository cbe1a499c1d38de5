"""The errors that a kernel finds on the device, and the page of words to which it writes them.

A page is a buffer of zeros that launches share. Its words are the number of all faults, the number
of started launches and, from `HEAD` on, a slot for each launch. A slot has the number of faults of
the launch, and a word for each bit of its first wrong value. Texts write a page by the functions of
`wgsl.head`, and `runtime.faults` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    """The error that a step may find: elements of the argument `name` outside [`least`, `below`).

    A position counts the elements of `space`, to which the argument of shape `shape` repeats. If
    a call has several steps, `step` is the number of this step, which checks a block of shape
    `sizes` from index `first` of `whole`; `whole` is `space` with more axes. `each` is the number
    of elements of `space` that the step checks as one.
    """

    name: str
    below: int
    shape: tuple[int, ...]
    space: tuple[int, ...]
    step: int = 0
    first: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    each: int = 1
    least: int = 0

    def part(
        self,
        step: int,
        first: tuple[int, ...],
        sizes: tuple[int, ...],
        whole: tuple[int, ...],
    ) -> Watch:
        """The watch of one of several steps."""
        return replace(self, step=step, first=first, sizes=sizes, whole=whole)

    def number(self, own: int) -> int:
        """The number of an element of `space`, from its number within the step."""
        if not self.whole:
            return own
        at = _position(own, self.sizes)
        found = 0
        for i, first, n in zip(at, self.first, self.whole, strict=True):
            found = found * n + first + i
        return found

    def position(self, number: int) -> tuple[int, ...]:
        """The indices of the argument's element that stands at element `number` of `space`."""
        at = _position(number, self.space)[len(self.space) - len(self.shape) :]
        return tuple([i % n for i, n in zip(at, self.shape, strict=True)])


def _position(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    at = []
    for n in reversed(shape):
        number, i = divmod(number, n)
        at.append(i)
    return tuple(reversed(at))
