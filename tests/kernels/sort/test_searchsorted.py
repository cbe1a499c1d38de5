"""searchsorted: both sides, every dtype, rows of their own, special values, refusals."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import searchsorted
from pykernels.reference import sort as reference
from tests.harness import Array, Case, Form, Operand, assert_same_bits, random_form
from tests.kernels.sort.sort_calls import DTYPES, rows

pytestmark = pytest.mark.gpu

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted_matches_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev, len(dtype))
    calls: list[tuple[Operand, Operand, Operand, Literal["left", "right"]]] = []

    def add(sorted: Array, values: Array) -> None:
        for side in SIDES:
            form = random_form(case.rng, values.ndim, repeats=False)
            s_form = Form(phase=1) if sorted.ndim == 1 else form
            s = case.input(sorted, s_form, buffer="sorted")
            v = case.input(values, form, buffer="values")
            calls.append((s, v, case.output(values.shape, "int32", form, buffer="dst"), side))

    for n in (0, 1, 2, 63, 64, 1000):
        one = reference.sort(rows(case.rng, (n,), dtype))
        some = rows(case.rng, (3, 7), dtype)
        some.reshape(-1)[: min(n, 9)] = one[: min(n, 9)]
        add(one, some)
        add(one, some[0])
        add(reference.sort(rows(case.rng, (2, 3, n), dtype)), rows(case.rng, (2, 3, 5), dtype))
    add(one, rows(case.rng, (0, 4), dtype))
    case.build()
    arrays = [(s.array.copy(), v.array.copy()) for s, v, _, _ in calls]

    def run() -> None:
        for s, v, dst, side in calls:
            searchsorted(s.tensor, v.tensor, dst.tensor, side=side)

    for (s, v), (_, _, _, side), got in zip(arrays, calls, case.run(run), strict=True):
        assert_same_bits(got, reference.searchsorted(s, v, side=side), f"{s.shape} {v.shape}")


def test_searchsorted_as_numpy(dev: pk.Device) -> None:
    a = np.float32([-np.inf, -1, -0.0, 0.0, 2, 2, np.inf, np.nan])
    v = np.float32([-np.inf, -2, 0.0, -0.0, 2, 3, np.inf, np.nan])
    for side in SIDES:
        assert_same_bits(pk.searchsorted(a, v, side), np.searchsorted(a, v, side).astype(np.int32))
    assert pk.searchsorted(dev.tensor(a), np.array(2, np.float32)).item() == 4


def test_searchsorted_rejects(dev: pk.Device) -> None:
    a = dev.zeros(3)
    with pytest.raises(pk.DTypeError, match=r"\[searchsorted\] values must be float32, as sorted"):
        pk.searchsorted(a, dev.zeros(3, "int32"))
    with pytest.raises(pk.ArgumentError, match=r"\[searchsorted\] side must be 'left' or 'right'"):
        pk.searchsorted(a, a, "middle")  # type: ignore[call-overload]
    with pytest.raises(pk.ShapeError, match=r"\[searchsorted\] sorted must have one axis, or the"):
        pk.searchsorted(dev.zeros((2, 3)), dev.zeros((4, 3)))
