"""The statistics of x, as views that repeat them over the elements of x."""

from __future__ import annotations

import math
from typing import NamedTuple

from pykernels.dtypes import DTypeName
from pykernels.errors import ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.reduce import reduction
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Ints, View

__all__ = [
    "Affine",
    "Norm",
    "Statistics",
    "affine",
    "as_float",
    "check_affine",
    "dense",
    "repeat",
    "statistics",
]


class Norm(NamedTuple):
    """A norm: its name, True if it subtracts a mean, and eps, which keeps a divisor from 0. For
    `l2`, eps is the smallest length; for other norms it is added to the variance or to the mean
    square."""

    op: str
    mean: bool
    eps: float
    l2: bool = False


class Statistics(NamedTuple):
    """float32 views with the same strides: the mean is `pivot + offset`, and `squares` is the sum
    of squared differences from it over `elements` elements. None stands for 0."""

    pivot: View | None
    offset: View | None
    squares: View
    elements: float


class Affine(NamedTuple):
    """The factor and the summand of each element; None for a missing one."""

    weight: View | None
    bias: View | None


def statistics(
    caps: Caps, scratch: Scratch, norm: Norm, x: View, axes: Ints
) -> tuple[list[Step], Statistics]:
    """Statistics over some axes of x, repeated to the shape of x, which must have elements."""
    steps, words = reduction.states(caps, scratch, "var" if norm.mean else "norm_2", x, axes)
    rest = tuple([a for a in range(x.ndim) if a not in axes])
    found = [repeat(word, x.shape, rest) for word in words]
    count = math.prod([x.shape[a] for a in axes])
    if not norm.mean:
        return steps, Statistics(None, None, found[0], count)
    return steps, Statistics(found[0], found[1], found[2], count)


def repeat(view: View, shape: Ints, axes: Ints) -> View:
    """A view of this shape: the axes of `view` become the axes `axes`, and the view repeats along
    all other axes."""
    strides = [0] * len(shape)
    for axis, step in zip(axes, view.strides, strict=True):
        strides[axis] = step
    return view.with_layout(shape, strides)


def check_affine(op: str, size: int, **given: View | None) -> None:
    """ShapeError if weight or bias does not have `size` elements."""
    for name, view in given.items():
        if view is not None and view.shape != (size,):
            raise ShapeError(f"[{op}] {name} must have shape ({size},) but has {view.shape}")


def as_float(caps: Caps, scratch: Scratch, view: View, steps: list[Step]) -> View:
    """The view if it is float32, or else a float32 copy; the steps of the copy are appended to
    `steps`."""
    if view.dtype.name == "float32":
        return view
    near = scratch.empty(view.shape, "float32")
    steps += cpy.plan(caps, scratch, view, near)
    return near


def dense(
    caps: Caps, scratch: Scratch, view: View | None, name: DTypeName, steps: list[Step]
) -> View | None:
    """The view if it is contiguous, aligned for vectors, and of this dtype; otherwise a copy with
    these properties."""
    if view is None or (
        view.dtype.name == name and view.contiguous and view.aligned(4 * view.dtype.itemsize, ())
    ):
        return view
    near = scratch.empty(view.shape, name)
    steps += cpy.plan(caps, scratch, view, near)
    return near


def affine(
    caps: Caps, scratch: Scratch, weight: View | None, bias: View | None, steps: list[Step]
) -> Affine:
    """Weight and bias in float32 with the same strides; the steps that copy them are appended to
    `steps`."""
    weight = as_float(caps, scratch, weight, steps) if weight else None
    bias = as_float(caps, scratch, bias, steps) if bias else None
    if weight is None or bias is None or weight.strides == bias.strides:
        return Affine(weight, bias)
    found = []
    for apart in (weight, bias):
        near = scratch.empty(apart.shape, "float32")
        steps += cpy.plan(caps, scratch, apart, near)
        found.append(near)
    return Affine(*found)
