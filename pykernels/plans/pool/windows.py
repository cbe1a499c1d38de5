"""Windows of pools: their places, their number, and the checks of arguments."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pykernels.errors import ArgumentError, LimitError, ShapeError
from pykernels.steps import cdiv
from pykernels.tensors.layout import View

__all__ = [
    "Axis", "OptionalPair", "Pair", "Windows", "adaptive_windows", "check_images", "check_padding",
    "is_whole", "output_size", "pair", "windows",
]  # fmt: skip

Pair: TypeAlias = int | tuple[int, int]
OptionalPair: TypeAlias = int | tuple[int, int] | None
MOST = 1 << 31


class Axis(NamedTuple):
    """Windows along one axis: window o begins at o * step // unit - pad and ends before
    (o * step + last) // unit - pad. A mean counts the elements from low up to high."""

    size: int
    out: int
    step: int
    last: int
    unit: int
    pad: int
    dilation: int
    low: int
    high: int


Windows: TypeAlias = tuple[Axis, Axis]


def windows(
    op: str,
    size: tuple[int, int],
    out: tuple[int, int],
    kernel: Pair,
    stride: OptionalPair,
    padding: Pair,
    dilation: Pair = 1,
    include_pad: bool = True,
) -> Windows:
    """The windows of images of `size` whose results have the size `out`."""
    k = pair(op, "kernel", kernel, 1)
    s = k if stride is None else pair(op, "stride", stride, 1)
    p, d = pair(op, "padding", padding, 0), pair(op, "dilation", dilation, 1)
    found = []
    for a in range(2):
        allowed = [output_size(size[a], k[a], s[a], p[a], d[a], ceil) for ceil in (False, True)]
        allowed = [n for n in allowed if n > 0]
        if out[a] not in allowed:
            name = ("rows", "columns")[a]
            told = " or ".join([f"{n}" for n in sorted(set(allowed))])
            raise ShapeError(
                f"[{op}] for images of {size[a]} {name} the result must have "
                f"{told or 'one or more'} but has {out[a]}"
            )
        reach = d[a] * (k[a] - 1) + 1
        if size[a] + 2 * p[a] + reach >= MOST:
            raise LimitError(f"windows of {k[a]} elements, {d[a]} apart, go beyond 32 bits")
        edge = p[a] if include_pad else 0
        found.append(Axis(size[a], out[a], s[a], reach, 1, p[a], d[a], -edge, size[a] + edge))
    return (found[0], found[1])


def is_whole(w: Windows) -> bool:
    """True if there is one window, which is the image without padding or gaps."""
    return all(
        [a.out == 1 and a.last == a.size and (a.unit, a.pad, a.dilation) == (1, 0, 1) for a in w]
    )


def check_padding(op: str, kernel: Pair, padding: Pair, dilation: Pair) -> None:
    """ArgumentError if a window of a maximum could lie entirely in the padding."""
    k, p = pair(op, "kernel", kernel, 1), pair(op, "padding", padding, 0)
    d = pair(op, "dilation", dilation, 1)
    for a in range(2):
        reach = d[a] * (k[a] - 1) + 1
        if 2 * p[a] > reach:
            raise ArgumentError(
                f"[{op}] padding must be at most half of a window's reach, {reach // 2}, but is "
                f"{p[a]}"
            )


def output_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> int:
    """The number of windows along an axis, by torch's rule; below 1 means that there is no
    window."""
    reach = dilation * (kernel - 1) + 1
    room = size + 2 * padding - reach
    if not ceil:
        return room // stride + 1
    out = cdiv(room, stride) + 1
    # The last window begins in the image or in the padding before it.
    return out - 1 if (out - 1) * stride >= size + padding else out


def adaptive_windows(op: str, size: tuple[int, int], out: tuple[int, int]) -> Windows:
    """The windows that divide images of `size` into `out` parts; all have one size if `out` divides
    `size`."""
    found = []
    for n, m in zip(size, out, strict=True):
        if n % m == 0:
            found.append(Axis(n, m, n // m, n // m, 1, 0, 1, 0, n))
        else:
            found.append(Axis(n, m, n, n + m - 1, m, 0, 1, 0, n))
        if (n + 1) * (m + 1) >= MOST:
            raise LimitError(f"{m} windows of {n} elements go beyond 32 bits")
    return (found[0], found[1])


def check_images(op: str, image: str, x: View, result: str, dst: View) -> None:
    """Raise unless both are images of four axes with elements, with the same numbers of images and
    channels."""
    if x.ndim != 4 or dst.ndim != 4 or x.shape[:2] != dst.shape[:2]:
        raise ShapeError(
            f"[{op}] {image} must have axes (N, C, H, W) and {result} (N, C, OH, OW) but they have "
            f"shapes {x.shape} and {dst.shape}"
        )
    if 0 in x.shape[2:] or 0 in dst.shape[2:]:
        raise ShapeError(
            f"[{op}] {image} and {result} must have rows and columns but have shapes {x.shape} and "
            f"{dst.shape}"
        )
    if x.shape[2] * x.shape[3] >= MOST:
        raise LimitError(f"positions in images of {x.shape[2:]} go beyond 32 bits")


def pair(op: str, name: str, value: Pair, least: int) -> tuple[int, int]:
    """The integers of both axes, from one integer or a pair; each is at least `least` and below
    2**31."""
    if isinstance(value, str):
        raise ArgumentError(f"[{op}] {name} must be one or two integers but is {value!r}")
    both = value if isinstance(value, tuple) else (value, value)
    if len(both) != 2 or None in both or min(both) < least or max(both) >= MOST:
        raise ArgumentError(
            f"[{op}] {name} must be one or two integers of {least} or more, below 2**31, but is "
            f"{value!r}"
        )
    return both
