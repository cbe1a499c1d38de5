"""bincount: counts, few bins and many, the function with weights, and what is out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import bincount
from pykernels.reference import sort as reference
from tests.harness import Case, assert_same_bits, random_form

pytestmark = pytest.mark.gpu

BINS = (1, 7, 2048, 2049, 5000)


@pytest.mark.parametrize("dtype", ("int32", "uint32"))
def test_bincount_matches_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev)
    calls = []
    for bins in BINS:
        for shape in ((1,), (4097,), (3, 5, 70), (0,)):
            x = np.minimum(case.rng.integers(0, bins, shape), case.rng.integers(0, bins, shape))
            form = random_form(case.rng, len(shape), repeats=True)
            given = case.input(x.astype(dtype), form, buffer="x")
            dst_form = random_form(case.rng, 1, repeats=False)
            calls.append((given, case.output((bins,), "int32", dst_form, buffer="dst")))
    case.build()
    want = [reference.bincount(x.array, dst.array) for x, dst in calls]

    def run() -> None:
        for x, dst in calls:
            bincount(x.tensor, dst.tensor)

    for got, right in zip(case.run(run), want, strict=True):
        assert_same_bits(got, right)


def test_the_reference_leaves_out_what_no_bin_counts() -> None:
    x, weights = np.array([0, 3, 2, -1, 2]), np.array([1, 2, 4, 8, 16], "f4")
    assert reference.bincount(x, np.zeros(3)).tolist() == [1, 0, 2]
    assert reference.bincount_weights(x, weights, np.zeros(3)).tolist() == [1, 0, 20]


# -- the function ---------------------------------------------------------------------------------


def test_bincount_as_numpy(dev: pk.Device) -> None:
    x = np.array([3, 1, 1, 7, 0, 3, 3])
    w = np.array([0.5, 1, 2, -1, 4, 0.25, 8], np.float32)
    for dtype in ("int64", "int32", "uint32", "int8", "uint16"):
        a = x.astype(dtype)
        for least in (0, 20):
            assert_same_bits(pk.bincount(a, minlength=least),
                             np.bincount(x, minlength=least).astype(np.int32))  # fmt: skip
            got = pk.bincount(a, w, least)
            assert_same_bits(got, np.bincount(x, w, least).astype(np.float32))
    t = dev.tensor(x.astype("int32"))
    assert pk.bincount(t).numpy().tolist() == np.bincount(x).tolist()
    assert pk.bincount(t, length=10).shape == (10,)
    out = dev.full(8, 7, "int32")
    assert pk.bincount(t, out=out) is out
    assert out.numpy().tolist() == np.bincount(x).tolist()
    assert pk.bincount(dev.zeros(0, "int32")).shape == (0,)
    assert pk.bincount(dev.zeros(0, "int32"), dev.zeros(0), 3).numpy().tolist() == [0, 0, 0]


def test_bincount_in_a_captured_program(dev: pk.Device) -> None:
    x = dev.tensor(np.array([1, 1, 2], np.int32))
    with dev.capture(x=x) as program:
        counts = pk.bincount(x, length=4)
        with pytest.raises(pk.PyKernelsError, match="bincount without a length"):
            pk.bincount(x)
    program()
    assert counts.numpy().tolist() == [0, 2, 1, 0]


# -- rules ----------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "negative": ([1, -3, 2], r"-3"), "too large": ([1, 2, 9, 4], r"9"),
    "unsigned": (np.array([1, 2**32 - 1], np.uint32), r"4294967295"),
}  # fmt: skip


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("name", BAD)
def test_bincount_reports_what_is_out_of_range(dev: pk.Device, name: str, weighted: bool) -> None:
    given, told = BAD[name]
    x = dev.tensor(given if isinstance(given, np.ndarray) else np.array(given, np.int32))
    values = [int(v) for v in given]
    weights = dev.ones(len(values)) if weighted else None
    counts = pk.bincount(x, weights, length=5)
    with pytest.raises(pk.IndexRangeError, match=told):
        dev.sync()
    inside = [v for v in values if 0 <= v < 5]
    assert counts.numpy().tolist() == np.bincount(inside, minlength=5).tolist()


def test_bincount_rejects(dev: pk.Device) -> None:
    with pytest.raises(
        pk.DTypeError, match=r"\[bincount\] x must be int32 or uint32 but is float32"
    ):
        pk.bincount(dev.zeros(3))
    with pytest.raises(pk.ShapeError, match=r"\[bincount\] x must have one axis"):
        pk.bincount(dev.zeros((2, 3), "int32"))
    with pytest.raises(pk.ArgumentError, match=r"\[bincount\] minlength must not be negative"):
        pk.bincount(dev.zeros(3, "int32"), minlength=-1)
    with pytest.raises(pk.ArgumentError, match=r"\[bincount\] length must not be negative"):
        pk.bincount(dev.zeros(3, "int32"), length=-1)
    for negative in (np.array([-3, -1], "int32"), dev.tensor(np.array([-3, -1], "int32"))):
        with pytest.raises(pk.IndexRangeError, match=r"x must be 0 or more but .* element is -1"):
            pk.bincount(negative, minlength=4)
    with pytest.raises(pk.ArgumentError, match=r"\[bincount\] x must hold numbers of 32 bits"):
        pk.bincount(np.array([2**40]))
    with pytest.raises(pk.ShapeError, match=r"weights"):
        pk.bincount(dev.zeros(3, "int32"), dev.zeros(2), length=4)
