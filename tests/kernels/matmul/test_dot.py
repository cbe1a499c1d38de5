"""dot by numpy's rules."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

SHAPES = [
    ((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 2)), ((3, 5), (5, 2)), ((2, 3, 5), (4, 5, 2)),
    ((5,), (4, 5, 2)), ((2, 3, 5), (5,)), ((1,), (1,)), ((0,), (0,)), ((3, 0), (0, 2)),
    ((0, 5), (5, 2)), ((33, 65), (65, 17)), ((), (3,)), ((3, 2), ()), ((), ()),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_dot_is_numpys(dev: pk.Device, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16"):
        a, b = (np.asarray(rng.integers(-2, 3, s)).astype(dtype) for s in (left, right))
        want = np.asarray(np.dot(a, b))
        host = pk.dot(a, b)
        assert isinstance(host, np.ndarray) and host.dtype == want.dtype
        np.testing.assert_array_equal(host, want, strict=True)
        got = pk.dot(dev.tensor(a), b)
        assert isinstance(got, pk.Tensor)
        np.testing.assert_array_equal(got.numpy(), want, strict=True)
        out = dev.empty(want.shape, dtype)
        assert pk.dot(a, dev.tensor(b), out=out) is out
        np.testing.assert_array_equal(out.numpy(), want)


def test_dot_of_numbers_and_views(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(pk.dot(x, 2).numpy(), x.numpy() * 2)
    np.testing.assert_array_equal(pk.dot(3.0, x).numpy(), x.numpy() * 3)
    np.testing.assert_array_equal(pk.dot(x[:, ::-1], x.T).numpy(), x.numpy()[:, ::-1] @ x.numpy().T)


def test_gradients_of_dot(dev: pk.Device) -> None:
    x, w = dev.tensor(np.array([1, 2, 3], np.float32)), dev.tensor(np.array([4, 5, 6], np.float32))
    with pk.Tape() as tape:
        loss = pk.dot(x, w)
    dx, dw = tape.gradient(loss, [x, w])
    np.testing.assert_array_equal(dx.numpy(), w.numpy())
    np.testing.assert_array_equal(dw.numpy(), x.numpy())


def test_dot_refuses(dev: pk.Device) -> None:
    a = dev.ones((3, 5))
    with pytest.raises(pk.ShapeError, match=r"\[dot\] axis -1 of a and axis 0 of b must agree"):
        pk.dot(a, a)
    with pytest.raises(pk.ShapeError, match=r"\[dot\] out must have shape \(3,\)"):
        pk.dot(a, dev.ones(5), out=dev.empty(4))
    with pytest.raises(pk.DTypeError, match=r"\[dot\] a must be .* or bfloat16 but is int32"):
        pk.dot(a.astype("int32"), dev.ones(5))
    with pytest.raises(pk.DTypeError, match="but is list"):
        pk.dot([1.0], a)  # type: ignore[call-overload]
