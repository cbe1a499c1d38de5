"""The positions of the pixels of a resized image, as exact fractions."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels.errors import LimitError

__all__ = ["COORDINATES", "NEAREST", "Position", "position"]

COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


class Position(NamedTuple):
    """Pixel i of the output lies at (step * i + first) / unit - 1 of the input."""

    step: int
    first: int
    unit: int


def position(size: int, out: int, coordinates: str, nearest: str = "") -> Position:
    """The positions along an axis of `size` pixels that is resized to `out` pixels. With `nearest`,
    the floor of a position is the nearest pixel."""
    step, first, unit = size, 0, out
    if coordinates == "align_corners":
        step, unit = size - 1, out - 1
    elif coordinates != "asymmetric":
        step, first, unit = 2 * size, size - out, 2 * out
    if out == 1 and coordinates in ("align_corners", "pytorch_half_pixel"):
        step, first, unit = 0, 0, 1
    if nearest == "ceil":
        first += unit - 1
    elif nearest.startswith("round"):
        up = unit if nearest == "round_prefer_ceil" else unit - 1
        step, first, unit = 2 * step, 2 * first + up, 2 * unit
    common = math.gcd(step, first, unit)
    step, first, unit = step // common, first // common, unit // common
    if step * (out + 4) + first + unit >= 1 << 32:
        raise LimitError(f"positions of {size} pixels in {out} go beyond 32 bits")
    return Position(step, first + unit, unit)
