"""Compares outputs with the reference, for `pykernels run --check` and for the benchmarks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pykernels import kernels
from pykernels.reference import budget, function

__all__ = ["TOLERANCES", "Verdict", "asks_for", "compared", "differing", "expected", "verdict"]

Array = np.ndarray[Any, Any]

# The allowed error: a share of each element, and a share of the largest element.
TOLERANCES = {"float32": (1e-4, 1e-6), "float16": (2e-3, 1e-6), "bfloat16": (1e-2, 1e-6)}
LARGEST = 3.3895313892515355e38  # the largest finite bfloat16


@dataclass(frozen=True)
class Verdict:
    """The largest error, the largest error relative to its bound, and the number of wrong
    elements."""

    error: float
    share: float
    wrong: int
    size: int

    def joined(self, other: Verdict) -> Verdict:
        """The verdict on two parts together."""
        return Verdict(
            max(self.error, other.error), max(self.share, other.share),
            self.wrong + other.wrong, self.size + other.size,
        )  # fmt: skip

    def __str__(self) -> str:
        if self.wrong:
            return f"{self.wrong} of {self.size} elements are wrong, the worst by {self.error:.3g}"
        return f"{self.size} elements, largest error {self.error:.3g}"


def expected(
    kernel: str, arrays: Mapping[str, Array], args: Mapping[str, Any], got: Array
) -> tuple[Array, ...]:
    """The expected outputs, from the reference; PyKernelsError for a kernel without a reference.

    `arrays` are the inputs by name, and the output before the call if the reference needs it.
    """
    meaning = function(kernel)
    asks = inspect.signature(meaning).parameters
    given = {"dtype": got.dtype, "shape": got.shape}
    extra = {k: v for k, v in given.items() if k in asks}
    asked = {k: a for k, a in arrays.items() if k in asks}
    found = meaning(**asked, **args, **extra)
    return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))


def asks_for(kernel: str, name: str) -> bool:
    """True if the reference needs the tensor of this name as it was before the call."""
    return name in inspect.signature(function(kernel)).parameters


def differing(want: Array, got: Array) -> int:
    """The number of elements of one dtype that differ in a bit; all NaNs are equal."""
    bits = f"u{got.dtype.itemsize}"
    differ = np.ascontiguousarray(want).view(bits) != np.ascontiguousarray(got).view(bits)
    return int((differ & ~((want != want) & (got != got))).sum())


def verdict(
    kernel: str, arrays: Mapping[str, Array], args: Mapping[str, Any], got: Sequence[Array],
    rounded: bool = False,
) -> Verdict:  # fmt: skip
    """Compare outputs with `pykernels.reference`: bit for bit if the reference has the output's
    dtype, else within its budget (absolute, per element) if it has one, else within TOLERANCES.

    `rounded` is True if matrix units rounded numbers between two products to halves; some budgets
    allow for this rounding. If the launcher converts bfloat16 tensors, the kernel computes float32:
    the output is then judged as a float32 that was rounded once more.
    """
    last, given = got[-1], arrays
    if not has_bfloat16(kernel):
        arrays = {name: _as_computed(array) for name, array in arrays.items()}
        last = _as_computed(last)
    want = expected(kernel, arrays, args, last)
    if "o" in arrays:  # the budget depends on the dtype in which "o" is stored
        arrays = {**arrays, "o": given["o"]}
    allowed = _budget(kernel, arrays, args, last, rounded)
    bounds = allowed if isinstance(allowed, tuple) else (allowed,) * len(want)
    found = Verdict(0.0, 0.0, 0, 0)
    for w, g, bound in zip(want, got, bounds, strict=True):
        found = found.joined(compared(w, g, bound))
    return found


def has_bfloat16(kernel: str) -> bool:
    """True if shaders of a kernel read or write bfloat16; also True for kernels of other
    packages."""
    own = getattr(kernels, kernel, None)
    if own is None:
        return True
    module = import_module(own.__module__)
    return any("bfloat16" in arg.dtypes for arg in module.KERNEL.args)


def _as_computed(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _budget(
    kernel: str, arrays: Mapping[str, Array], args: Mapping[str, Any], got: Array, rounded: bool
) -> Any:
    """The error that the reference's budget allows, None if it has no budget."""
    bound = budget(kernel)
    if bound is None:
        return None
    given = {"shape": got.shape, "dtype": got.dtype, "rounded": rounded}
    extra = {k: v for k, v in given.items() if k in inspect.signature(bound).parameters}
    return bound(**arrays, **args, **extra)


def compared(want: Array, got: Array, bound: Array | None) -> Verdict:
    """Compare one output: bit for bit if `want` has the dtype of `got`, else within a bound of each
    element."""
    if got.dtype.kind == "c":  # complex numbers are compared as real and imaginary parts
        want, got = (np.stack([a.real, a.imag], -1) for a in (want, got))
        return compared(want, got, None if bound is None else np.asarray(bound)[..., None])
    if want.dtype == got.dtype:
        wrong = differing(want, got)
        return Verdict(float("inf") if wrong else 0.0, float(wrong), wrong, got.size)
    # the output must be `want`, which is exact, rounded once
    if got.dtype.name == "bfloat16" and want.dtype == np.float32:
        return compared(want.astype(got.dtype), got, None)
    most = LARGEST if got.dtype.name == "bfloat16" else np.finfo(got.dtype).max
    want = np.where(np.abs(want) > most, np.copysign(np.inf, want), want)
    finite = np.isfinite(want)
    size = np.where(finite, np.abs(want), 0.0)
    if bound is not None:
        allowed = np.asarray(bound, np.float64)
        if got.dtype.name == "bfloat16":  # results and errors below 2^-126 may become zero
            allowed = allowed + (size + allowed) * 2.0**-8 + 2.0**-126
        elif got.dtype != np.float32:
            # the error of rounding a normal number and of rounding a subnormal number
            allowed = allowed + size * 2.0**-10
            allowed = allowed + (2.0**-24 if got.dtype == np.float16 else 0.0)
    else:
        share, floor = TOLERANCES[got.dtype.name]
        allowed = share * size + floor * size.max(initial=0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        got64 = got.astype(np.float64)
        error = np.where(finite, np.abs(got64 - want), np.where(got64 == want, 0.0, np.inf))
        error = np.where(np.isnan(want) & np.isnan(got64), 0.0, error)
        fine = error <= allowed
        part = np.where(error == 0.0, 0.0, error / np.maximum(allowed, 1e-300))
    worst = float(np.max(error, initial=0.0)), float(np.max(part, initial=0.0))
    return Verdict(*worst, int((~fine).sum()), got.size)
