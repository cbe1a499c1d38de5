"""median: odd and even rows, special values, axes, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import median
from pykernels.reference import sort as reference
from tests.harness import Case, assert_same, random_form

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_median_matches_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev)
    calls = []
    for cols in (1, 2, 3, 40, 41, 2048, 2500):
        x = case.rng.normal(0, 1, (3, 2, cols)).astype(dtype)
        x[0, 0, cols // 2] = np.nan
        x[1, 0, : cols // 2 + 1] = np.inf
        x[2, 1, : cols // 2 + 1] = -np.inf
        given = case.input(x, random_form(case.rng, 3, repeats=True), buffer="x")
        form = random_form(case.rng, 2, repeats=False)
        calls.append((given, case.output((3, 2), dtype, form, buffer="dst")))
    case.build()
    arrays = [x.array.copy() for x, _ in calls]

    def run() -> None:
        for x, dst in calls:
            median(x.tensor, dst.tensor)

    for x, got in zip(arrays, case.run(run), strict=True):
        assert_same(got, reference.median(x).astype(dtype), f"{x.shape}")


def test_median_as_numpy(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-1000, 1000, (3, 40, 5))
    for dtype in ("float32", "int32", "int8"):
        a = x.astype(dtype)
        for axis in (None, 0, 1, -1):
            for keep in (False, True):
                want = np.median(a.astype(np.float32), axis, keepdims=keep)
                got = pk.median(a, axis, keepdims=keep)
                assert_same(got, np.asarray(want, np.float32), f"{dtype} {axis} {keep}")
    out = dev.zeros((3, 5))
    assert pk.median(dev.tensor(x.astype("float32")), axis=1, out=out) is out
    assert_same(out.numpy(), np.median(x.astype(np.float32), 1))


def test_median_rejects(dev: pk.Device) -> None:
    with pytest.raises(pk.ShapeError, match=r"\[median\] x must have elements in each row"):
        pk.median(dev.zeros((3, 0)), axis=1)
    with pytest.raises(pk.ShapeError, match=r"\[median\] axis 1 does not exist in shape \(3,\)"):
        pk.median(dev.zeros(3), axis=1)
    with pytest.raises(
        pk.DTypeError, match=r"\[median\] x must be float32, float16 or bfloat16 but is int64"
    ):
        pk.median(dev.zeros(3, "int64"))
    with pytest.raises(pk.ShapeError, match=r"\[median\] dst must have the leading axes of x"):
        median(dev.zeros((2, 3)), dev.zeros(3))
