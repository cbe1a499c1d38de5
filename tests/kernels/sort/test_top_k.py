"""top_k: the first columns of a sort, in one round or several, or by a whole sort."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import top_k
from pykernels.reference import sort as reference
from tests.harness import Case, Form, assert_same_bits, random_form
from tests.kernels.sort.sort_calls import DTYPES, rows

pytestmark = pytest.mark.gpu

# (columns, k): one round, two, three; all of a block; where rounds would be more, by a merge, and
# beyond half a block of a long row by a whole sort.
SIZES = ((1, 1), (9, 4), (9, 9), (300, 5), (500, 1), (2048, 2048), (2049, 1), (5000, 7),
         (3000, 1024), (3000, 1025), (9000, 1000), (70_000, 50), (33_000, 1500),
         (40, 0))  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_matches_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev, len(dtype))
    calls = []
    for cols, k in SIZES if dtype == "float32" else SIZES[:10]:
        for largest in (True, False):
            shape = (70 if cols < 600 else 3 if cols <= 9000 else 1, cols)
            forms = [random_form(case.rng, 2, repeats=False) if cols < 3000 else Form()] * 3
            x = case.input(rows(case.rng, shape, dtype), forms[0], buffer="x")
            dst = case.output((shape[0], k), dtype, forms[1], buffer="dst")
            index = case.output((shape[0], k), "int32", forms[2], buffer="index")
            calls.append((x, dst, index, largest))
    case.build()
    arrays = [x.array.copy() for x, _, _, _ in calls]

    def run() -> None:
        for x, dst, index, largest in calls:
            top_k(x.tensor, dst.tensor, index.tensor, largest=largest)

    results = case.run(run)
    outputs = [o for o in case.operands if o.output]
    for x, (_, dst, index, largest) in zip(arrays, calls, strict=True):
        want = reference.top_k(x, dst=dst.array, largest=largest)
        for operand, right in zip((dst, index), want, strict=True):
            got = results[outputs.index(operand)]
            assert_same_bits(got, right, f"{dtype} {x.shape} {dst.shape} {largest}")


@pytest.mark.parametrize("dtype", ("float32", "float16", "int8"))
def test_top_k_of_rows_by_a_whole_sort(dev: pk.Device, dtype: str) -> None:
    """Each row has its own positions."""
    x = rows(np.random.default_rng(7), (3, 33_000), dtype)
    values, index = pk.top_k(dev.tensor(x), 1030)
    want = np.zeros((3, 1030), x.dtype)
    for got, right in zip((values, index), reference.top_k(x, dst=want), strict=True):
        assert_same_bits(got.numpy(), right)


def test_top_k_axes(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(0, 50, (4, 30, 5)).astype(np.int32)
    for axis in (0, 1, 2, -1, -3):
        for largest in (True, False):
            values, index = pk.top_k(dev.tensor(x), 3, axis, largest=largest)
            key = -x if largest else x
            want = np.argsort(key, axis, kind="stable").take(range(3), axis)
            assert_same_bits(index.numpy(), want.astype(np.int32))
            assert_same_bits(values.numpy(), np.take_along_axis(x, want, axis))
    values, index = pk.top_k(np.float32([3, np.nan, 5]), 3)
    assert values[:2].tolist() == [5, 3] and index.tolist() == [2, 0, 1]


def test_top_k_rejects(dev: pk.Device) -> None:
    with pytest.raises(pk.ArgumentError, match=r"\[top_k\] k must be from 0 to the size of the ax"):
        pk.top_k(dev.zeros(3), 4)
    with pytest.raises(pk.ShapeError, match=r"\[top_k\] axis 1 does not exist in shape \(3,\)"):
        pk.top_k(dev.zeros(3), 1, axis=1)
    with pytest.raises(pk.ShapeError, match=r"\[top_k\] dst must have the shape of x"):
        top_k(dev.zeros((2, 3)), dev.zeros((2, 4)), dev.zeros((2, 4), "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[top_k\] index must have the shape of dst"):
        top_k(dev.zeros((2, 3)), dev.zeros((2, 2)), dev.zeros((2, 1), "int32"))
    with pytest.raises(pk.DTypeError, match=r"\[top_k\] dst must have the dtype of x, float32"):
        top_k(dev.zeros((2, 3)), dev.zeros((2, 2), "int32"), dev.zeros((2, 2), "int32"))
