"""resize: one dispatch, by rows of the output, or by images if images are neighbours in memory;
with antialiasing one dispatch for the rows and one for the columns."""

from __future__ import annotations

from pykernels._generated.bodies import resize as body
from pykernels._generated.bodies import resize_filter
from pykernels.errors import ArgumentError, ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

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
    antialias: bool = False,
) -> list[Step]:
    """One step, two with antialiasing, none for an empty dst."""
    known = (("mode", mode, tuple(TAPS)), ("coordinates", coordinates, COORDINATES),
             ("nearest", nearest, NEAREST))  # fmt: skip
    for name, value, allowed in known:
        if value not in allowed:
            raise ArgumentError(
                f"[resize] {name} must be one of {', '.join(allowed)} but is {value!r}"
            )
    if antialias and mode == "nearest":
        raise ArgumentError(
            "[resize] antialias goes with the modes linear and cubic but mode is 'nearest'"
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
    if antialias:
        return _filtered(caps, scratch, x, dst, TAPS[mode] // 2, coordinates)
    rounding = nearest if mode == "nearest" else ""
    rows = position(x.shape[-2], dst.shape[-2], coordinates, rounding)
    cols = position(x.shape[-1], dst.shape[-1], coordinates, rounding)
    return [
        body.step(
            caps, x, dst, TAPS=TAPS[mode], batches_first=int(_images_apart(dst)),
            row_step=rows.step, row_first=rows.first, row_unit=rows.unit, col_step=cols.step,
            col_first=cols.first, col_unit=cols.unit, col_whole=cols.step // cols.unit,
            col_rest=cols.step % cols.unit,
        )
    ]  # fmt: skip


def _filtered(
    caps: Caps, scratch: Scratch, x: View, dst: View, radius: int, coordinates: str
) -> list[Step]:
    """The steps with antialiasing: first the rows, then the columns, with f32 sums between them."""
    shape = (*dst.shape[:-1], x.shape[-1])
    apart = _images_apart(dst)
    if apart:  # as in x, images (channels) are neighbours in the temporary's memory
        between = scratch.empty((*shape[:-3], *shape[-2:], shape[-3]), "float32")
        order = (*range(x.ndim - 3), x.ndim - 1, x.ndim - 3, x.ndim - 2)
        between = _transposed(between, order)
    else:
        between = scratch.empty(shape, "float32")
    turned = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    across = (_transposed(between, turned), _transposed(dst, turned))
    return [
        _pass(caps, x, between, radius, coordinates, 2 if apart else 0),
        _pass(caps, *across, radius, coordinates, 2 if apart else 1),
    ]


def _pass(caps: Caps, x: View, dst: View, radius: int, coordinates: str, fastest: int) -> Step:
    """The step of one pass, which changes the number of rows."""
    size, out = x.shape[-2], dst.shape[-2]
    at = position(size, out, coordinates)
    return resize_filter.step(
        caps, x, dst, RADIUS=radius, fastest=fastest, step=at.step, first=at.first, unit=at.unit,
        reach=max(radius, cdiv(radius * size, out)), narrow=min(1.0, out / size),
    )  # fmt: skip


def _images_apart(dst: View) -> bool:
    """True if images are neighbours in memory, not the pixels of a row."""
    item = dst.dtype.itemsize
    return dst.strides[-1] != item and item in dst.strides[:-2]


def _transposed(v: View, order: tuple[int, ...]) -> View:
    return v.with_layout([v.shape[a] for a in order], [v.strides[a] for a in order])
