"""Integers by numpy's rules, in expressions and outside: what wraps, and which powers there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_narrow_results_wrap_inside_of_expressions(dev: pk.Device, dtype: str) -> None:
    """Each operation wraps before the next one sees its result."""
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, 0, 1, 2, 5, info.max - 1, info.max], dtype)
    y = x[::-1].copy()
    t, u = dev.tensor(x), dev.tensor(y)
    with np.errstate(all="ignore"):
        pairs = {
            "float32(3 - x)": (3 - x).astype("f4"),
            "(x + y) // 2": (x + y) // 2,
            "(x * y) > 4": (x * y) > 4,
            "maximum(x - y, y)": np.maximum(x - y, y),
            "float32(~x)": (~x).astype("f4"),
            "float32(-x)": (-x).astype("f4"),
            "float32(x << 1) + 0.5": (x << 1).astype("f4") + np.float32(0.5),
        }
    for text, want in pairs.items():
        got = pk.elementwise(text, x=t, **({"y": u} if "y" in text else {})).numpy()
        assert got.tolist() == want.tolist(), text
    assert pk.reduction("3 - x", "sum", x=t).numpy() == (3 - x).astype("i8").sum()


def test_a_negative_number_is_no_power_of_integers(dev: pk.Device) -> None:
    x = dev.tensor(np.array([2, 3, -1], "i4"))
    calls: tuple[Any, ...] = (
        lambda: x**-1,
        lambda: pk.pow(x, -3),
        lambda: 2 ** dev.tensor(np.array([1], "u1")) ** -1,
        lambda: dev.tensor(np.array([1], "u4")) ** -1,
        lambda: pk.elementwise("x ** -1 + 1", x=x),
        lambda: pk.elementwise("x ** n", x=x, n=-2),
        lambda: pk.reduction("x ** -1", "sum", x=x),
    )
    for call in calls:
        with pytest.raises(pk.ArgumentError, match="is a negative power"):
            call()
    assert (x**2).numpy().tolist() == [4, 9, 1]
    assert (x**-1.0).numpy().tolist() == pytest.approx([0.5, 1 / 3, -1])


def test_a_call_like_an_earlier_one_is_checked_too(dev: pk.Device) -> None:
    """What is remembered of a call with a good number is not taken for a bad one."""
    x: Any = dev.tensor(np.array([2, 3, -1], "i4"))
    u: Any = dev.tensor(np.array([2, 3, 1], "u1"))
    out = dev.empty(3, "int32")
    calls: tuple[Callable[[int], Any], ...] = (
        lambda n: x**n,
        lambda n: pk.pow(x, n),
        lambda n: np.power(x, n),
        lambda n: pk.pow(x, n, out=out),
        lambda n: u**n,
        lambda n: pk.elementwise("x ** n + 1", x=x, n=n),
        lambda n: pk.elementwise("x - x ** n", x=x, n=n, out=out),
        lambda n: pk.reduction("x ** n", "sum", x=x, n=n),
    )
    for call in calls:
        want = call(2).numpy()
        for _ in range(2):
            with pytest.raises(pk.ArgumentError, match="-1 is a negative power"):
                call(-1)
            assert (call(2).numpy() == want).all()


@pytest.mark.parametrize("shape", [(3,), (4000,), (64, 64)])
def test_a_negative_element_is_a_fault(dev: pk.Device, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("i4")
    n = np.random.default_rng(1).integers(0, 5, shape).astype("i4")
    t = dev.tensor(x).T
    assert ((t ** dev.tensor(n).T.copy()).numpy() == (x**n).T).all()
    assert ((t ** dev.tensor(n.astype("u1")).T).numpy() == (x**n).T).all()
    bad = n.copy()
    bad[(1,) * n.ndim] = -2
    for call in (
        lambda b: dev.tensor(x) ** b,
        lambda b: t**b.T,
        lambda b: pk.elementwise("1 + x ** (n - 0)", x=dev.tensor(x), n=b),
    ):
        call(dev.tensor(bad))
        with pytest.raises(pk.IndexRangeError, match=r"exponent must be in .* but is -2"):
            dev.sync()
    dev.sync()


def test_powers_of_a_tensor_are_no_part_of_a_reduction(dev: pk.Device) -> None:
    x = dev.ones(3, "int32")
    with pytest.raises(pk.ArgumentError, match="a reduction cannot raise integers"):
        pk.reduction("x ** x", "sum", x=x)
