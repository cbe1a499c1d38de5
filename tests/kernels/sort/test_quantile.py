"""quantile beside numpy's, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
SHAPES = [(), (1,), (7,), (3, 4, 5), (2, 1, 129), (4097,)]


def wide(x: Any, *args: Any, **named: Any) -> Any:
    return np.asarray(np.quantile(np.asarray(x, np.float64), *args, **named))


@pytest.mark.parametrize("method", METHODS)
def test_quantile_is_numpys(dev: pk.Device, method: Any) -> None:
    """Any axes with one method; a method only says what is taken between two sorted elements."""
    rng, whole = np.random.default_rng(0), method == "linear"
    for shape in SHAPES:
        for dtype, rtol in (("float32", 1e-6), ("float16", 1e-3), ("int32", 1e-6), ("uint8", 1e-6)):
            x = np.asarray(rng.integers(0, 100, shape) if dtype[0] in "iu" else rng.random(shape))
            x = x.astype(dtype)
            axes: list[Any] = [None, *range(-len(shape), len(shape))]
            axes += [(0, 2), (1,), (2, 1, 0)] if len(shape) == 3 else []
            for axis in axes if whole else {None, axes[-1]}:
                for q in (0.5, [0, 0.25, 0.75, 1], []):
                    for keepdims in (False, True) if whole else (False,):
                        got = pk.quantile(x, q, axis, keepdims=keepdims, method=method)
                        assert got.dtype == ("float16" if dtype == "float16" else "float32")
                        want = wide(x, q, axis, keepdims=keepdims, method=method)
                        assert got.shape == want.shape
                        np.testing.assert_allclose(got, want, rtol=rtol)
    t = dev.tensor(x)
    assert isinstance(pk.quantile(t, 0.5), pk.Tensor)


def test_special_values(dev: pk.Device) -> None:
    inf, nan = np.inf, np.nan
    x = dev.tensor(np.array([[1, nan, 2], [inf, inf, inf], [-inf, 0, 1], [4, 5, 6]], np.float32))
    got = pk.quantile(x, [0, 0.5, 0.75, 1], axis=1).numpy()
    want = [[nan, inf, -inf, 4], [nan, inf, 0, 5], [nan, inf, 0.5, 5.5], [nan, inf, 1, 6]]
    np.testing.assert_array_equal(got, np.array(want, np.float32))
    assert np.isnan(pk.quantile(x, 0.1).item())


def test_torchs_words(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).T
    got = pk.quantile(x, np.array([0.1, 0.9]), dim=0, keepdim=True)
    np.testing.assert_allclose(
        got.numpy(), wide(x.numpy(), [0.1, 0.9], 0, keepdims=True), rtol=1e-6
    )
    with pytest.raises(pk.ArgumentError, match="axis and dim are two names of one argument"):
        pk.quantile(x, 0.5, 0, dim=0)


def test_gradients_of_quantile(dev: pk.Device) -> None:
    x = dev.tensor(np.array([[5, 1, 3, 2], [0, 9, 4, 7]], np.float32))
    with pk.Tape() as tape:
        y = pk.quantile(x, 0.25, axis=1)
    dx = tape.gradient(y, x, np.array([1, 2], np.float32)).numpy()
    np.testing.assert_allclose(dx, [[0, 0.25, 0, 0.75], [0.5, 0, 1.5, 0]])


def test_quantile_refuses(dev: pk.Device) -> None:
    x: Any = dev.ones((3, 4))
    refused: list[tuple[type[Exception], str, Any]] = [
        (pk.ArgumentError, "q must be from 0 to 1 but is 1.5", lambda: pk.quantile(x, 1.5)),
        (pk.ArgumentError, "q must be from 0 to 1", lambda: pk.quantile(x, [0.5, np.nan])),
        (pk.DTypeError, "q must be a number", lambda: pk.quantile(x, x)),  # type: ignore[call-overload]
        (pk.DTypeError, "q must be a number", lambda: pk.quantile(x, "a")),
        (pk.ShapeError, "q must have one axis", lambda: pk.quantile(x, np.ones((1, 1)))),
        (
            pk.ArgumentError,
            "method must be 'linear', 'lower'",
            lambda: pk.quantile(x, 0.5, method="a"),
        ),  # type: ignore[call-overload]
        (pk.ShapeError, "axis must be in", lambda: pk.quantile(x, 0.5, 2)),
        (pk.ShapeError, "must name each axis once", lambda: pk.quantile(x, 0.5, (0, -2))),
        (pk.ShapeError, "x must have elements", lambda: pk.quantile(dev.ones((2, 0)), 0.5, 1)),
        (
            pk.DTypeError,
            "x must be float32, float16 or bfloat16",
            lambda: pk.quantile(np.zeros(3), 0.5),
        ),
    ]
    for error, told, call in refused:
        with pytest.raises(error, match=rf"\[quantile\] .*{told}|\[quantile\] {told}"):
            call()
