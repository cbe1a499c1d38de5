"""The rules of functions that resize images or cut them into windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.resize.windows import Pair, Windows, windows
from pykernels.tensors.host import shape_of

__all__ = [
    "LAYOUTS", "factor", "folded", "images", "result", "sampled", "shuffled", "sides", "unfolded",
    "unshuffled",
]  # fmt: skip

LAYOUTS = {"chw": 2, "hwc": 3}  # the least number of axes of an image in each layout


def _two(op: str, name: str, value: Any) -> tuple[int, int]:
    """An argument as two integers; one integer counts for both."""
    if not isinstance(value, Sequence):
        both = integer(op, name, value)
        return both, both
    if len(value) != 2:
        raise ArgumentError(f"[{op}] {name} must be an integer or two but is {value!r}")
    return integer(op, name, value[0]), integer(op, name, value[1])


def sides(op: str, name: str, value: Any) -> tuple[int, ...]:
    """An argument as two sizes; one size counts for both."""
    if type(value) is tuple and len(value) == 2 and type(value[0]) is type(value[1]) is int:
        return shape_of(value)
    return shape_of(_two(op, name, value))


def images(op: str, x: Tensor, layout: str) -> Tensor:
    """The view (..., H, W)."""
    if x.ndim < LAYOUTS[layout]:
        raise ShapeError(
            f"[{op}] x must have {LAYOUTS[layout]} or more axes for layout {layout!r} but has "
            f"shape {x.shape}"
        )
    return x.moveaxis(-1, -3) if layout == "hwc" else x


def result(call: Call, places: Tensor, size: tuple[int, ...], layout: str) -> Tensor:
    """New images of this size, with the channels at the position that the layout gives."""
    shape = (*places.shape[:-2], *size)
    given = (*shape[:-3], *size, shape[-3]) if layout == "hwc" else shape
    return call.out(given, places.dtype)


def sampled(call: Call, x: Tensor, size: tuple[int, ...], layout: str) -> Made:
    """resize of floats."""
    places = images(call.op, x, layout)
    dst = result(call, places, size, layout)
    target = dst.moveaxis(-1, -3) if layout == "hwc" else dst
    return Made({"dst": dst}, {"x": places, "dst": target})


def factor(op: str, name: str, value: Any) -> int:
    """The number of pixels that become one pixel, in each direction."""
    r = integer(op, "the factor", value)
    if r < 1:
        raise ArgumentError(f"[{op}] the factor must be 1 or more but is {r}")
    return r


def shuffled(call: Call, x: Tensor, upscale_factor: int) -> Made:
    """pixel_shuffle."""
    r, (*lead, channels, rows, cols) = upscale_factor, _planes(call, x)
    if channels % (r * r):
        raise ShapeError(
            f"[{call.op}] the channels must be a multiple of {r * r} but are {channels}"
        )
    result = call.out((*lead, channels // (r * r), rows * r, cols * r), x.dtype)
    src = x.reshape(*lead, channels // (r * r), r, r, rows, cols)
    dst = result.reshape(*lead, channels // (r * r), rows, r, cols, r)
    n = len(lead)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return Made({"dst": result}, {"src": src.transpose(*order), "dst": dst})


def unshuffled(call: Call, x: Tensor, downscale_factor: int) -> Made:
    """pixel_unshuffle."""
    r, (*lead, channels, rows, cols) = downscale_factor, _planes(call, x)
    if rows % r or cols % r:
        raise ShapeError(
            f"[{call.op}] rows and columns must be multiples of {r} but are {rows}, {cols}"
        )
    result = call.out((*lead, channels * r * r, rows // r, cols // r), x.dtype)
    src = x.reshape(*lead, channels, rows // r, r, cols // r, r)
    dst = result.reshape(*lead, channels, r, r, rows // r, cols // r)
    n = len(lead)
    order = (*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return Made({"dst": result}, {"src": src.transpose(*order), "dst": dst})


def _planes(call: Call, x: Tensor) -> tuple[int, ...]:
    """The shape of images; ShapeError if x has too few axes."""
    if x.ndim < 3:
        raise ShapeError(f"[{call.op}] x must have axes (..., C, H, W) but has shape {x.shape}")
    return x.shape


def unfolded(
    call: Call, x: Tensor, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair
) -> Made:
    """unfold."""
    if x.ndim not in (3, 4):
        raise ShapeError(f"[{call.op}] x must have axes (N, C, H, W) but has shape {x.shape}")
    size = x.shape[-2], x.shape[-1]
    w = windows(call.op, size, kernel_size, stride, padding, dilation)
    taps = w.kernel[0] * w.kernel[1]
    shape = (*x.shape[:-3], x.shape[-3] * taps, w.out[0] * w.out[1])
    return _of_windows(w, x, call.out(shape, x.dtype), x.ndim == 3)


def folded(
    call: Call, x: Tensor, output_size: tuple[int, int], kernel_size: Pair, dilation: Pair,
    padding: Pair, stride: Pair,
) -> Made:  # fmt: skip
    """fold."""
    if x.ndim not in (2, 3):
        raise ShapeError(
            f"[{call.op}] x must have axes (N, C KH KW, windows) but has shape {x.shape}"
        )
    w = windows(call.op, output_size, kernel_size, stride, padding, dilation)
    taps = w.kernel[0] * w.kernel[1]
    if x.shape[-2] % taps:
        raise ShapeError(
            f"[{call.op}] the second last axis must be a multiple of {taps} taps but x has shape "
            f"{x.shape}"
        )
    shape = (*x.shape[:-2], x.shape[-2] // taps, *output_size)
    return _of_windows(w, x, call.out(shape, x.dtype), x.ndim == 2)


def _of_windows(w: Windows, x: Tensor, result: Tensor, single: bool) -> Made:
    """The views of images and of columns, with the axis N."""
    views: dict[str, Tensor | None] = {}
    if single:
        views = {"x": x[None], "dst": result[None]}
    options = {
        "kernel": w.kernel, "stride": w.stride, "padding": w.padding, "dilation": w.dilation,
    }  # fmt: skip
    return Made({"dst": result}, views, options)
