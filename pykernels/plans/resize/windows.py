"""The checked windows of images that im2col and col2im share."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pykernels.errors import ArgumentError, ShapeError
from pykernels.tensors.layout import View

__all__ = ["Pair", "Windows", "check", "windows"]

Pair: TypeAlias = int | tuple[int, int]


class Windows(NamedTuple):
    """Pairs of (rows, columns)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    out: tuple[int, int]  # the number of windows


def windows(
    op: str,
    size: tuple[int, int],
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
) -> Windows:
    """The windows of an image; ShapeError if there are none."""
    k, s = _pair(op, "kernel", kernel, 1), _pair(op, "stride", stride, 1)
    p, d = _pair(op, "padding", padding, 0), _pair(op, "dilation", dilation, 1)
    out = [(size[a] + 2 * p[a] - d[a] * (k[a] - 1) - 1) // s[a] + 1 for a in range(2)]
    if min(out) < 1:
        raise ShapeError(
            f"[{op}] the image with its padding must be as large as a window's reach but has shape "
            f"{size}, padding {p}, kernel {k} and dilation {d}"
        )
    return Windows(k, s, p, d, (out[0], out[1]))


def check(op: str, image: View, columns: View, w: Windows) -> None:
    """Raise unless images (N, C, H, W) and columns (N, C KH KW, OH OW) fit together."""
    want = (
        image.shape[0],
        image.shape[1] * w.kernel[0] * w.kernel[1],
        w.out[0] * w.out[1],
    )
    if columns.shape != want:
        raise ShapeError(
            f"[{op}] the columns of images {image.shape} must have shape {want} but have "
            f"{columns.shape}"
        )


def _pair(op: str, name: str, value: Pair, least: int) -> tuple[int, int]:
    """The integers of both axes, from one integer or a pair; each is at least `least`."""
    if isinstance(value, str):
        raise ArgumentError(f"[{op}] {name} must be one or two integers but is {value!r}")
    pair = value if isinstance(value, tuple) else (value, value)
    if len(pair) != 2 or None in pair or min(pair) < least:
        raise ArgumentError(
            f"[{op}] {name} must be one or two integers of {least} or more but is {value!r}"
        )
    return pair
