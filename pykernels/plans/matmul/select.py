"""Which body computes a matrix product, and in how many slices of K: pure functions."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.plan import Caps, cdiv

__all__ = [
    "BANDWIDTH", "DISPATCH", "EDGES", "LAST", "NARROW", "RATE", "SCALARS", "SLOTS", "Choice",
    "Shape", "Tail", "choose", "lane_bits", "sum_bits",
]  # fmt: skip

# Rows and columns of dst that one workgroup of mul_mat.wgsl ("32", "64") or gemm_tile computes.
EDGES = {"32": (32, 32), "64": (64, 64), "wide": (64, 128)}
# Rows of the smaller operand that gemv holds.
NARROW = 8
# Workgroups that keep a large GPU busy: two for each multiprocessor of one with 132.
BUSY = 256
# What the times of large products are weighed with, measured on such a GPU: workgroups of
# gemm_tile at a time (three on each of 132 multiprocessors; PARTIAL is the time of a wave with
# none, one, two or three on each, all the rest of the device idle), the cost of starting one in k,
# operations and bytes per second, seconds of one more dispatch, and what a product loses by loading
# b with k last in vectors (of f16, of f32) or one by one.
SLOTS, PARTIAL, START = 396, (0.0, 0.6, 0.72, 1.0), 48
RATE, BANDWIDTH, DISPATCH, LAST, SCALARS = 51e12, 3.5e12, 2e-6, (0.004, 0.014), 0.06


class Shape(NamedTuple):
    """What a choice depends on, apart from the device: dst is batches x rows x cols."""

    batches: int
    rows: int
    cols: int
    depth: int
    along_k: bool = True  # k is the axis of the larger operand with the smaller step


class Tail(NamedTuple):
    """Rows of tiles at the end of a large product whose K is cut, and in how many slices."""

    rows: int = 0
    slices: int = 1


class Choice(NamedTuple):
    """A body ("vec", "32", "64" or "wide"), the number of slices of K, and of "wide" the tail.

    `each`: k of all slices but the last, shorter one; 0: equal slices.
    """

    body: str
    slices: int = 1
    tail: Tail = Tail()
    each: int = 0


def choose(caps: Caps, s: Shape) -> Choice:
    """The body and the slices for one product."""
    if min(s.rows, s.cols) <= NARROW:
        groups = s.batches * cdiv(max(s.rows, s.cols), 1024 >> lane_bits(s))
        # Several rows hold more sums, and more has to be written and summed for each slice.
        busy = 4 * BUSY if s.along_k or min(s.rows, s.cols) == 1 else 2 * BUSY
        return Choice("vec", _slices(groups, s.depth, 2048 if s.along_k else 256, busy, 512))
    if caps.max_invocations < 1024:  # WebGPU's defaults: small devices and software drivers
        return Choice("32", _slices(_tiles(s, "32"), s.depth, 256, 64))
    if min(s.rows, s.cols) > 64:
        best = min(_wide_choices(s), key=lambda c: _wide_time(s, c))
        if best.slices * _tiles(s, "wide") >= BUSY:
            return best
    slices = _slices(_tiles(s, "64"), s.depth, 128)
    if slices * _tiles(s, "64") >= BUSY // 2:
        return Choice("64", slices)
    return Choice("32", _slices(_tiles(s, "32"), s.depth, 128))


def _tiles(s: Shape, tile: str) -> int:
    rows, cols = EDGES[tile]
    return s.batches * cdiv(s.rows, rows) * cdiv(s.cols, cols)


def _wide_choices(s: Shape) -> list[Choice]:
    """Whole tiles, all tiles in slices, or whole tiles in whole waves and a tail in slices.

    Or long slices that fill whole waves but for the room of one short slice of each tile, which
    they leave free: the long ones start first.
    """
    most = max(min(s.depth // 256, 8), 1)
    choices = [Choice("wide", n) for n in range(1, most + 1)]
    tiles, across = _tiles(s, "wide"), cdiv(s.cols, EDGES["wide"][1])
    if tiles >= 2 * SLOTS:
        choices = choices[:1]
    for long in range(1, most):
        each = s.depth * tiles // (cdiv(tiles * long, SLOTS) * SLOTS) // 16 * 16
        if each * long + 128 <= s.depth < each * (long + 1):
            choices.append(Choice("wide", long + 1, each=each))
    if s.batches == 1 and tiles > SLOTS:
        rows = (tiles - tiles // SLOTS * SLOTS + across - 1) // across
        choices += [Choice("wide", 1, Tail(rows, n)) for n in range(2, most + 1) if rows]
    return choices


def _wide_time(s: Shape, choice: Choice) -> float:
    """Seconds that gemm_tile and the sum over its slices are expected to take."""
    (rows, cols), (_, slices, tail, long) = EDGES["wide"], choice
    tiles = _tiles(s, "wide")
    each = 2 * rows * cols * SLOTS / RATE  # a wave of workgroups, for each k and for starting
    if tail.rows:  # its slices fill what the whole tiles leave free; the others come after them
        in_tail = tail.rows * cdiv(s.cols, cols)
        whole = cdiv(tiles - in_tail, SLOTS)
        later = max(tiles - whole * SLOTS, 0) * tail.slices
        k = whole * (s.depth + START) + _waves(later) * cdiv(s.depth, tail.slices)
        return k * each + _sum_time(s, tail.slices, tail.rows * rows)
    if long:
        waves = tiles / SLOTS + 0.25 * (1.0 - long * (slices - 1) / s.depth)
        return waves * (s.depth + slices * START) * each + _sum_time(s, slices, s.rows)
    product = _waves(tiles * slices) * (cdiv(s.depth, slices) + START) * each
    return product + (_sum_time(s, slices, s.rows) if slices > 1 else 0.0)


def _waves(groups: int) -> float:
    """How long so many workgroups take, in the time of one wave."""
    waves, rest = divmod(groups, SLOTS)
    return waves + PARTIAL[cdiv(3 * rest, SLOTS)]


def _sum_time(s: Shape, slices: int, rows: int) -> float:
    return DISPATCH + (2 * slices + 1) * 4 * s.batches * rows * s.cols / BANDWIDTH


def _slices(
    groups: int, depth: int, shortest: int, busy: int = BUSY, most: int = 64
) -> int:  # fmt: skip
    """Slices of K that keep the device busy, each at least `shortest` deep; 1 where it is.

    Half as many again as asked for: the slices of a last wave should not run alone.
    """
    wanted = 1 if groups >= busy else cdiv(busy * 3 // 2, max(groups, 1))
    return max(1, min(wanted, depth // shortest, most))


def lane_bits(s: Shape) -> int:
    """How many invocations of gemv split k: enough to fill the device, no more than k."""
    if not s.along_k:
        return 3 if s.depth >= 64 else 0
    bits = 4
    length = max(s.rows, s.cols)
    while bits < 8 and (s.depth >> bits) >= 32 and s.batches * cdiv(length << bits, 1024) < 1024:
        bits += 1
    return bits


def sum_bits(slices: int, size: int) -> int:
    """How many invocations of splitk_reduce share the slices of one element, as a power of two."""
    bits = 0
    while bits < 8 and slices >> bits > 8 and size << bits < 256 * BUSY:
        bits += 1
    return bits
