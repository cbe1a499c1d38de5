"""arange, linspace, eye and arrays like others: numbers in a row, on any layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import numpy_dtype
from pykernels.kernels import arange
from pykernels.reference.fill import arange as reference
from tests.harness import Case, Form, assert_same_bits, caps, forms, random_form

pytestmark = pytest.mark.gpu

STEPS: dict[str, tuple[tuple[float, float], ...]] = {
    "float32": ((0, 1), (-1.5, 0.1), (1e8, -3.7), (0.1, 1e-39), (3e38, 1e36)),
    "int32": ((0, 1), (-9, 3), (2**31 - 2, 1), (5, -(2**31))),
    "uint32": ((0, 1), (2**32 - 2, 1), (7, 2**32 - 1)),
}


def check(dev: pk.Device, dtype: str, calls: list[tuple[tuple[int, ...], Form]]) -> None:
    """Views of one buffer, each with its own start and step."""
    case = Case(dev)
    views = [case.output(shape, dtype, form, buffer="one") for shape, form in calls]
    case.build()
    given = [STEPS[dtype][i % len(STEPS[dtype])] for i in range(len(calls))]

    def run() -> None:
        for v, (start, step) in zip(views, given, strict=True):
            arange(v.tensor, start, step)

    dt = numpy_dtype(dtype)  # type: ignore[arg-type]
    for got, (shape, form), (start, step) in zip(case.run(run), calls, given, strict=True):
        want = reference(shape, dt, start, step)
        assert_same_bits(got, want, f"{dtype} {shape} {start} {step} {form}")


@pytest.mark.parametrize("dtype", STEPS)
def test_arange_any_layout(dev: pk.Device, dtype: str) -> None:
    layouts = list(forms(3, repeats=False).values())
    check(dev, dtype, [(s, f) for s in ((2, 3, 8), (3, 1, 7), (1, 1, 1)) for f in layouts])
    sizes = (0, 1, 2, 3, 4, 5, 255, 1024, 1025, 4099)
    check(dev, dtype, [((n,), Form(phase=p)) for n in sizes for p in (0, 1)] + [((), Form())])
    rng = np.random.default_rng(0)
    random = [tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 6))) for _ in range(8)]
    check(dev, dtype, [(s, random_form(rng, len(s), repeats=False)) for s in random])


@pytest.mark.crowd
def test_arange_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        check(dev, "float32", [((4099,), Form(phase=1))])


def test_arange_of_views_larger_than_a_binding(dev: pk.Device) -> None:
    with caps(dev, max_binding=4096 + 2 * dev._context.caps.alignment):
        check(dev, "int32", [((n,), Form(phase=p)) for n in (5003, 4096) for p in (0, 1)])


@pytest.mark.parametrize(
    "args",
    [
        (5,), (0,), (2, 9), (9, 2, -3), (9, 2), (0, 7, 3), (-5, 5, 2), (2, 5, 0.75), (1.0,),
        (0.5, 4.0, 0.25), (4.0, 0.5, -0.5), (0.5, -4.0), (np.int64(3), np.int8(9)),
    ],
    ids=str,
)  # fmt: skip
def test_arange_is_numpys(dev: pk.Device, args: tuple[Any, ...]) -> None:
    got, want = pk.arange(*args, device=dev), np.arange(*args)
    assert got.dtype == ("int32" if want.dtype.kind == "i" else "float32")
    assert np.array_equal(got.numpy(), want)  # binary fractions are exact


@pytest.mark.parametrize(
    "dtype", ("int8", "uint8", "int16", "uint16", "uint32", "int64", "float16")
)
def test_arange_of_other_dtypes(dev: pk.Device, dtype: Any) -> None:
    want = np.arange(100, 3, -7).astype(dtype)
    assert_same_bits(pk.arange(100, 3, -7, dtype, device=dev).numpy(), want)


def test_linspace(dev: pk.Device) -> None:
    for num, endpoint in ((0, True), (1, True), (2, True), (7, True), (7, False), (1000, True)):
        got = pk.linspace(-1, 0.7, num, endpoint, device=dev).numpy()
        want = np.linspace(-1, 0.7, num, endpoint)
        assert got.dtype == np.float32 and got.shape == want.shape
        assert np.abs(got - want).max(initial=0) <= 1.7 * 2.0**-23
        if num > 1 and endpoint:
            assert got[-1] == np.float32(0.7) and got[0] == -1
    halves = pk.linspace(0, 1, 5, dtype="float16", device=dev)
    assert halves.dtype == "float16" and halves.numpy().tolist() == [0, 0.25, 0.5, 0.75, 1]


@pytest.mark.parametrize("dtype", ("float32", "float16", "int64", "bool"))
def test_eye(dev: pk.Device, dtype: Any) -> None:
    for n, m, k in (
        (3, None, 0),
        (3, 5, 1),
        (5, 3, -2),
        (2, 2, 2),
        (2, 2, -7),
        (0, 3, 0),
        (1, 1, 0),
    ):
        got = pk.eye(n, m, k, dtype, device=dev).numpy()
        assert_same_bits(got, np.eye(n, m, k, dtype=dtype), f"{n} {m} {k}")


def test_arrays_like_others(dev: pk.Device) -> None:
    x = dev.zeros((3, 4), "float16")[:, ::2]
    for make, value in ((pk.zeros_like, 0), (pk.ones_like, 1)):
        t = make(x)
        assert isinstance(t, pk.Tensor) and t.device is dev and t.dtype == "float16"
        assert_same_bits(t.numpy(), np.full((3, 2), value, np.float16))
        assert_same_bits(make(x, "int64").numpy(), np.full((3, 2), value, np.int64))
    assert_same_bits(pk.full_like(x, -2.5).numpy(), np.full((3, 2), -2.5, np.float16))
    assert pk.empty_like(x, "bool").shape == (3, 2) and pk.empty_like(x).contiguous
    assert_same_bits(
        pk.rand_like(x, seed=3).numpy(), pk.rand((3, 2), "f16", seed=3, device=dev).numpy()
    )
    state = pk.random_state(3, device=dev)
    again = pk.randn((3, 2), seed=3, device=dev).numpy()
    assert_same_bits(pk.randn_like(x, "float32", state=state).numpy(), again)


def test_arrays_like_numpys_are_numpys() -> None:
    a = np.zeros((2, 3), np.int32)
    assert_same_bits(pk.ones_like(a), np.ones((2, 3), np.int32))
    assert_same_bits(pk.full_like(a, 2.5, "float32"), np.full((2, 3), 2.5, np.float32))
    assert pk.rand_like(a, "float32").shape == pk.randn_like(a, "float32").shape == (2, 3)
    assert isinstance(pk.empty_like(a), np.ndarray)


def test_sequences_reject(dev: pk.Device) -> None:
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.arange(3, 5, 0, device=dev), pk.ArgumentError, r"\[arange\] .* step not 0"),
        (lambda: pk.arange(math.inf, device=dev), pk.ArgumentError, "must be finite"),
        (lambda: pk.arange(0.5, 3, dtype="int32", device=dev), pk.ArgumentError, "needs integers"),
        (lambda: pk.arange(300, dtype="uint8", device=dev), pk.ArgumentError, r"in \[0, 255\]"),
        (lambda: pk.arange(-1, 2, dtype="uint32", device=dev), pk.ArgumentError, "from -1 to 1"),
        (lambda: pk.arange(2**31, 2**31 + 2, device=dev), pk.ArgumentError, "int32 but go"),
        (lambda: pk.arange("3", device=dev), pk.ArgumentError, r"\[arange\] stop"),  # type: ignore[arg-type]
        (lambda: pk.arange(3, dtype="bool", device=dev), pk.DTypeError, "bool"),
        (lambda: pk.linspace(0, 1, -1, device=dev), pk.ArgumentError, "num must be"),
        (lambda: pk.linspace(0, math.nan, device=dev), pk.ArgumentError, "bounds must be finite"),
        (lambda: pk.linspace(0, 1, dtype="int32", device=dev), pk.DTypeError, "float dtype"),
        (lambda: pk.eye(-1, device=dev), pk.ShapeError, "sizes must be"),
        (lambda: pk.eye(2, k=1.0, device=dev), pk.ArgumentError, r"\[eye\] k"),  # type: ignore[arg-type]
        (lambda: pk.zeros_like([1, 2]), pk.DTypeError, r"\[full_like\] x must be"),  # type: ignore[type-var]
        (lambda: pk.rand_like(dev.zeros(3, "int32")), pk.DTypeError, r"\[rand\] dtype"),
        (lambda: arange(dev.zeros(3, "int32"), 0.5, 1), pk.ArgumentError, r"\[arange\] start"),
        (lambda: arange(dev.zeros(3, "int8"), 0, 1), pk.DTypeError, r"\[arange\] dst"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
