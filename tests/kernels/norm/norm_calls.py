"""What the tests of norms share: rows of some kinds, and calls that are checked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

import pykernels as pk
from pykernels import kernels
from pykernels.reference import budget, function
from tests.harness import Array, Case, Form, Operand, assert_close

DTYPES = ("float32", "float16")
OPTIONAL = ("dweight", "dbias", "running_mean", "running_variance", "saved")


def rows(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Rows about 0, rows far from 0 beside their deviation, and small ones."""
    kind = rng.integers(0, 3, (*shape[:-1], 1)) if shape else np.zeros((), int)
    far = 1e4 if dtype == "float32" else 60.0
    x = rng.normal(0, 1, shape) * np.array([3.0, 1.0, 0.01])[kind]
    return np.asarray(x + np.array([0.0, far, 0.0])[kind]).astype(dtype)


class NormCalls:
    """Many calls in one case, each checked against its reference, within its budget."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[tuple[str, dict[str, Operand], list[str], dict[str, Any]]] = []

    def add(
        self, kernel: str, inputs: dict[str, Array], outputs: dict[str, tuple[int, ...]], *,
        forms: dict[str, Form] | None = None, dtypes: dict[str, str] | None = None,
        in_place: str = "", **options: Any,
    ) -> None:  # fmt: skip
        """`outputs` are shapes by name, dst last; `dtypes` those that are not as the first input's;
        `in_place` is the input that dst is."""
        forms, dtypes = forms or {}, dtypes or {}
        first = next(iter(inputs.values()))
        operands: dict[str, Operand] = {}
        for name, array in inputs.items():
            place = self.case.in_place if name == in_place else self.case.input
            operands[name] = place(array, forms.get(name), buffer=name)
        for name, shape in outputs.items():
            if name == "dst" and in_place:
                operands[name] = operands[in_place]
                continue
            dtype = dtypes.get(name, first.dtype.name)
            operands[name] = self.case.output(shape, dtype, forms.get(name), buffer=name)
        self.calls.append((kernel, operands, list(outputs), options))

    def check(self) -> None:
        self.case.build()
        before = [
            {n: o.array.copy() for n, o in operands.items() if o.values is not None}
            for _, operands, _, _ in self.calls
        ]

        def run() -> None:
            for kernel, operands, _, options in self.calls:
                getattr(kernels, kernel)(**{n: o.tensor for n, o in operands.items()}, **options)

        results = dict(
            zip([id(o) for o in self.case.operands if o.output], self.case.run(run), strict=True)
        )
        for arrays, (kernel, operands, outputs, options) in zip(before, self.calls, strict=True):
            outputs = sorted(outputs, key=lambda n: n in OPTIONAL)  # as references give them
            got = [results[id(operands[n])] for n in outputs]
            asks = inspect.signature(function(kernel)).parameters
            given = {n: a for n, a in arrays.items() if n in asks and n != "dst"}
            given |= {n: g for n, g in zip(outputs, got, strict=True) if n in asks and n != "dst"}
            want, allowed = function(kernel)(**given, **options), _allowed(kernel, given, options)
            if not isinstance(want, tuple):
                want, allowed = (want,), (allowed,)
            for name, g, w, bound in zip(outputs, got, want, allowed, strict=True):
                told = {n: (o.dtype, o.shape, o.strides) for n, o in operands.items()}
                assert_close(
                    g, np.asarray(w), np.asarray(bound), f"{kernel} {name} {told} {options}"
                )


def _allowed(kernel: str, given: dict[str, Array], options: dict[str, Any]) -> Any:
    found = budget(kernel)
    assert found is not None
    return found(**given, **options)
