"""Arguments and values as torch and numpy have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

X = np.array([[-3, 2, 0.5], [4, -1, 7]], "f4")


class Foreign:
    """An array of another library, such as jax's."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array, self.shape = array, array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._array


def test_numbers_by_their_places(dev: pk.Device) -> None:
    t = dev.tensor(X)
    for function, numbers, names in (
        (pk.leaky_relu, (0.2,), ("negative_slope",)), (pk.elu, (1.5,), ("alpha",)),
        (pk.celu, (1.5,), ("alpha",)), (pk.softplus, (1, 20), ("beta", "threshold")),
        (pk.hardtanh, (-2, 2), ("min_val", "max_val")),
    ):  # fmt: skip
        want = function(t, **dict(zip(names, numbers, strict=True)))
        np.testing.assert_array_equal(function(t, *numbers).numpy(), want.numpy())
    np.testing.assert_array_equal(pk.hardtanh(t, -2, 2).numpy(), X.clip(-2, 2))


def test_gelu_by_both_names(dev: pk.Device) -> None:
    t = dev.tensor(X)
    for _ in range(2):  # the second time by what the first one left
        exact, near = pk.gelu(t), pk.gelu(t, approximate="tanh")
        np.testing.assert_array_equal(near.numpy(), pk.gelu_tanh(t).numpy())
        assert (exact.numpy() != near.numpy()).any()
        np.testing.assert_array_equal(pk.gelu(t, "none").numpy(), exact.numpy())
    out = dev.empty(X.shape)
    assert pk.gelu(t, out=out) is out and isinstance(pk.gelu(X), np.ndarray)
    with pytest.raises(pk.ArgumentError, match=r"\[gelu\] approximate must be .* but is 'erf'"):
        pk.gelu(t, approximate="erf")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["var", "std"])
def test_correction_is_ddof(name: str, dev: pk.Device) -> None:
    t, function = dev.tensor(X), getattr(pk, name)
    want = getattr(np, name)(X, axis=1, ddof=1)
    np.testing.assert_allclose(function(t, 1, correction=1).numpy(), want, rtol=1e-6)
    with pytest.raises(pk.ArgumentError, match="ddof and correction are two names of one argument"):
        function(t, ddof=1, correction=1)


def test_bounds_by_numpys_names(dev: pk.Device) -> None:
    t = dev.tensor(X)
    want = X.clip(0, 2)
    for got in (pk.clip(t, a_min=0, a_max=2), pk.clip(t, 0, a_max=2), pk.clip(t, 0, 2)):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(pk.clip(t, a_max=2).numpy(), np.minimum(X, 2))
    with pytest.raises(pk.ArgumentError, match="max and a_max are two names of one argument"):
        pk.clip(t, 0, 2, a_max=2)


def test_full_of_a_tensor(dev: pk.Device) -> None:
    one = dev.tensor(2.5)
    with pk.Tape() as tape:
        t = pk.full((2, 3), one)
        loss = pk.sum(t * t)
    assert t.shape == (2, 3) and (t.numpy() == 2.5).all()
    assert tape.gradient(loss, [one])[0].item() == 2 * 2.5 * 6
    assert dev.full(2, dev.tensor([3], "int32")).dtype == "int32"
    assert pk.full((2,), one, "float16").dtype == "float16"
    with pytest.raises(pk.ShapeError, match=r"\[full\] value must have one element"):
        pk.full((2,), dev.tensor(X))


def test_arrays_of_other_libraries(dev: pk.Device) -> None:
    t, other = dev.tensor(X), Foreign(X + 1)
    for got, want in ((t * other, X * (X + 1)), (other - t, np.ones_like(X))):  # type: ignore[operator]
        assert isinstance(got, pk.Tensor)
        np.testing.assert_array_equal(got.numpy(), want)
    assert (t < other).numpy().all()  # type: ignore[operator]
    t += other  # type: ignore[arg-type]
    np.testing.assert_array_equal(t.numpy(), X + X + 1)


def test_float64_becomes_float32_beside_tensors(dev: pk.Device) -> None:
    wide = X.astype("f8") / 3
    near = wide.astype("f4")
    t = dev.tensor(wide)
    assert t.dtype == "float32"
    np.testing.assert_array_equal(t.numpy(), near)
    assert pk.asarray([np.float64(1.5)]).dtype == "float32"
    x, half = dev.tensor(X), dev.tensor(X, "float16")
    for got, want in (
        (x + wide, X + near), (wide * x, near * X), (pk.matmul(x, wide.T), X @ near.T),
        (pk.where(x > 0, wide, x), np.where(X > 0, near, X)),
        (pk.elementwise("a * b", a=x, b=wide), X * near),
        (pk.concatenate([x, wide]), np.concatenate([X, near])),
        (pk.reduction("a * b", "sum", a=x, b=wide), (X * near).sum()),
    ):  # fmt: skip
        assert isinstance(got, pk.Tensor) and got.dtype == "float32"
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert (half + wide).dtype == "float32" and (half + np.float64(1)).dtype == "float16"
    for call in (lambda: pk.softmax(wide), lambda: pk.concatenate([wide, wide]),
                 lambda: pk.add(wide, 1), lambda: pk.zeros(3, np.float64),
                 lambda: pk.tensor(X, np.float64)):  # fmt: skip
        with pytest.raises(pk.DTypeError, match="float64"):
            call()
    assert pk.tensor(np.zeros(3, complex)).dtype == "complex64"
    with pytest.raises(pk.DTypeError, match="complex128"):
        pk.zeros(3, np.complex128)


def test_gradients_of_bounds_are_those_of_clamp(dev: pk.Device) -> None:
    x = dev.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    for bounds in ((1, 3), (dev.tensor(1.0), dev.tensor(3.0))):
        found = []
        for function in (pk.clip, pk.clamp):
            with pk.Tape() as tape:
                loss = pk.sum(function(x, *bounds))
            found.append(tape.gradient(loss, [x])[0].numpy().tolist())
        assert found[0] == found[1] and found[0][::2] == [0, 1, 0]


def test_counts_of_repeat(dev: pk.Device) -> None:
    x = dev.tensor(X)
    with pk.Tape() as tape:
        y = pk.repeat(x, [2, 0, 1], axis=1)
        loss = pk.sum(y * y)
    np.testing.assert_array_equal(y.numpy(), np.repeat(X, [2, 0, 1], axis=1))
    want = 2 * X * np.array([2, 0, 1], "f4")
    np.testing.assert_array_equal(tape.gradient(loss, [x])[0].numpy(), want)
    assert pk.repeat(dev.zeros((0, 3)), [], axis=0).shape == (0, 3)


def test_float64_beside_tensors_is_float32(dev: pk.Device) -> None:
    x, y = np.linspace(0, 1, 6).reshape(2, 3), np.linspace(1, 2, 6).reshape(2, 3)
    t = dev.tensor(x)
    for loss in (pk.mse_loss, pk.l1_loss, pk.huber_loss, pk.binary_cross_entropy_with_logits):
        assert loss(t, y).item() == loss(t, y.astype(np.float32)).item()
        with pytest.raises(pk.DTypeError, match=r"input must be .* or bfloat16 but is float64"):
            loss(x, y)  # arrays alone give arrays, of the dtype that was asked for
    flat, (w, b) = pk.flatten_parameters([x, np.zeros(2)], device=dev)
    assert flat.dtype == w.dtype == "float32" and b.shape == (2,)
    np.testing.assert_array_equal(w.numpy(), x.astype(np.float32))
    with pytest.raises(pk.DTypeError, match=r"parameters\[1\] is float16 beside float32"):
        pk.flatten_parameters([x, x.astype(np.float16)], device=dev)
