"""What the tests of reductions share: values, and many checked calls in one case."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk
from pykernels._generated.ops.reductions import RESULTS
from pykernels.dtypes import DTYPES, numpy_dtype
from pykernels.reference import budget, function
from tests.harness import Array, Case, Form, Operand, assert_close, assert_same

KERNELS = tuple(RESULTS)
Axis = int | tuple[int, ...] | None


def result_dtype(name: str, dtype: str) -> str:
    """What the kernel makes of a dtype."""
    rule = RESULTS[name][0]
    if rule in ("int32", "bool"):
        return rule
    kind = DTYPES[dtype].kind
    if rule == "same" or kind == "f":
        return dtype
    return "float32" if rule == "float" else "uint32" if kind == "u" else "int32"


def draw(rng: np.random.Generator, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """Values of any sign that products keep in range; integers of all sizes, zeros among them."""
    dt = numpy_dtype(dtype)  # type: ignore[arg-type]
    if DTYPES[dtype].kind == "b":
        return rng.random(shape) < (0.999 if name == "all" else 0.01)
    if DTYPES[dtype].kind in "iu":
        info = np.iinfo(dt)
        some = rng.integers(info.min, info.max, shape, endpoint=True, dtype=np.int64)
        return np.where(rng.random(shape) < 0.1, 0, some).astype(dt)
    if name == "prod":
        return (1 + rng.normal(0, 0.01, shape)).astype(dt)
    values = rng.normal(0.5, 2, shape)
    if name in ("any", "all", "count_nonzero"):
        values[rng.random(shape) < (0.99 if name == "any" else 0.01)] = -0.0
    return values.astype(dt)


class ReduceCalls:
    """Many calls in one case, each checked against the reference within its budget."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[str, Operand, Operand, dict[str, Any]]] = []

    def add(
        self, name: str, x: Array | tuple[int, ...], axis: Axis = None, *, dtype: str = "float32",
        form: Form | None = None, dst: Form | None = None, keepdims: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        values = draw(self.rng, name, dtype, x) if isinstance(x, tuple) else x
        source = self.case.input(values, form, buffer="x")
        shape = np.sum(np.empty(values.shape, bool), axis, keepdims=keepdims).shape
        out = self.case.output(shape, result_dtype(name, values.dtype.name), dst, buffer="dst")
        self.calls.append((name, source, out, {"axis": axis, **options}))

    def check(self) -> list[Array]:
        self.case.build()
        before = [x.array.copy() for _, x, _, _ in self.calls]
        results = self.case.run(
            lambda: [
                getattr(pk.kernels, name)(x.tensor, dst.tensor, **options)
                for name, x, dst, options in self.calls
            ]
        )
        for got, x, (name, source, dst, options) in zip(results, before, self.calls, strict=True):
            want = function(name)(x, shape=dst.shape, **options)
            what = f"{name} {x.dtype} {x.shape} {source.strides} {options} -> {dst.strides}"
            if want.dtype.kind != "f":
                assert_same(got, want.astype(got.dtype), what)
                continue
            allowed = budget(name)
            bound = allowed(x, shape=dst.shape, **options) if allowed else np.zeros(dst.shape)
            if bound.any() or got.dtype == np.float16:
                assert_close(got, want, bound, what)
            else:
                assert_same(got + got.dtype.type(0), want.astype(got.dtype) + 0, what)
        return results
