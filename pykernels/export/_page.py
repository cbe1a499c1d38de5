"""Files of the page that `pykernels export --page` adds: index.html and page.json.

The page computes the same numbers as `_cases.Fill`, so page.json needs only samples and a sum of
each result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pykernels._version import __version__
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError

from ._cases import Cases, Fill, arrays, cases, fills, where
from ._expect import results, tolerance
from ._layouts import Request
from ._write import static

__all__ = ["page_files"]

Array = np.ndarray[Any, Any]
SAMPLES = 1000


def page_files(
    kernels: Iterable[str],
    known: Mapping[str, Any],
    chosen: Callable[[Cases], list[Request]] = lambda c: c.page,
) -> tuple[dict[str, str], list[Request]]:
    """The files of the page, and the calls whose plans the export must record for it."""
    entries, requests = [], []
    for name in kernels:
        found = cases(name, known[name])
        for request in chosen(found) if found else ():
            entries.append(_entry(request, known[name], found.values if found else {}))
            requests.append(request)
    page = {"generator": f"pykernels {__version__}", "entries": entries}
    return {
        "index.html": static("page.html"),
        "page.json": json.dumps(page, separators=(",", ":"), allow_nan=False) + "\n",
    }, requests


def _entry(request: Request, facts: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    made = fills(request, facts, values)
    if any(f.of for f in made.values()):
        raise ArgumentError(
            f"[export] {where(request.kernel, facts)}: the page makes no 'result of' values"
        )
    values_of = arrays(request, made)
    given = [t for t in facts["tensors"] if t["name"] in request.layouts]
    tensors = [
        {
            "name": t["name"], "role": t["role"], "dtype": lay.dtype.name, "shape": lay.shape,
            "strides": lay.strides, "fill": vars(made[t["name"]]),
            **({"shares": request.shares[t["name"]]} if t["name"] in request.shares else {}),
        }
        for t in given
        for lay in [request.layouts[t["name"]]]
    ]  # fmt: skip
    first = next((t for t in given if t["role"] == "out"), given[0])
    return {
        "kernel": request.kernel,
        "dtype": request.layouts[first["name"]].dtype.name,
        "size": _size(request, given),
        "tensors": tensors,
        "given": request.given,
        "bytes": sum(lay.nbytes for lay in request.layouts.values()),
        "expect": {
            name: _expected(want, values_of[name])
            for name, want in results(request, facts, values_of).items()
        },
    }


def _size(request: Request, given: Sequence[Mapping[str, Any]]) -> str:
    """The call as a short text: the shapes of inputs, or of the output if there are no inputs."""
    chosen = [t["name"] for t in given if t["role"] == "in"] or [t["name"] for t in given]
    parts = []
    for name in chosen:
        lay = request.layouts[name]
        words = " x ".join(f"{n:,}" if n >= 100_000 else f"{n}" for n in lay.shape) or "scalar"
        parts.append(words + ("" if lay.contiguous else " (strided)"))
    same = len(set(parts)) == 1
    text = parts[0] if same else ", ".join(f"{n} {p}" for n, p in zip(chosen, parts, strict=True))
    source = request.layouts[chosen[0]].dtype
    others = {request.layouts[t["name"]].dtype for t in given} - {source}
    return text + (f", {source.name} to {others.pop().name}" if len(others) == 1 else "")


def _expected(want: Array, before: Array) -> dict[str, Any]:
    """Samples and the sum of the expected result, and the tolerance for other results."""
    exact = want.dtype == before.dtype
    flat = want.reshape(-1)
    wide = flat.astype(np.float64)
    share, floor = tolerance(before.dtype, exact)
    finite = wide[np.isfinite(wide)]
    allowed = floor * float(np.abs(finite).max(initial=0.0))
    if want.size:
        places = np.unique(Fill(99, want.size).array(_positions()).astype(np.int64))
    else:
        places = np.zeros(0, np.int64)
    return {
        "places": places.tolist(),
        # JSON has no NaN and no infinity, so they become texts, which Number() converts back.
        "values": [float(v) if np.isfinite(v) else _number(v) for v in wide[places]],
        "share": share,
        "floor": allowed,
        "sum": float(finite.sum()),
        # This module and the page sum in float64, but in different orders.
        "sum_allowed": float((share + 1e-9) * np.abs(finite).sum() + allowed * want.size**0.5),
    }


def _number(value: float) -> str:
    """The text of a number that is not finite, as JavaScript writes it."""
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _positions() -> Any:
    from pykernels.tensors.layout import layout

    return layout((SAMPLES,), (8,), DTYPES["int64"])
