"""cumsum and cumprod: values within the budget, sizes around tiles, layouts, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES as ALL_DTYPES
from pykernels.kernels import cumprod, cumsum
from pykernels.plans.scan.cumsum import plan
from pykernels.reference import scan as reference
from pykernels.steps import Scratch
from pykernels.tensors.layout import View, contiguous_strides
from tests.harness import (
    Array,
    Case,
    Form,
    Operand,
    assert_close,
    assert_same_bits,
    caps,
    forms,
    random_form,
)

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float16", "int32", "uint32")
# Around rows of each configuration and tiles of both vector widths.
COLS = (1, 2, 3, 4, 15, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 513, 1024, 1025, 2048,
        2049, 4096, 4097, 8193, 16385)  # fmt: skip


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, product: bool) -> Array:
    """Sums: any integers, floats of both signs; products: factors near 1."""
    if dtype in ("int32", "uint32"):
        return rng.integers(0, 2**32, shape, np.uint32).view(dtype)
    if product:
        return np.exp2(rng.normal(0, 1 / np.sqrt(max(shape[-1], 1)), shape)).astype(dtype)
    return rng.normal(0.1, 1, shape).astype(dtype)


class Calls:
    """Many calls in one case, each compared with the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.calls: list[tuple[Operand, Operand, bool]] = []

    def add(
        self, x: Array, x_form: Form | None = None, dst_form: Form | None = None, *,
        product: bool = False,
    ) -> None:  # fmt: skip
        given = self.case.input(x, x_form, buffer="x")
        dst = self.case.output(x.shape, x.dtype.name, dst_form, buffer="dst")
        self.calls.append((given, dst, product))

    def check(self) -> None:
        self.case.build()
        arrays = [x.array.copy() for x, _, _ in self.calls]

        def run() -> None:
            for x, dst, product in self.calls:
                (cumprod if product else cumsum)(x.tensor, dst.tensor)

        results = self.case.run(run)
        for x, got, (given, dst, product) in zip(arrays, results, self.calls, strict=True):
            compare(got, x, product, f"{x.dtype} {x.shape} {given.strides} -> {dst.strides}")


def compare(got: Array, x: Array, product: bool, what: str) -> None:
    want = (reference.cumprod if product else reference.cumsum)(x)
    if x.dtype.kind != "f":
        assert_same_bits(got, want, what)
        return
    budget = (reference.cumprod_budget if product else reference.cumsum_budget)(x)
    assert_close(got, want, budget, what)


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.sample
@pytest.mark.parametrize("product", (False, True), ids=("sum", "product"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_cumsum_matches_reference(dev: pk.Device, dtype: str, product: bool) -> None:
    calls = Calls(dev)
    for cols in COLS:
        for phase in (0, 1):
            rows = 67 if cols < 300 else 2
            x = numbers(calls.case.rng, (rows, cols), dtype, product)
            calls.add(x, Form(phase=phase), product=product)
    calls.check()


@pytest.mark.parametrize("cols", (1 << 20, 999_999))
def test_cumsum_of_long_rows_keeps_its_accuracy(dev: pk.Device, cols: int) -> None:
    """Ones are exact up to 2^24; numbers of one sign are where errors add up."""
    rng = np.random.default_rng(cols)
    for x in (np.ones(cols, np.float32), rng.random(cols, np.float32)):
        got = pk.cumsum(x, axis=0)
        compare(got, x, False, "long")
    assert (pk.cumsum(np.ones(cols, np.float32)) == np.arange(1, cols + 1)).all()


@pytest.mark.parametrize("shape", ((16, 16), (129, 40), (600, 300), (20, 5000), (2, 300, 17)))
def test_cumsum_along_columns(dev: pk.Device, shape: tuple[int, ...]) -> None:
    """Columns further apart than rows, short and in pieces."""
    calls = Calls(dev)
    order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    for dtype in ("float32", "float16", "int32"):
        for form in (Form(order=order), Form(order=order, gap=3, phase=1)):
            calls.add(numbers(calls.case.rng, shape, dtype, False), form, form)
        calls.add(numbers(calls.case.rng, shape, dtype, True), Form(order=order), product=True)
    calls.check()


def test_cumsum_of_many_long_rows(dev: pk.Device) -> None:
    """Rows enough for one workgroup each, which walks along its tiles."""
    few = dev._context.caps.tuning.device.units * 4
    x = np.random.default_rng(0).integers(-9, 9, (few, 17000)).astype(np.int32)
    if x.size > 1 << 24:
        pytest.skip("too large where there are many units")
    assert_same_bits(pk.cumsum(x, axis=1), reference.cumsum(x))


SPECIAL = {
    "infinity stays": ([1, np.inf, 2, 3], [1, np.inf, np.inf, np.inf], [1, np.inf, np.inf, np.inf]),
    "two infinities": ([np.inf, -np.inf, 1], [np.inf, np.nan, np.nan], [np.inf, -np.inf, -np.inf]),
    "not a number": ([1, np.nan, 2], [1, np.nan, np.nan], [1, np.nan, np.nan]),
    "zero": ([2, 0, 3], [2, 2, 5], [2, 0, 0]),
    "infinity times zero": ([np.inf, 0, 3], [np.inf, np.inf, np.inf], [np.inf, np.nan, np.nan]),
}


def test_cumsum_of_special_values(dev: pk.Device) -> None:
    for name, (x, sums, products) in SPECIAL.items():
        for dtype in ("float32", "float16"):
            for function, want in ((pk.cumsum, sums), (pk.cumprod, products)):
                got = function(np.array(x, dtype))
                assert np.array_equal(got, np.array(want, dtype), equal_nan=True), (name, got)


def test_cumsum_gives_the_same_bits_again(dev: pk.Device) -> None:
    x = dev.tensor(np.random.default_rng(0).normal(0, 1, (3, 20000)).astype(np.float32))
    first = pk.cumsum(x, axis=1).numpy()
    for _ in range(2):
        assert_same_bits(pk.cumsum(x, axis=1).numpy(), first)


# -- layouts --------------------------------------------------------------------------------------


@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_cumsum_from_any_layout(dev: pk.Device, form: str) -> None:
    calls = Calls(dev)
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (2, 33, 130), (2, 1, 1), (1, 3, 1200), (0, 2, 3), (2, 3, 0)):
        for dtype in ("float32", "float16"):
            x = numbers(calls.case.rng, shape, dtype, False)
            calls.add(x, layout)
            if "repeat" not in form:
                calls.add(x, None, layout)
    calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("seed", range(6))
def test_cumsum_random_layouts(dev: pk.Device, seed: int) -> None:
    calls = Calls(dev, seed)
    rng = calls.case.rng
    for _ in range(10):
        ndim = int(rng.integers(1, 6))
        lead = tuple(int(n) for n in rng.integers(1, 5, ndim - 1))
        shape = (*lead, int(rng.choice([1, 3, 4, 12, 36, 100, 260, 1100, 4500])))
        product = bool(rng.integers(0, 2))
        x = numbers(rng, shape, str(rng.choice(DTYPES)), product)
        x_form, dst_form = (random_form(rng, ndim, repeats=r) for r in (True, False))
        calls.add(x, x_form, dst_form, product=product)
    calls.check()


@pytest.mark.parametrize("shape", ((9, 300), (3, 10000)))
def test_cumsum_in_place(dev: pk.Device, shape: tuple[int, ...]) -> None:
    for order in ((), (1, 0)):
        case = Case(dev)
        x = numbers(case.rng, shape, "float32", False)
        both = case.in_place(x, Form(order=order))
        case.build()
        got = case.run(lambda t=both: cumsum(t.tensor, t.tensor))[0]  # type: ignore[misc]
        compare(got, x, False, "in place")


def test_cumsum_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = Calls(dev)
        for cols in (7, 900, 9000):
            calls.add(numbers(calls.case.rng, (5, cols), "float16", False), Form(phase=1))
        calls.check()


# -- the functions --------------------------------------------------------------------------------


def test_cumsum_axes_and_dtypes(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 4, 5))
    for dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"):
        a = x.astype(dtype)
        wide = "uint32" if dtype.startswith("u") else "int32"
        for axis in (None, 0, 1, 2, -1, -3):
            assert_same_bits(pk.cumsum(a, axis), np.cumsum(a, axis, dtype=wide), f"{dtype} {axis}")
            assert_same_bits(pk.cumprod(dev.tensor(a), axis).numpy(),
                             np.cumprod(a, axis, dtype=wide), f"{dtype} {axis}")  # fmt: skip
    t = dev.tensor(x.astype("int32"))
    out = dev.zeros((3, 4, 5), "int32")
    assert pk.cumsum(t, axis=1, out=out) is out
    assert_same_bits(out.numpy(), np.cumsum(x, 1, dtype="int32"))
    assert_same_bits(pk.cumsum(t.transpose(2, 0, 1)).numpy(),
                     np.cumsum(x.transpose(2, 0, 1), dtype="int32"))  # fmt: skip
    assert pk.cumsum(dev.zeros(0)).shape == (0,)
    assert pk.cumsum(np.array(3, np.float32)).tolist() == [3.0]


def test_cumsum_in_a_captured_program(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(9000, dtype="int32").reshape(2, 4500))
    with dev.capture(x=x) as program:
        sums = pk.cumsum(x, axis=1)
    program()
    assert_same_bits(sums.numpy(), np.cumsum(x.numpy(), 1, dtype="int32"))


# -- rules ----------------------------------------------------------------------------------------


def test_cumsum_rejects(dev: pk.Device) -> None:
    with pytest.raises(pk.DTypeError, match=r"\[cumsum\] x must be float32, .* but is int64"):
        cumsum(dev.zeros(3, "int64"), dev.zeros(3, "int64"))
    with pytest.raises(pk.ShapeError, match=r"\[cumprod\] axis 2 does not exist in shape \(2, 3\)"):
        pk.cumprod(dev.zeros((2, 3)), axis=2)
    with pytest.raises(pk.ShapeError, match=r"\[cumsum\] out must have shape \(6,\) but has"):
        pk.cumsum(dev.zeros((2, 3)), out=dev.zeros((2, 3)))
    with pytest.raises(
        pk.DTypeError, match=r"\[cumsum\] dst must have the dtype of x, float32, but is"
    ):
        cumsum(dev.zeros(3), dev.zeros(3, "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[cumsum\] x must have at least one axis"):
        cumsum(dev.zeros(()), dev.zeros(()))


def test_cumsum_dispatches(dev: pk.Device) -> None:
    """One for rows that a workgroup holds, three for long ones; nothing for none."""

    def bodies(*shape: int, strides: tuple[int, ...] | None = None) -> list[str]:
        x = View(0, ALL_DTYPES["float32"], shape, strides or contiguous_strides(shape, 4), 0)
        wide = replace(dev._context.caps, max_binding=1 << 30)  # else long rows come in parts
        return [s.body.name for s in plan(wide, Scratch(), x, x)]

    assert bodies(7, 1000) == ["scan_rows"]
    assert bodies(1, 4096) == ["scan_pieces"]
    long = bodies(1, 1 << 26)
    assert (long[0], long[-1]) == ("scan_totals", "scan_pieces") and len(long) == 3
    assert bodies(256, 16, strides=(4, 1024)) == ["scan_columns"]
    assert bodies(256, 1000, strides=(4, 1024)) == [
        "scan_column_totals", "scan_columns", "scan_columns",
    ]  # fmt: skip
    assert bodies(0, 5) == []


@pytest.mark.parametrize("product", (False, True), ids=("sum", "product"))
def test_exclusive_leaves_out_the_element_itself(dev: pk.Device, product: bool) -> None:
    function, numpys, first = (pk.cumprod, np.cumprod, 1) if product else (pk.cumsum, np.cumsum, 0)

    def want(x: Array, axis: int | None) -> Array:
        x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
        if not x.ndim:
            return np.array(first, x.dtype)
        whole = np.moveaxis(numpys(x, axis, dtype=x.dtype), axis, 0)
        result = np.full_like(whole, first)
        result[1:] = whole[:-1]
        return np.moveaxis(result, 0, axis)

    rng = np.random.default_rng(0)
    for shape in ((7,), (1,), (0,), (3, 4, 5), (2, 0, 3), (3, 1), (2, 1100), (1100, 2), ()):
        x = rng.integers(-2, 3, shape).astype(np.int32)
        for axis in (None, *range(-max(len(shape), 1), max(len(shape), 1))):
            assert_same_bits(function(x, axis, exclusive=True), want(x, axis), f"{shape} {axis}")
    for dtype in ("float32", "float16", "uint32"):
        x = rng.integers(1, 3, (3, 9)).astype(dtype)
        assert_same_bits(function(x, 1, exclusive=True), want(x, 1), dtype)
    x = rng.integers(1, 3, (4, 6)).astype(np.float32)
    t, out = dev.tensor(x), dev.zeros((4, 12))[:, ::2]
    assert function(t, dim=0, exclusive=True, out=out) is out
    assert_same_bits(out.numpy(), want(x, 0))
    assert function(t, 1, exclusive=True, out=t) is t
    assert_same_bits(t.numpy(), want(x, 1))
    with pytest.raises(pk.ArgumentError, match="exclusive must be"):
        function(x, 0, exclusive="yes")  # type: ignore[call-overload]
    with pytest.raises(pk.ShapeError, match="axis 2 does not exist"):
        function(x, 2, exclusive=True)


def test_gradients_of_exclusive_sums(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    seed = np.random.default_rng(0).integers(-4, 5, (3, 4)).astype(np.float32)
    for axis in (0, 1):
        with pk.Tape() as tape:
            y = pk.cumsum(x, axis, exclusive=True)
        back = np.flip(np.cumsum(np.flip(seed, axis), axis), axis) - seed
        np.testing.assert_array_equal(tape.gradient(y, x, seed).numpy(), back)


def test_cumsum_of_columns_beyond_one_binding(dev: pk.Device) -> None:
    """A column spans 768 kB, of which a binding holds 64 kB: its pieces are scanned in parts."""
    x = np.random.default_rng(3).integers(-9, 9, (3000, 64)).astype(np.float32)
    with caps(dev, max_binding=1 << 16):
        got = pk.cumsum(dev.tensor(x), 0).numpy()
    assert (got == x.cumsum(0)).all()
