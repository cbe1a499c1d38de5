"""timestep_embedding: against its reference, on any layout, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.rows import timestep_embedding as reference
from pykernels.reference.rows import timestep_embedding_budget as budget
from tests.harness import Case, Form, assert_close, forms

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("dtype", "out"), [("float32", "float32"), ("float16", "float16"), ("float32", "float16")]
)
def test_timestep_embedding_matches_reference(dev: pk.Device, dtype: str, out: str) -> None:
    case = Case(dev)
    rng = np.random.default_rng(0)
    calls = []
    layouts = list(forms(2, repeats=False).values())
    for i, form in enumerate(layouts):
        n, d = [(5, 7), (3, 64), (1, 1), (4, 2), (0, 3), (3, 0)][i % 6]
        values = rng.choice([0, 1, 7.5, 500, -3, 999], n).astype(dtype)
        x = case.input(values, Form(steps=((-2, 1, 0)[i % 3],), phase=i % 2))
        calls.append((x, case.output((n, d), out, form), (10000.0, 100.0, 0.5)[i % 3]))
    case.build()

    def run() -> None:
        for x, dst, period in calls:
            kernels.timestep_embedding(x.tensor, dst.tensor, max_period=period)

    for got, (x, dst, period) in zip(case.run(run), calls, strict=True):
        want = reference(x.array, dst.shape, period)
        assert_close(got, want, budget(x.array, dst.shape, period), f"{dst.shape} {period}")


def test_timestep_embedding_function(dev: pk.Device) -> None:
    x = np.array([0, 3, 700], np.float32)
    got = pk.timestep_embedding(dev.tensor(x), 6)
    assert got.dtype == "float32" and got.shape == (3, 6)
    assert got.numpy()[0].tolist() == [1, 1, 1, 0, 0, 0]
    assert (pk.timestep_embedding(x, 6) == got.numpy()).all()
    out = dev.empty((3, 6), "float16")
    assert pk.timestep_embedding(dev.tensor(x), 6, out=out) is out
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.timestep_embedding(dev.zeros((2, 2)), 4), pk.ShapeError, r"shape \(n,\)"),
        (lambda: pk.timestep_embedding(got[0], -4), pk.ShapeError, "sizes must be"),
        (lambda: pk.timestep_embedding(got[0], 4, 0.0), pk.ArgumentError, "max_period must be"),
        (lambda: pk.timestep_embedding(dev.zeros(3, "int32"), 4), pk.DTypeError, "float32, "),
        (lambda: kernels.timestep_embedding(got[0], got), pk.ShapeError, "x must have"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
