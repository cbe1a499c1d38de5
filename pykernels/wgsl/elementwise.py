"""The facts of an operation from its row of an `ops.toml`; codegen writes the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from pykernels.dtypes import DTypeName

__all__ = ["Array", "Op", "Reference", "wide"]

Array: TypeAlias = np.ndarray[Any, Any]
Reference: TypeAlias = Callable[..., Array]
_TINY = 2.0**-126  # results below this may be flushed to zero


@dataclass(frozen=True)
class Op:
    """One operation.

    `reference` takes the inputs (and params by name) and returns float64, or the integers' own
    dtype. `gradient` takes the gradient of the output and the inputs, and returns the gradient of
    each input that is not a condition. `domain` is the range from which tests draw these inputs.
    `special` has inputs with their required results. `ulp` is the largest error in ULP of f32
    inside the domain, on every driver, before a result is rounded to a smaller dtype.
    `operations` is the number of operations for one element. `texts` has the WGSL of the operation
    for each class of dtypes; this WGSL calls `helpers`. `gradients` has, for each input, `gradient`
    in the language of expressions.
    """

    name: str
    inputs: tuple[str, ...]
    conditions: tuple[str, ...]  # the inputs that are always bool
    dtypes: tuple[DTypeName, ...]  # dtypes of the other inputs
    output: Literal["same", "bool"]
    params: Mapping[str, float]  # numbers of a call, with their defaults
    aliases: tuple[str, ...]
    reference: Reference
    gradient: Callable[..., tuple[Array, ...]] | None
    domain: tuple[tuple[float, float], ...]
    ulp: float
    special: tuple[tuple[float, ...], ...]
    operations: int
    public: bool  # True if the operation is a kernel, and not only a part of epilogues
    texts: Mapping[str, str]
    helpers: tuple[str, ...]
    gradients: Mapping[str, str]

    def budget(self, *inputs: Array, **named: Array) -> Array:
        """The largest absolute error of each element of the output."""
        want = self.reference(*inputs, **named)
        if want.dtype.kind != "f":
            return np.zeros(want.shape)
        with np.errstate(all="ignore"):
            spacing = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
        return np.asarray(self.ulp * np.nan_to_num(spacing, nan=0.0, posinf=0.0) + _TINY)


def wide(x: Array) -> Array:
    """Floats as float64; integers stay unchanged, so that they wrap."""
    return x.astype(np.float64) if x.dtype.kind == "f" else x
