"""narrow: int64 as int32, bit for bit, and what 32 bits do not hold."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.copy import narrow as reference
from tests.harness import Case, assert_same_bits, random_form

pytestmark = pytest.mark.gpu

ENDS = np.array([0, -1, 1, (1 << 31) - 1, -(1 << 31)], "i8")
BEYOND = (1 << 31, -(1 << 31) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63))


@pytest.mark.parametrize("bad", (False, True))
def test_narrow_of_any_layout(dev: pk.Device, bad: bool) -> None:
    case = Case(dev)
    calls = []
    for shape in ((1,), (255,), (3, 87), (2, 5, 31), (4, 0)):
        x = case.rng.choice(ENDS, shape)
        if bad and x.size:
            x.flat[case.rng.integers(x.size)] = case.rng.choice(BEYOND)
        given = case.input(x, random_form(case.rng, len(shape), repeats=False), buffer="x")
        form = random_form(case.rng, len(shape), repeats=False)
        calls.append((given, case.output(shape, "int32", form, buffer="dst")))
    case.build()
    want = [reference(x.array) for x, _ in calls]

    def run() -> None:
        for x, dst in calls:
            kernels.narrow(x.tensor, dst.tensor)
        if bad:
            with pytest.raises(pk.IndexRangeError, match=r"\[narrow\]"):
                dev.sync()
        dev.sync()

    for got, right in zip(case.run(run), want, strict=True):
        assert_same_bits(got, right)


@pytest.mark.parametrize("value", BEYOND)
def test_narrow_names_what_does_not_fit(dev: pk.Device, value: int) -> None:
    dst = dev.empty((7,), "int32")
    kernels.narrow(dev.tensor(np.array([1, 2, value, 4, 5, 6, 7])), dst)
    said = rf"int64 must be in \[-2147483648, 2147483648\) but is {value} at position \(2,\)"
    with pytest.raises(pk.IndexRangeError, match=said):
        dev.sync()


def test_narrow_rejects(dev: pk.Device) -> None:
    x, dst = dev.zeros((3,), "int64"), dev.empty((3,), "int32")
    with pytest.raises(pk.DTypeError):
        kernels.narrow(dst, dst)
    with pytest.raises(pk.ShapeError):
        kernels.narrow(x, dst[:2])
