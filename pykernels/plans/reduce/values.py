"""The reduced values: the elements of a tensor, or the values of an expression over several
tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels._generated.bodies import reduce_columns, reduce_rows
from pykernels.dtypes import DType, DTypeName
from pykernels.errors import ArgumentError
from pykernels.plans.parts import fits_binding, narrow
from pykernels.steps import Caps, Step
from pykernels.tensors.layout import Ints, View

__all__ = ["Values", "finish_of", "readable", "results"]


@dataclass(frozen=True)
class Values:
    """The views that the values are computed from, all of one shape, and the dtype of the values in
    a body.

    `made` makes the steps of a body that was made for an expression; None means that the values are
    elements of a tensor.
    """

    views: tuple[View, ...]
    dtype: DType
    made: Callable[..., Step] | None = None

    @property
    def shape(self) -> Ints:
        return self.views[0].shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def computed(self) -> str:
        """The type that states of the values are computed in."""
        return {"f16": "f32", "bool": "u32"}.get(self.dtype.short, self.dtype.short)

    @property
    def vec(self) -> int:
        """The number of neighbours that are read at once: 4 if each view has vectors or repeats
        one element along a row."""
        if len(self.views) == 1:
            return 4 if self.views[0].vectorizable(4) else 1
        found = [v.vectorizable(4) for v in self.views]
        fits = all([f or v.strides[-1] == 0 for f, v in zip(found, self.views, strict=True)])
        return 4 if fits and any(found) else 1

    def fits(self, caps: Caps) -> bool:
        """True if one binding can hold each view."""
        return all([fits_binding(caps, v) for v in self.views])

    def step(self, axis: int) -> int:
        """The distance of neighbours along an axis, summed over the views."""
        return sum([abs(v.strides[axis]) for v in self.views])

    def narrow(self, axis: int, first: int, size: int) -> Values:
        """The part of the values from `first` on along one axis."""
        return self._over([narrow(v, axis, first, size) for v in self.views])

    def with_layout(self, shape: Ints, strides: Sequence[Ints]) -> Values:
        """The same values with this shape and these strides of each view."""
        pairs = zip(self.views, strides, strict=True)
        return self._over([v.with_layout(shape, s) for v, s in pairs])

    def rows(self, caps: Caps, dst: View, **params: Any) -> Step:
        """A step of `reduce_rows`."""
        if self.made is not None:
            return self.made(caps, self, dst, "rows", **params)
        return reduce_rows.step(caps, self.views[0], dst, **params)

    def columns(self, caps: Caps, dst: View, **params: Any) -> Step:
        """A step of `reduce_columns`."""
        if self.made is not None:
            return self.made(caps, self, dst, "columns", **params)
        return reduce_columns.step(caps, self.views[0], dst, **params)

    def _over(self, views: Sequence[View]) -> Values:
        return Values(tuple(views), self.dtype, self.made)


def results(output: str, given: DTypeName) -> tuple[DTypeName, ...]:
    """The dtypes of the result, the usual one first, by the rule of the kernel (`output`) and the
    dtype of the values."""
    if output == "int32":
        return ("int32",)
    if output == "bool":
        return ("bool",)
    if output == "same":
        return (given,)
    if given in ("float16", "bfloat16"):
        return (given, "float32")
    if given == "float32" or output == "float":
        return ("float32",)
    return ("uint32",) if given in ("uint8", "uint16", "uint32") else ("int32",)


def finish_of(name: str, dtype: DTypeName, number: float) -> str:
    """The name of a kernel's finish, which makes a result of a state: the kernel's name, except for
    norms and for sums of bool."""
    if name == "sum" and dtype == "bool":
        return "count_nonzero"
    if name != "norm":
        return name
    known = {1.0: "norm_1", 2.0: "norm_2", math.inf: "norm_inf"}
    if number not in known:
        raise ArgumentError(f"[norm] ord must be 1, 2 or inf but is {number}")
    return known[number]


def readable(dtype: DTypeName, classes: tuple[str, ...]) -> DTypeName:
    """The dtype in which the bodies read x: float32 if they need floats, and a 32-bit integer for
    narrow integers."""
    if dtype in ("float32", "float16") or (dtype == "bool" and "bool" in classes):
        return dtype
    if classes == ("float",):
        return "float32"
    return "uint32" if dtype in ("uint8", "uint16", "uint32") else "int32"
