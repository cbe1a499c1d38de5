"""sort and argsort: every dtype, both orders, rows around blocks and tiles, layouts, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES as ALL_DTYPES
from pykernels.kernels import argsort, sort
from pykernels.plans.sort.argsort import plan
from pykernels.reference import sort as reference
from pykernels.steps import Scratch
from pykernels.tensors.layout import View, contiguous_strides
from tests.harness import Form, assert_same_bits, caps, forms, random_form
from tests.kernels.sort.sort_calls import DTYPES, Calls, rows

pytestmark = pytest.mark.gpu

# Around the powers of two of the network, its block, the most pieces of a merge, and whole tiles of
# the radix sort.
COLS = (1, 2, 3, 7, 8, 9, 31, 64, 100, 1024, 1025, 2047, 2048, 2049, 5000, 32_768, 32_769, 34_816)


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_matches_reference(dev: pk.Device, dtype: str) -> None:
    calls = Calls(dev, len(dtype))
    for cols in COLS if dtype in ("float32", "bfloat16", "int8") else COLS[:-3]:
        for descending in (False, True):
            x = rows(calls.rng, (37 if cols < 100 else 2, cols), dtype)
            calls.add(x, Form(phase=cols % 3), descending=descending)
    calls.check()


@pytest.mark.parametrize(("dtype", "cols"), (("float32", 100_001), ("uint8", 2_100_001)))
def test_sort_of_a_long_row(dev: pk.Device, dtype: str, cols: int) -> None:
    """An end in the middle of a tile, and more counts than one workgroup scans."""
    x = rows(np.random.default_rng(0), (cols,), dtype)
    assert_same_bits(pk.argsort(x, descending=True), reference.argsort(x, descending=True))


ORDERS = {
    "zeros keep their order": ([0.0, -0.0, 0.0, -1.0], [3, 0, 1, 2], [0, 1, 2, 3]),
    "not a number is last": ([np.nan, 1.0, -np.nan, np.inf, -np.inf], [4, 1, 3, 0, 2],
                             [3, 1, 4, 0, 2]),
    "equal ones keep their order": ([2.0, 1.0, 2.0, 1.0], [1, 3, 0, 2], [0, 2, 1, 3]),
    "subnormals": ([1e-45, 0.0, -1e-45], [2, 1, 0], [0, 1, 2]),
}  # fmt: skip


def test_sort_of_special_values(dev: pk.Device) -> None:
    for name, (x, up, down) in ORDERS.items():
        for fill in (0, 3000, 33_000):  # by the network, a merge and radix: infinities in front
            a = np.array([-np.inf] * fill + x, np.float32)
            for descending, want in ((False, up), (True, down)):
                got = pk.argsort(a, descending=descending)
                assert (got[got >= fill] - fill).tolist() == want, name
                assert_same_bits(pk.sort(a, descending=descending),
                                 reference.sort(a, descending=descending), name)  # fmt: skip


def test_sort_is_stable_where_all_are_equal(dev: pk.Device) -> None:
    for cols in (5, 2000, 9000, 40_000):
        for value in (0, 2**32 - 1):
            got = pk.argsort(np.full((3, cols), value, np.uint32), descending=bool(value))
            assert_same_bits(got, np.tile(np.arange(cols, dtype=np.int32), (3, 1)))


# -- layouts --------------------------------------------------------------------------------------


@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_sort_from_any_layout(dev: pk.Device, form: str) -> None:
    calls = Calls(dev)
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (2, 33, 70), (2, 1, 1), (1, 2, 2500), (0, 2, 3), (2, 3, 0)):
        for dtype in ("float32", "float16", "int8"):
            x = rows(calls.rng, shape, dtype)
            calls.add(x, layout)
            if "repeat" not in form:
                calls.add(x, None, layout, descending=True)
    calls.check()


@pytest.mark.parametrize("form", ("swapped", "backwards"))
def test_sort_of_long_rows_from_any_layout(dev: pk.Device, form: str) -> None:
    """By radix."""
    calls = Calls(dev)
    layout = forms(3, repeats=True)[form]
    for dtype in ("float32", "int8"):
        x = rows(calls.rng, (1, 2, 33_000), dtype)
        calls.add(x, layout)
        calls.add(x, None, layout, descending=True)
    calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("seed", range(4))
def test_sort_random_layouts(dev: pk.Device, seed: int) -> None:
    calls = Calls(dev, seed)
    rng = calls.rng
    for _ in range(8):
        ndim = int(rng.integers(1, 6))
        lead = tuple(int(n) for n in rng.integers(1, 4, ndim - 1))
        shape = (*lead, int(rng.choice([1, 3, 4, 12, 36, 100, 260, 1100, 2600])))
        x = rows(rng, shape, str(rng.choice(DTYPES)))
        x_form, dst_form = (random_form(rng, ndim, repeats=r) for r in (True, False))
        calls.add(x, x_form, dst_form, descending=bool(rng.integers(0, 2)))
    calls.check()


def test_sort_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = Calls(dev)
        for cols in (33, 3000):
            calls.add(rows(calls.rng, (3, cols), "float16"), Form(phase=1), Form(phase=3))
        calls.check()


def test_sort_in_place(dev: pk.Device) -> None:
    for cols in (50, 4100, 33_000):
        x = rows(np.random.default_rng(cols), (3, cols), "float32")
        t = dev.tensor(x)
        sort(t, t)
        assert_same_bits(t.numpy(), reference.sort(x))


# -- the functions --------------------------------------------------------------------------------


def test_sort_axes(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(0, 9, (3, 40, 5)).astype(np.int32)
    for axis in (None, 0, 1, 2, -1, -3):
        assert_same_bits(pk.sort(x, axis), np.sort(x, axis))
        got = pk.argsort(dev.tensor(x), axis).numpy()
        assert_same_bits(got, np.argsort(x, axis, kind="stable").astype(np.int32))
    out = dev.zeros(x.shape, "int32")
    assert pk.sort(dev.tensor(x), axis=1, out=out) is out
    assert_same_bits(out.numpy(), np.sort(x, 1))
    assert pk.sort(dev.zeros((2, 0))).shape == (2, 0)


def test_sort_in_a_captured_program(dev: pk.Device) -> None:
    x = dev.tensor(np.random.default_rng(0).random(5000, np.float32))
    with dev.capture(x=x) as program:
        found = pk.argsort(x)
    program()
    assert_same_bits(found.numpy(), reference.argsort(x.numpy()))


# -- rules ----------------------------------------------------------------------------------------


def test_sort_rejects(dev: pk.Device) -> None:
    with pytest.raises(pk.DTypeError, match=r"\[sort\] x must be .* but is int64"):
        sort(dev.zeros(3, "int64"), dev.zeros(3, "int64"))
    with pytest.raises(pk.ShapeError, match=r"\[argsort\] axis 2 does not exist in shape \(2, 3\)"):
        pk.argsort(dev.zeros((2, 3)), axis=2)
    with pytest.raises(pk.DTypeError, match=r"\[argsort\] out must be int32 but is float32"):
        pk.argsort(dev.zeros(3), out=dev.zeros(3))
    with pytest.raises(
        pk.DTypeError, match=r"\[sort\] dst must have the dtype of x, float32, but is"
    ):
        sort(dev.zeros(3), dev.zeros(3, "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[argsort\] x must have at least one axis"):
        argsort(dev.zeros(()), dev.zeros((), "int32"))
    with pytest.raises(pk.ArgumentError, match=r"\[sort\] stable must be True or False"):
        pk.sort(dev.zeros(3), stable=1)  # type: ignore[call-overload]


def test_sort_dispatches(dev: pk.Device) -> None:
    """One for short rows and two for a few blocks of them. For longer ones two for each four bits,
    and those that scan the counts of many tiles."""

    def bodies(*shape: int, dtype: str = "float32") -> list[str]:
        x, dst = (
            View(n, ALL_DTYPES[d], shape, contiguous_strides(shape, ALL_DTYPES[d].itemsize), 0)
            for n, d in enumerate((dtype, "int32"))  # type: ignore[index]
        )
        return [s.body.name for s in plan(dev._context.caps, Scratch(), x, dst)]

    assert bodies(500, 2048) == ["sort_rows"]
    assert bodies(10_000) == bodies(8, 32_768) == ["sort_rows", "sort_merge"]
    for dtype, passes in (("float32", 8), ("float16", 4), ("uint8", 2)):
        for shape in ((1 << 20,), (9, 32_768)):  # the tiles are full, so nothing is copied behind
            assert bodies(*shape, dtype=dtype) == [
                "sort_keys", *["sort_count", "sort_scatter"] * passes
            ]  # fmt: skip
        long = bodies(3 << 20, dtype=dtype)
        assert long.count("sort_count") == long.count("sort_scatter") == passes
        assert 5 * passes + 1 == len(long)
    assert bodies(0, 5) == []
