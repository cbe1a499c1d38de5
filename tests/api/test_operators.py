"""Python's operators and numpy's functions on tensors: on the device, with our rules of dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

A = np.array([[-3, 2, 0.5], [4, -1, 7]], "f4")
B = np.array([2, -4, 3], "f4")
FLOATS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
          operator.mod, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
          operator.ne)  # fmt: skip
INTS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)


def same(got: Any, want: Any) -> None:
    assert isinstance(got, pk.Tensor)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("op", FLOATS)
def test_arithmetic_and_comparisons(dev: pk.Device, op: Callable[..., Any]) -> None:
    a, b = dev.tensor(A), dev.tensor(B)
    same(op(a, b), op(A, B))
    for other in (2, 2.5, np.float32(3), B):
        same(op(a, other), op(A, other))
        same(op(other, a), op(other, A))


@pytest.mark.parametrize("op", INTS)
def test_bits(dev: pk.Device, op: Callable[..., Any]) -> None:
    x, y = np.arange(-3, 4, dtype="i4"), np.arange(7, dtype="i4")
    same(op(dev.tensor(x), dev.tensor(y)), op(x, y))
    same(op(dev.tensor(x), 3), op(x, 3))
    same(op(5, dev.tensor(y)), op(np.int32(5), y))


def test_the_others(dev: pk.Device) -> None:
    a, b = dev.tensor(A), dev.tensor(B)
    same(-a, -A)
    same(abs(a), abs(A))
    same(+a, A)
    assert (+a)._block is not a._block
    same(~dev.tensor(A > 0), ~(A > 0))
    same(~dev.tensor(A.astype("i4")), ~A.astype("i4"))
    same(a @ b, A @ B)
    same(B @ a.T, B @ A.T)
    same(abs(a) ** 2, abs(A) ** 2)
    same(2**a, np.float32(2) ** A)
    for got, want in zip(divmod(a, b), divmod(A, B), strict=True):
        same(got, want)
    for got, want in zip(divmod(7.0, abs(a)), divmod(np.float32(7), abs(A)), strict=True):
        same(got, want)
    same(a + b * 2 > 1, A + B * 2 > 1)


def test_in_place(dev: pk.Device) -> None:
    given = a = dev.tensor(A)
    want = A.copy()
    a += 1
    a *= dev.tensor(B)
    a -= B
    a /= 2
    want = ((want + 1) * B - B) / 2
    assert a is given
    same(a, want)
    with pytest.raises(pk.DTypeError, match="out must be float32 but is int32"):
        i = dev.zeros(3, "int32")
        i += 0.5
    with pytest.raises(pk.ShapeError, match="out must have shape"):
        row = dev.tensor(B)
        row += a
    array = np.ones(3, "f4")
    array += dev.tensor(B)
    assert (array == 1 + B).all()


def test_numpys_functions_run_here(dev: pk.Device) -> None:
    a, b = dev.tensor(A), dev.tensor(B)
    same(np.exp(a), np.exp(A))
    same(np.maximum(a, 0), np.maximum(A, 0))
    same(np.add(A, b), A + B)
    same(np.matmul(a, b), A @ B)
    same(np.isnan(a), np.isnan(A))
    same(np.true_divide(a, b), A / B)
    assert isinstance(np.logaddexp(a, b), pk.Tensor)
    out = dev.empty((2, 3))
    assert np.negative(a, out=out) is out
    same(out, -A)
    with pytest.raises(TypeError, match=r"no numpy\.heaviside: compute with \.numpy\(\)"):
        np.heaviside(a, b)
    with pytest.raises(TypeError, match=r"no numpy\.add\.outer"):
        np.add.outer(a, b)
    with pytest.raises(TypeError):
        np.exp(a, where=A > 0)


def test_what_no_operator_takes(dev: pk.Device) -> None:
    a = dev.tensor(B)
    for other in ("text", None, [1, 2, 3], object()):
        with pytest.raises(TypeError):
            a + other  # type: ignore[operator]
        with pytest.raises(TypeError):
            _ = a < other  # type: ignore[operator]
        assert not a == other
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        _ = 1 in a
    with pytest.raises(ValueError, match="no single truth value"):
        bool(a == a)
    assert a[0] == a[0] and not a[1] > a[0]


def test_hashes_stay(dev: pk.Device) -> None:
    x, y = dev.zeros(3), dev.zeros(3)
    assert {x: 1, y: 2}[x] == 1
    assert len({x, y, x}) == 2
