"""grad, vjp, jvp, jacobian, hessian and hvp: names, arguments and results as in JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

A = np.array([0.5, -1.0, 2.0], "f4")


@pytest.fixture
def a(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(A)


def cubes(x: pk.Tensor) -> Any:
    return pk.sum(x * x * x)


def test_grad_and_value(a: pk.Tensor) -> None:
    np.testing.assert_allclose(pk.grad(cubes)(a).numpy(), 3 * A**2)
    value, found = pk.value_and_grad(cubes)(a)
    assert value.item() == pytest.approx((A**3).sum())
    np.testing.assert_allclose(found.numpy(), 3 * A**2)


def test_argnums_and_aux(a: pk.Tensor) -> None:
    def f(x: Any, y: Any, *, factor: float) -> Any:
        return pk.sum(x * y) * factor, "more"

    found, aux = pk.grad(f, argnums=(1, 0), has_aux=True)(a, a + 1, factor=2.0)
    assert aux == "more" and isinstance(found, tuple)
    np.testing.assert_allclose(found[0].numpy(), 2 * A)
    np.testing.assert_allclose(found[1].numpy(), 2 * (A + 1))
    np.testing.assert_allclose(pk.grad(lambda x, y: cubes(y), argnums=-1)(a, a).numpy(), 3 * A**2)


def test_an_argument_that_is_given_twice_is_two(a: pk.Tensor) -> None:
    """Each with a gradient of its own, as in JAX."""
    both = pk.grad(lambda x, y: pk.sum(x * x * y), argnums=(0, 1))(a, a)
    np.testing.assert_allclose(both[0].numpy(), 2 * A * A)
    np.testing.assert_allclose(both[1].numpy(), A * A)


@dataclass
class Layer:
    w: Any
    b: Any


def test_trees(a: pk.Tensor, dev: pk.Device) -> None:
    model = {"first": Layer(a, dev.tensor([1.0])), "rest": [a * 2, None]}

    def f(m: Any) -> Any:
        return pk.sum(m["first"].w * m["first"].b + m["rest"][0])

    found = pk.grad(f)(model)
    np.testing.assert_allclose(found["first"].w.numpy(), [1, 1, 1])
    assert found["first"].b.item() == A.sum() and found["rest"][1] is None
    # Along v = m, of f^2: 2 f'(v) df + 2 f d(f'(v)), where b is 1.
    total = A.sum()
    second = pk.hvp(lambda m: f(m) ** 2, model, model)
    along, value = 4 * total, 3 * total
    np.testing.assert_allclose(second["first"].w.numpy(), [2 * along + 2 * value] * 3)
    assert second["first"].b.item() == 2 * along * total + 2 * value * total


def test_jacobian(a: pk.Tensor) -> None:
    found = pk.jacobian(lambda x: {"y": x[:, None] * x})
    rows = found(a)["y"].numpy()
    assert rows.shape == (3, 3, 3)
    eye = np.eye(3)
    want = eye[:, None, :] * A[None, :, None] + A[:, None, None] * eye[None, :, :]
    np.testing.assert_allclose(rows, want)


def test_hessian_and_hvp_agree_with_differences(a: pk.Tensor, dev: pk.Device) -> None:
    def f(x: Any) -> Any:
        return pk.sum(pk.exp(x) * x[::-1]) + pk.prod(x)

    matrix = pk.hessian(f)(a).numpy()
    v = dev.tensor(np.array([1.0, 2.0, -0.5], "f4"))
    along = pk.hvp(f, a, v).numpy()
    np.testing.assert_allclose(matrix @ v.numpy(), along, rtol=1e-5, atol=1e-5)
    step = 2.0**-6
    first = pk.grad(f)
    differences = (first(a + step * v) - first(a - step * v)).numpy() / (2 * step)
    np.testing.assert_allclose(along, differences, rtol=1e-2, atol=1e-2)
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = f(a)
        loss = pk.sum(inner.gradient(y, a) * v)
    np.testing.assert_array_equal(outer.gradient(loss, a).numpy(), along)


def test_vjp_goes_back_several_times(a: pk.Tensor, dev: pk.Device) -> None:
    y, back = pk.vjp(lambda x, w: [x * w, pk.sin(x)], a, a + 1)
    np.testing.assert_allclose(y[0].numpy(), A * (A + 1))
    one, zero = dev.ones(3), dev.zeros(3)
    dx, dw = back([one, zero])
    np.testing.assert_allclose(dx.numpy(), A + 1)
    np.testing.assert_allclose(dw.numpy(), A)
    np.testing.assert_allclose(back([zero, one])[0].numpy(), np.cos(A), rtol=1e-6)


def test_jvp(a: pk.Tensor, dev: pk.Device) -> None:
    ways = (dev.tensor([1.0, 0.0, 2.0]), dev.tensor([0.0, 1.0, 1.0]))
    y, moved = pk.jvp(lambda x, w: (x * w, pk.exp(x)), (a, a), ways)
    u, v = (w.numpy() for w in ways)
    np.testing.assert_allclose(y[1].numpy(), np.exp(A), rtol=1e-6)
    np.testing.assert_allclose(moved[0].numpy(), u * A + A * v)
    np.testing.assert_allclose(moved[1].numpy(), np.exp(A) * u, rtol=1e-6)


def test_they_nest_and_are_captured(a: pk.Tensor) -> None:
    third = pk.grad(lambda x: pk.sum(pk.grad(lambda x: pk.sum(pk.grad(cubes)(x)))(x)))
    np.testing.assert_allclose(third(a).numpy(), [6, 6, 6])
    with a.device.capture() as program:
        found = pk.hvp(cubes, a, a)
    a.write(A + 1)
    program()
    np.testing.assert_allclose(found.numpy(), 6 * (A + 1) ** 2)


def test_what_is_refused(a: pk.Tensor) -> None:
    for call, error, text in (
        (lambda: pk.grad(3), pk.ArgumentError, "f must be a function"),
        (lambda: pk.grad(lambda x: x)(a), pk.ArgumentError, "must give one element"),
        (lambda: pk.grad(lambda x: 3)(a), pk.DTypeError, "must give a pykernels.Tensor"),
        (lambda: pk.grad(cubes, argnums=1)(a), pk.ArgumentError, "argnums must name"),
        (lambda: pk.grad(cubes)(3), pk.DTypeError, "must be a pykernels.Tensor"),
        (lambda: pk.grad(cubes, has_aux=True)(a), pk.ArgumentError, "must give a pair"),
        (lambda: pk.hvp(cubes, a, a[:2]), pk.ArgumentError, "of the shape"),
        (lambda: pk.vjp(cubes, a)[1]([]), pk.ArgumentError, "the 1 leaves"),
        (lambda: pk.jvp(cubes, (a,), ()), pk.ArgumentError, "same number of leaves"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()
    assert pk.sum(a).item() == A.sum()
