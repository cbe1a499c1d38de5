"""Is an output what the reference says? Shared by `pykernels run --check` and the benchmarks."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TOLERANCES", "Verdict", "differing", "expected", "verdict"]

Array = np.ndarray[Any, Any]

# What is allowed: a share of each element, and of the largest one.
TOLERANCES = {"float32": (1e-4, 1e-6), "float16": (2e-3, 1e-6), "bfloat16": (1e-2, 1e-6)}


@dataclass(frozen=True)
class Verdict:
    """The largest error, the largest as a share of what is allowed, and how many are wrong."""

    error: float
    share: float
    wrong: int
    size: int

    def joined(self, other: Verdict) -> Verdict:
        """Both parts together."""
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
) -> Array:
    """What the reference says; ModuleNotFoundError for a kernel that has none."""
    reference = getattr(importlib.import_module(f"pykernels.reference.{kernel}"), kernel)
    given = {"dtype": got.dtype, "shape": got.shape}
    extra = {k: v for k, v in given.items() if k in inspect.signature(reference).parameters}
    return np.asarray(reference(**arrays, **args, **extra))


def differing(want: Array, got: Array) -> int:
    """How many elements of one dtype differ in a bit; any NaN is a NaN."""
    bits = f"u{got.dtype.itemsize}"
    differ = np.ascontiguousarray(want).view(bits) != np.ascontiguousarray(got).view(bits)
    return int((differ & ~((want != want) & (got != got))).sum())


def verdict(
    kernel: str, arrays: Mapping[str, Array], args: Mapping[str, Any], got: Array
) -> Verdict:
    """Compare with `pykernels.reference`: bit for bit where the reference has the output's dtype,
    else within its `budget` (absolute, per element) if it has one, else within TOLERANCES."""
    want = expected(kernel, arrays, args, got)
    if want.dtype == got.dtype:
        wrong = differing(want, got)
        return Verdict(float("inf") if wrong else 0.0, float(wrong), wrong, got.size)
    want = np.where(np.abs(want) > np.finfo(got.dtype).max, np.copysign(np.inf, want), want)
    finite = np.isfinite(want)
    module = importlib.import_module(f"pykernels.reference.{kernel}")
    budget = getattr(module, "budget", None)
    if budget is not None:
        allowed = np.asarray(budget(**arrays, **args))
        if got.dtype != np.float32:
            allowed = allowed + np.abs(np.where(finite, want, 0.0)) * 2.0**-10
    else:
        rtol, floor = TOLERANCES[got.dtype.name]
        size = np.where(finite, np.abs(want), 0.0)
        allowed = rtol * size + floor * size.max(initial=0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        got64 = got.astype(np.float64)
        error = np.where(finite, np.abs(got64 - want), np.where(got64 == want, 0.0, np.inf))
        error = np.where(np.isnan(want) & np.isnan(got64), 0.0, error)
        fine = error <= allowed
        share = np.where(error == 0.0, 0.0, error / np.maximum(allowed, 1e-300))
    worst = float(np.max(error, initial=0.0)), float(np.max(share, initial=0.0))
    return Verdict(*worst, int((~fine).sum()), got.size)
