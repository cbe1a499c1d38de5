"""What the tests of sorts share: values with many equal ones, and checked calls."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk
from pykernels.kernels import argsort, sort
from pykernels.reference import sort as reference
from tests.harness import Array, Case, Form, Operand, assert_same_bits, values

DTYPES = ("float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8",
          "bool")  # fmt: skip


def rows(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Any bits, infinities, zeros and NaNs of both signs; half of each row is a few values."""
    x = values(rng, dtype, shape)
    few = values(rng, dtype, 7)
    return np.where(rng.random(shape) < 0.5, rng.choice(few, shape), x).astype(x.dtype)


class Calls:
    """Many calls in one case, each compared with the reference bit for bit."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[Any, Any, Operand, Operand, bool]] = []

    def add(
        self, x: Array, x_form: Form | None = None, dst_form: Form | None = None, *,
        descending: bool = False,
    ) -> None:  # fmt: skip
        """Both sort and argsort of x."""
        given = self.case.input(x, x_form, buffer="x")
        for call, meaning, dtype in (
            (sort, reference.sort, x.dtype.name), (argsort, reference.argsort, "int32")
        ):  # fmt: skip
            dst = self.case.output(x.shape, dtype, dst_form, buffer="dst")
            self.calls.append((call, meaning, given, dst, descending))

    def check(self) -> None:
        self.case.build()
        arrays = [given.array.copy() for _, _, given, _, _ in self.calls]

        def run() -> None:
            for call, _, x, dst, descending in self.calls:
                call(x.tensor, dst.tensor, descending=descending)

        results = self.case.run(run)
        for x, got, (call, meaning, given, dst, descending) in zip(
            arrays, results, self.calls, strict=True
        ):
            what = f"{call.__name__} {x.dtype} {x.shape} {given.strides} -> {dst.strides}"
            assert_same_bits(got, meaning(x, descending=descending), f"{what} {descending}")
