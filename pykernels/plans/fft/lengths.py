"""The passes of a Fourier transform of one length, and the parts of its table."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.errors import LimitError

__all__ = ["MIXED", "TILE", "Layout", "Outer", "convolution", "factors", "layout", "radices"]

TILE = 4096  # largest power of two that one pass transforms
# largest power of two that one of several passes transforms; it is smaller, because a workgroup
# then also holds neighbouring columns
TILE_OF_SEVERAL = 2048
MIXED = 1024  # largest other length that one pass transforms
MOST = 1 << 30
# Radices of the stages of fft_mixed, in their order.
_RADICES = (8, 4, 2, 7, 5, 3)


class Outer(NamedTuple):
    """The places of the factors of w^m in the table: w^m = table[coarse + (m >> bits)] * table[fine
    + low bits of m]."""

    fine: int
    coarse: int
    bits: int


class Layout(NamedTuple):
    """The parts of a length's table. The table has the powers of w for the length of each pass.
    With several passes it also has the two factors of the powers of the whole length. For a
    convolution it also has the factors of x and of the spectrum."""

    inner: tuple[tuple[int, int], ...]  # pairs of a factor and its place in the table
    outer: Outer
    chirp: int
    spectrum: int
    size: int


def is_smooth(n: int) -> bool:
    """True if 2, 3, 5 and 7 are the only prime factors."""
    for prime in (2, 3, 5, 7):
        while n % prime == 0:
            n //= prime
    return n == 1


def convolution(length: int) -> int:
    """The length, a power of two, of the convolution that computes a transform of `length`; 0 if
    the prime factors of `length` are small."""
    if is_smooth(length):
        return 0
    return 1 << (2 * length - 2).bit_length()


def factors(length: int) -> tuple[int, ...]:
    """The length that each pass transforms, for a length whose prime factors are small."""
    if length > MOST:
        raise LimitError(f"[fft] length must be at most {MOST} but is {length}")
    if _fits(length, TILE):
        return (length,)
    divisors = [n for n in range(2, TILE_OF_SEVERAL + 1) if length % n == 0]
    divisors = [n for n in divisors if _fits(n, TILE_OF_SEVERAL)]
    for count in range(2, 12):
        found = _split(length, count, divisors)
        if found:
            return found
    raise LimitError(f"[fft] length {length} has no factors that fit a pass")


def _fits(n: int, most: int) -> bool:
    return n <= MIXED or (n <= most and n & (n - 1) == 0)


def _split(length: int, count: int, divisors: list[int]) -> tuple[int, ...]:
    """`count` divisors whose product is the length, the largest as small as possible; () if there
    are none."""
    if count == 1:
        return (length,) if length in divisors else ()
    found: tuple[int, ...] = ()
    for n in divisors:
        if length % n == 0 and (not found or n < max(found)):
            rest = _split(length // n, count - 1, divisors)
            if rest and (not found or max(n, *rest) < max(found)):
                found = (n, *rest)
    return found


def radices(n: int) -> int:
    """The radices of the stages of a factor, 4 bits each."""
    found, shift = 0, 0
    for radix in _RADICES:
        while n % radix == 0:
            n //= radix
            found |= radix << shift
            shift += 4
    return found


def layout(length: int) -> Layout:
    """The places of the parts of a table."""
    size = convolution(length)
    parts = factors(size or length)
    at = 0
    inner: list[tuple[int, int]] = []
    for n in parts:
        if all(n != known for known, _ in inner):
            inner.append((n, at))
            at += n
    outer = Outer(0, 0, 0)
    if len(parts) > 1:
        whole = size or length
        bits = ((whole - 1).bit_length() + 1) // 2
        outer = Outer(at, at + (1 << bits), bits)
        at += (1 << bits) + ((whole - 1) >> bits) + 1
    if size == 0:
        return Layout(tuple(inner), outer, at, at, at)
    return Layout(tuple(inner), outer, at, at + length, at + length + size)
