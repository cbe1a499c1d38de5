"""Results of a call by the numpy reference, and the comparison of other results with them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pykernels.reference import function

from ._layouts import Request

__all__ = ["Agreement", "agree", "results", "tolerance"]

Array = np.ndarray[Any, Any]
_TOLERANCES = {"float32": (1e-4, 1e-6), "float16": (2e-3, 1e-6), "bfloat16": (1e-2, 1e-6)}


def results(
    request: Request, facts: Mapping[str, Any], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Each output, computed by `pykernels.reference`: in the output's dtype if the kernel is exact,
    else in float64."""
    written = [t for t in facts["tensors"] if t["role"] == "out" and t["name"] in arrays]
    outputs = [t["name"] for t in sorted(written, key=lambda t: bool(t["optional"]))]
    inputs = [
        arrays.get(t["name"]) for t in facts["tensors"] if t["role"] == "in" and not t["optional"]
    ]
    meaning = function(request.kernel)
    known = inspect.signature(meaning).parameters
    dst = arrays[outputs[0]]
    optional = {t["name"] for t in facts["tensors"] if t["role"] == "in" and t["optional"]}
    named: dict[str, Any] = {n: arrays[n] for n in optional if n in arrays}
    named |= request.given
    named |= {k: v for k, v in {"dtype": dst.dtype, "shape": dst.shape}.items() if k in known}
    # outputs that are also inputs: their values before the call
    named |= {n: arrays[n] for n in outputs if n in known}
    found = meaning(*inputs, **named)
    found = found if isinstance(found, tuple) else (found,)
    return {name: np.asarray(a) for name, a in zip(outputs, found, strict=False)}


def tolerance(dtype: np.dtype[Any], exact: bool) -> tuple[float, float]:
    """The errors allowed relative to each element and to the largest one, as in `run --check`."""
    return (0.0, 0.0) if exact else _TOLERANCES[dtype.name]


@dataclass(frozen=True)
class Agreement:
    bad: int  # the number of elements that differ by more than is allowed
    worst: float
    first: tuple[int, ...] = ()


def agree(got: Array, want: Array) -> Agreement:
    """Compare an output with the reference: bit for bit if both have the same dtype."""
    if got.dtype.kind == "c":  # complex numbers are compared as real and imaginary parts
        return agree(*[np.stack([a.real, a.imag], -1) for a in (got, want)])
    if want.dtype == got.dtype:
        bits = f"u{got.dtype.itemsize}"
        one, other = (np.ascontiguousarray(a).view(bits) for a in (got, want))
        wrong = (one != other) & ~((got != got) & (want != want))
        worst = 0.0
    else:
        share, floor = tolerance(got.dtype, False)
        wide = got.astype(np.float64)
        finite = np.isfinite(want)
        top = float(np.abs(want[finite]).max(initial=0.0))
        with np.errstate(invalid="ignore"):
            error = np.abs(wide - want)
            fine = np.where(finite, error <= share * np.abs(want) + floor * top, wide == want)
        wrong = ~(fine | (np.isnan(wide) & np.isnan(want)))
        worst = float(error[finite].max(initial=0.0))
    places = np.argwhere(wrong)
    return Agreement(len(places), worst, tuple(int(i) for i in places[0]) if len(places) else ())
