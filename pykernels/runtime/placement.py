"""Places values in a few buffers. Each value lives during a part of a program, and the total size
of the buffers is close to the most bytes that live at the same time.

This is dynamic storage allocation with known lifetimes, which is NP-hard. Two known heuristics:
greedy by size places the largest value first, at the lowest place that is free while it lives
(Pisarchyk and Lee, 2020); best fit places values in the order of their first use, each in the
smallest gap that holds it. If both need more than the bytes that live at once, random orders are
tried: by size and lifetime, with random changes of each value's rank. The same values give the same
orders.
"""

from __future__ import annotations

import math
import random
from bisect import insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

__all__ = ["METHODS", "Method", "Placement", "Value", "live_bytes", "place"]

Method = Literal["greedy by size", "best fit", "drawn orders"]
METHODS: tuple[Method, ...] = ("greedy by size", "best fit", "drawn orders")
ORDERS = 128  # most random orders that are tried
# most pairs of values that all orders together compare, in about a tenth of a second
WORK = 5_000_000
_FAR = 1 << 60


@dataclass(frozen=True, slots=True)
class Value:
    """Bytes that are in use from one call of a program up to another, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Placement:
    """For each value its buffer and its first byte there; the bytes of the buffers."""

    places: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return sum(self.sizes)


def live_bytes(values: Sequence[Value], calls: int) -> list[int]:
    """The bytes that are in use at each call. No placement needs fewer bytes than their maximum."""
    change = [0] * (calls + 1)
    for v in values:
        change[v.first] += v.nbytes
        change[v.last + 1] -= v.nbytes
    return list(accumulate(change))[:calls]


def place(
    values: Sequence[Value], apart: Sequence[Collection[int]], limit: int, method: Method
) -> Placement:
    """Places for all values.

    Values in one buffer that live at the same time share no byte. Value i is in another buffer than
    the values of apart[i]. No buffer is larger than `limit`, and no value is larger than `limit`.
    """
    if method == "drawn orders":
        return _drawn(values, apart, limit)
    in_time = method == "best fit"
    order = sorted(range(len(values)), key=lambda i: _rank(values[i], in_time))
    return _placed(values, apart, limit, order, in_time)


def _drawn(values: Sequence[Value], apart: Sequence[Collection[int]], limit: int) -> Placement:
    """The best of several orders. Each order sorts values by a mix of size and lifetime."""
    rng, calls = random.Random(0), max((v.last for v in values), default=0) + 1
    least = max(live_bytes(values, calls), default=0)
    best: Placement | None = None
    for _ in range(max(1, min(ORDERS, WORK // max(len(values), 1) ** 2))):
        life, spread = rng.random(), 0.6 * rng.random()
        ranks = [
            -math.log(max(v.nbytes, 1)) - life * math.log(v.last - v.first + 1)
            + rng.gauss(0, spread) for v in values
        ]  # fmt: skip
        order = sorted(range(len(values)), key=ranks.__getitem__)
        found = _placed(values, apart, limit, order, False)
        if best is None or found.nbytes < best.nbytes:
            best = found
        if best.nbytes <= least:
            break
    assert best is not None
    return best


def _placed(
    values: Sequence[Value], apart: Sequence[Collection[int]], limit: int, order: Sequence[int],
    in_time: bool,
) -> Placement:  # fmt: skip
    """Places for values, one after the other in this order."""
    places = [(-1, 0)] * len(values)
    buffers: list[list[tuple[int, int, Value]]] = []  # first byte, number of the value, value
    sizes: list[int] = []
    for i in order:
        v = values[i]
        taken = {places[j][0] for j in apart[i]}
        fits = []
        for n, lying in enumerate(buffers):
            if n not in taken:
                if in_time:  # values whose lifetime has ended are dropped
                    lying[:] = [row for row in lying if row[2].last >= v.first]
                at, room = _gap(lying, v, in_time)
                if at + v.nbytes <= limit:
                    fits.append((max(0, at + v.nbytes - sizes[n]), room, n, at))
        if not fits:
            buffers.append([])
            sizes.append(0)
            fits = [(0, 0, len(buffers) - 1, 0)]
        _, _, n, at = min(fits)
        places[i] = n, at
        insort(buffers[n], (at, i, v))
        sizes[n] = max(sizes[n], at + v.nbytes)
    return Placement(tuple(places), tuple(sizes))


def _rank(v: Value, in_time: bool) -> tuple[int, int]:
    return (v.first, -v.nbytes) if in_time else (-v.nbytes, v.first)


def _gap(lying: Sequence[tuple[int, int, Value]], v: Value, smallest: bool) -> tuple[int, int]:
    """The first byte of a gap for a value, between the values that live at the same time: the
    smallest gap if `smallest`, else the lowest gap."""
    nbytes, first, last = v.nbytes, v.first, v.last
    top, best, least = 0, -1, _FAR
    for start, _, other in lying:
        if other.first <= last and other.last >= first:
            room = start - top
            if room >= nbytes:
                if not smallest:
                    return top, 0
                if room < least:
                    best, least = top, room
            top = max(top, start + other.nbytes)
    return (best, least) if best >= 0 else (top, _FAR if smallest else 0)
