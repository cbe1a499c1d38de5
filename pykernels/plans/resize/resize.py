"""resize: one dispatch, by rows of the output or by images where those are neighbours in memory."""

from __future__ import annotations

from pykernels._generated.bodies import resize as body
from pykernels.errors import ArgumentError, ShapeError
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step

from .positions import COORDINATES, NEAREST, position

__all__ = ["plan"]

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    dst: View,
    mode: str = "linear",
    coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor",
) -> list[Step]:
    """One step, none for an empty dst."""
    known = (("mode", mode, tuple(TAPS)), ("coordinates", coordinates, COORDINATES),
             ("nearest", nearest, NEAREST))  # fmt: skip
    for name, value, allowed in known:
        if value not in allowed:
            raise ArgumentError(
                f"[resize] {name} must be one of {', '.join(allowed)} but is {value!r}"
            )
    if x.ndim < 2 or dst.ndim != x.ndim or x.shape[:-2] != dst.shape[:-2]:
        raise ShapeError(
            "[resize] x and dst must have two or more axes, all but the last two the same, but "
            f"have shapes {x.shape} and {dst.shape}"
        )
    if dst.size == 0:
        return []
    if x.size == 0:
        raise ShapeError(f"[resize] x must have pixels but has shape {x.shape}")
    rounding = nearest if mode == "nearest" else ""
    rows = position(x.shape[-2], dst.shape[-2], coordinates, rounding)
    cols = position(x.shape[-1], dst.shape[-1], coordinates, rounding)
    item = dst.dtype.itemsize
    apart = dst.strides[-1] != item and item in dst.strides[:-2]
    return [
        body.step(
            caps, x, dst, TAPS=TAPS[mode], batches_first=int(apart), row_step=rows.step,
            row_first=rows.first, row_unit=rows.unit, col_step=cols.step, col_first=cols.first,
            col_unit=cols.unit, col_whole=cols.step // cols.unit, col_rest=cols.step % cols.unit,
        )
    ]  # fmt: skip
