"""Tensors beside numpy's arrays: what they do not do raises, and dtypes compare with numpy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
ARITHMETIC = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.matmul,
)  # fmt: skip
OTHERS: list[Any] = [0, 2.5, np.float32(2), np.ones(3, "f4"), None]


@pytest.fixture
def x(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(np.arange(3, dtype="f4"))


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparisons_raise(x: pk.Tensor, compare: Callable[..., Any], other: Any) -> None:
    for pair in ((x, other), (other, x), (x, x)):
        with pytest.raises(TypeError, match=r"\.numpy\(\)"):
            compare(*pair)


@pytest.mark.parametrize("other", OTHERS[:4], ids=repr)
@pytest.mark.parametrize("compute", ARITHMETIC)
def test_arithmetic_raises_on_both_sides(
    x: pk.Tensor, compute: Callable[..., Any], other: Any
) -> None:
    for pair in ((x, other), (other, x)):
        with pytest.raises(TypeError, match=r"\.numpy\(\)|pk\.(add|matmul)"):
            compute(*pair)


def test_operators_name_the_function_that_does_it(x: pk.Tensor) -> None:
    for compute, function in ((operator.add, "add"), (operator.matmul, "matmul")):
        with pytest.raises(TypeError, match=rf"pk\.{function}"):
            compute(x, x)
    with pytest.raises(TypeError, match=r"pk\.neg"):
        operator.neg(x)


def test_assignments_do_not_rebind(x: pk.Tensor) -> None:
    given = x
    with pytest.raises(TypeError, match=r"pk\.add"):
        x += np.ones(3, "f4")  # type: ignore[operator]
    assert x is given
    array = np.ones(3, "f4")
    with pytest.raises(TypeError):
        array += x  # type: ignore[arg-type]


def test_numpys_functions_do_not_go_to_the_host_in_silence(x: pk.Tensor) -> None:
    with pytest.raises(TypeError):
        np.exp(x)  # type: ignore[call-overload]
    assert np.exp(np.asarray(x)).shape == (3,)  # asked for


def test_in_raises(x: pk.Tensor) -> None:
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        _ = 1 in x


def test_tensors_are_keys(x: pk.Tensor) -> None:
    y = x[:2]
    assert {x: 1, y: 2}[x] == 1
    assert len({x, y, x}) == 2


def test_dtypes_equal_numpys(dev: pk.Device) -> None:
    t = dev.zeros(3)
    assert t.dtype == np.float32 and t.dtype == np.dtype("f4") and t.dtype == "float32"
    assert np.float32 == t.dtype and np.dtype("f4") == t.dtype and "float32" == t.dtype
    assert not t.dtype != np.float32 and not t.dtype != "float32"
    assert t.dtype != np.float16 and t.dtype != np.dtype("i4") and t.dtype != "float16"
    assert t.dtype != np.dtype(">f4") and t.dtype != 32 and t.dtype is not None
    assert (
        {t.dtype: 1}["float32"] == 1 and f"{t.dtype}" == "float32" and repr(t.dtype) == "'float32'"
    )
    assert np.empty(1, t.dtype).dtype == np.float32
    half = dev.zeros(3, "bfloat16")
    assert half.dtype == "bfloat16" and half.dtype != np.float16
