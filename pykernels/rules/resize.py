"""The rule of images of another size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.tensors.host import shape_of

__all__ = ["LAYOUTS", "images", "result", "sampled", "sides", "two"]

LAYOUTS = {"chw": 2, "hwc": 3}  # and the axes that an image has at least


def two(op: str, name: str, value: Any) -> tuple[int, int]:
    """Two integers, or one for both."""
    if not isinstance(value, Sequence):
        both = integer(op, name, value)
        return both, both
    if len(value) != 2:
        raise ArgumentError(f"[{op}] {name} must be an integer or two but is {value!r}")
    return integer(op, name, value[0]), integer(op, name, value[1])


def sides(op: str, name: str, value: Any) -> tuple[int, ...]:
    """Two sizes, or one for both."""
    if type(value) is tuple and len(value) == 2 and type(value[0]) is type(value[1]) is int:
        return shape_of(value)
    return shape_of(two(op, name, value))


def images(op: str, x: Tensor, layout: str) -> Tensor:
    """The view (..., H, W)."""
    if x.ndim < LAYOUTS[layout]:
        raise ShapeError(
            f"[{op}] x must have {LAYOUTS[layout]} or more axes for layout {layout!r} but has "
            f"shape {x.shape}"
        )
    return x.moveaxis(-1, -3) if layout == "hwc" else x


def result(call: Call, places: Tensor, size: tuple[int, ...], layout: str) -> Tensor:
    """Images of this size, their channels where the layout has them."""
    shape = (*places.shape[:-2], *size)
    given = (*shape[:-3], *size, shape[-3]) if layout == "hwc" else shape
    return call.out(given, places.dtype)


def sampled(call: Call, x: Tensor, size: tuple[int, ...], layout: str) -> Made:
    """resize of floats."""
    places = images(call.op, x, layout)
    dst = result(call, places, size, layout)
    target = dst.moveaxis(-1, -3) if layout == "hwc" else dst
    return Made({"dst": dst}, {"x": places, "dst": target})
