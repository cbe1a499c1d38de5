"""Named shapes: sizes and where they come from. The shapes of a family are in the module of its
cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["BYTES", "POWER", "RAGGED", "Shape", "cut", "pick"]

POWER, RAGGED = "a power of two", "a ragged size"


class Shape(NamedTuple):
    """A problem's size with a name; `origin` is the source of the size, such as a model."""

    name: str
    dims: tuple[int, ...]
    origin: str


# bytes of a tensor
BYTES = [
    Shape("64KiB", (1 << 16,), POWER),
    Shape("1MiB", (1 << 20,), POWER),
    Shape("16MiB", (1 << 24,), POWER),
    Shape("256MiB", (1 << 28,), POWER),
    Shape("1GiB", (1 << 30,), POWER),
]


def cut(n: int, edge: int) -> int:
    """A size, cut to about `edge` (0: not cut). The cut size has the same remainder modulo 32:
    4095, cut to 32, becomes 63."""
    return n if not edge or n <= edge else edge + n % 32


def pick(shapes: Sequence[Shape], edge: int) -> Iterator[Shape]:
    """The shapes, cut for a slow device. A shape with a single dimension is cut to the square of
    `edge`."""
    seen = set()
    for s in shapes:
        limit = edge * edge if len(s.dims) == 1 else edge
        dims = tuple(cut(n, limit) for n in s.dims)
        if dims not in seen:
            seen.add(dims)
            yield s._replace(dims=dims)
