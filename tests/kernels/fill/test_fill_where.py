"""fill_where: elements set where a mask is True, the bits of all others as they were."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.kernels import fill_where
from pykernels.reference.fill import fill_where as reference
from tests.harness import Case, assert_same_bits, caps, random_form

pytestmark = pytest.mark.gpu


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
def test_fill_where_matches_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev, seed=len(dtype))
    rng = case.rng
    calls = []
    for shape in ((), (1,), (5, 7), (3, 1500), (2, 3, 4, 5)):
        mask = case.input(rng.random(shape) < 0.4, random_form(rng, len(shape), repeats=True))
        dst = case.output(shape, dtype, random_form(rng, len(shape), repeats=False))
        calls.append((mask, dst))
    case.build()
    want = [reference(m.array, d.array, 1) for m, d in calls]

    def run() -> None:
        for m, d in calls:
            fill_where(m.tensor, d.tensor, 1)

    for got, expected in zip(case.run(run), want, strict=True):
        assert_same_bits(got, expected)


def test_bits_of_nan_stay(dev: pk.Device) -> None:
    """Seen before: t[mask] = v on float16 rewrote the payloads of what the mask leaves."""
    bits = np.array([0x7E01, 0xFE55, 0x7C01, 0x3C00], "u2")
    t = dev.tensor(bits.view("f2"))
    t[dev.tensor(np.array([False, False, False, True]))] = 2
    assert t.numpy().view("u2").tolist() == [0x7E01, 0xFE55, 0x7C01, 0x4000]


def test_in_parts(dev: pk.Device) -> None:
    mask = np.random.default_rng(0).random((40, 90)) < 0.5
    t = dev.zeros((40, 90))
    with caps(dev, max_binding=2048):
        fill_where(dev.tensor(mask), t, 3)
    assert_same_bits(t.numpy(), np.where(mask, np.float32(3), np.float32(0)))


def test_rejects(dev: pk.Device) -> None:
    with pytest.raises(pk.ShapeError, match=r"\[fill_where\] mask"):
        fill_where(dev.zeros((3, 2), "bool"), dev.zeros((2, 3)), 1)
    with pytest.raises(pk.DTypeError, match=r"\[fill_where\] mask"):
        fill_where(dev.zeros((2, 3), "int32"), dev.zeros((2, 3)), 1)
