"""Reads calls to try: cases/FAMILY/KERNEL.toml has small calls for tests and large calls for the
page.

    test = ["x=f32[3,17] scale=0.5", …]      tensors and scalars, written as for `--shape`
    page = ["x=f32[4096,1024]", …]
    [values]                                 for tensors that must not be random numbers
    index = "distinct rows of dst"           or "rows of dst": whole numbers below dst.shape[-2]
    target = "columns of x"                  whole numbers below x.shape[-1]
    o = "result of attention.attention o"   what a function of pykernels.reference returns for the
                                             other tensors, or an attribute of it; not on the page

With `recorded_only = "why"`, the kernel's plan is not translated into JavaScript.

Each number is a hash of its position, so that the page computes the same numbers.
"""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pykernels.dtypes import DTYPES, numpy_dtype
from pykernels.errors import ArgumentError
from pykernels.tensors.layout import Layout, contiguous_layout

from ._layouts import Request, parse

__all__ = ["Cases", "Fill", "arrays", "cases", "fills", "where"]

Array = np.ndarray[Any, Any]
# Steps for choosing distinct rows. For any number of rows, at least one of the steps has no common
# factor with this number.
_STEPS = (7919, 104729, 611953)


@dataclass(frozen=True)
class Cases:
    test: list[Request]
    page: list[Request]
    values: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fill:
    """How the elements of a tensor are made: random numbers from `seed`; if `below` is given,
    integers below it; if `step` is given, too, distinct integers."""

    seed: int
    below: int = 0
    step: int = 0
    of: str = ""  # the name of a function of the reference

    def array(self, lay: Layout) -> Array:
        """The elements in C order."""
        dtype = numpy_dtype(lay.dtype.name)
        if lay.dtype.kind == "c":  # complex numbers are filled as real and imaginary parts
            parts = self.array(contiguous_layout((lay.size, 2), DTYPES["float32"]))
            return parts.view(dtype).reshape(lay.shape)
        i = np.arange(lay.size, dtype=np.uint64)
        if self.step:
            return ((i * self.step + self.seed) % self.below).astype(dtype).reshape(lay.shape)
        u = _hash((i + np.uint64(self.seed * 0x9E3779B9)).astype(np.uint32))
        found: Array
        if self.below:
            found = u % np.uint32(self.below)
        elif lay.dtype.kind == "f":  # a number with as many bits as the dtype holds exactly
            bits = {"float32": 24, "float16": 11, "bfloat16": 8}[lay.dtype.name]
            found = (u >> np.uint32(32 - bits)).astype(np.float64) / 2 ** (bits - 1) - 1
        elif lay.dtype.kind == "b":
            found = u & np.uint32(1)
        else:
            found = (u % np.uint32(100)).astype(np.int64) - (50 if lay.dtype.kind == "i" else 0)
        return found.astype(dtype).reshape(lay.shape)


def _hash(x: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """The final mixing step of MurmurHash3."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def arrays(request: Request, fills: Mapping[str, Fill]) -> dict[str, Array]:
    """The elements of every tensor of a call."""
    out = {n: fills[n].array(lay) for n, lay in request.layouts.items() if not fills[n].of}
    for name, lay in request.layouts.items():
        if name in out:
            continue
        path, *attribute = fills[name].of.split()
        module, function = path.split(".")
        called = getattr(importlib.import_module(f"pykernels.reference.{module}"), function)
        known = inspect.signature(called).parameters
        given = {n: v for n, v in (out | request.given).items() if n in known}
        found = called(**given)
        for a in attribute:
            found = getattr(found, a)
        out[name] = np.asarray(found).astype(numpy_dtype(lay.dtype.name)).reshape(lay.shape)
    return out


def where(kernel: str, facts: Mapping[str, Any]) -> str:
    """The file of a kernel's cases."""
    return f"pykernels/export/cases/{facts['family']}/{kernel}.toml"


def cases(kernel: str, facts: Mapping[str, Any]) -> Cases | None:
    """The cases of a kernel, None if it has none."""
    found = table(kernel, facts) or (_of_row(facts) if facts["row"] else {})
    if not found:
        return None
    unknown = found.keys() - {"test", "page", "values", "recorded_only"}
    if unknown:
        raise ArgumentError(
            f"[export] {where(kernel, facts)} has unknown keys: {', '.join(unknown)}"
        )
    test, page = ([parse(kernel, t, facts) for t in found.get(k, ())] for k in ("test", "page"))
    return Cases(test, page, found.get("values", {}))


def _of_row(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Calls for an operation that is a row of a table: with whole vectors, with other sizes, and
    with strides."""
    inputs = [t["name"] for t in facts["tensors"] if t["role"] == "in"]
    takes = {t["name"]: t["dtypes"] for t in facts["tensors"]}
    dtypes = takes[inputs[-1]]  # take the last input, because the first input may be a condition

    def call(dtype: str, shape: str, **others: str) -> str:
        kinds = {n: dtype if dtype in takes[n] else takes[n][0] for n in (*inputs, "dst")}
        return " ".join(f"{n}={kind}[{others.get(n, shape)}" for n, kind in kinds.items())

    test = [call(d, shape) for d in dtypes for shape in ("3,17]", "2,4,12]")]
    test.append(call(dtypes[0], "4,8]", **{inputs[0]: "4,8]:1,4"}))
    if len(inputs) > 1:
        test += [call(dtypes[0], "3,8]", **{n: other}) for n in inputs for other in ("8]", "3,1]")]
    return {"test": test, "page": [call(d, "4096,4096]") for d in dtypes]}


def table(kernel: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a kernel's file of cases, {} if there is no file."""
    folder = importlib.resources.files("pykernels.export") / "cases" / facts["family"]
    file = folder / f"{kernel}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def fills(request: Request, facts: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Fill]:
    """The fill of each tensor of a call, also of outputs: a call may write only a part of them."""
    out: dict[str, Fill] = {}
    for seed, t in enumerate(facts["tensors"], 1):
        name = t["name"]
        if name not in request.layouts:
            continue
        words = values.get(name, "").split()
        if not words:
            out[name] = Fill(seed)
        elif words[:2] == ["result", "of"]:
            out[name] = Fill(seed, of=" ".join(words[2:]))
        elif words[-3:-1] == ["rows", "of"] and words[-1] in request.layouts:
            rows = request.layouts[words[-1]].shape[-2:][0]
            step = next(s for s in _STEPS if math.gcd(s, rows) == 1)
            out[name] = Fill(seed, rows, step if words[0] == "distinct" else 0)
        elif words[:2] == ["columns", "of"] and words[-1] in request.layouts:
            out[name] = Fill(seed, request.layouts[words[-1]].shape[-1])
        else:
            raise ArgumentError(
                f"[export] {where(request.kernel, facts)}: values.{name} is not known"
            )
    return out
