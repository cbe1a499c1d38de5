"""max_pool3d and avg_pool3d: values, gradients, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).standard_normal((2, 3, 7, 6, 8)).astype("f4")


def windows(
    x: Array, border: float, kernel: Any, stride: Any, padding: Any, dilation: Any = (1, 1, 1)
) -> Array:
    """(N, C, OD, OH, OW, elements of a window)."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=border)
    wide = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(x, wide, (2, 3, 4))
    steps, gaps = (tuple(slice(None, None, s) for s in row) for row in (stride, dilation))
    found = found[(slice(None), slice(None), *steps, *gaps)]
    return found.reshape(*found.shape[:5], -1)


FORMS: list[Any] = [
    ((2, 2, 2), (2, 2, 2), (0, 0, 0)), ((3, 2, 3), (2, 1, 3), (1, 1, 0)),
    ((1, 3, 2), (1, 2, 2), (0, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "stride", "padding"), FORMS)
def test_pools_of_volumes(dev: pk.Device, kernel: Any, stride: Any, padding: Any) -> None:
    x, half = dev.tensor(X), dev.tensor(X.astype("f2"))
    largest = windows(X, -np.inf, kernel, stride, padding).max(-1)
    assert (pk.max_pool3d(x, kernel, stride, padding).numpy() == largest).all()
    found = pk.max_pool3d(half, kernel, stride, padding)
    assert found.dtype == "float16" and (found.numpy() == largest.astype("f2")).all()
    mean = windows(X.astype("f8"), 0, kernel, stride, padding).mean(-1)
    found = pk.avg_pool3d(x, kernel, stride, padding)
    np.testing.assert_allclose(found.numpy(), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        pk.avg_pool3d(half, kernel, stride, padding).numpy(), mean, rtol=1e-3, atol=1e-3
    )
    inside = np.nanmean(windows(X.astype("f8"), np.nan, kernel, stride, padding), -1)
    found = pk.avg_pool3d(x, kernel, stride, padding, count_include_pad=False)
    np.testing.assert_allclose(found.numpy(), inside, rtol=1e-6, atol=1e-6)


def test_gaps_and_volumes_without_a_batch(dev: pk.Device) -> None:
    want = windows(X, -np.inf, (2, 2, 3), (1, 2, 1), (1, 0, 1), (3, 2, 2)).max(-1)
    found = pk.max_pool3d(X, (2, 2, 3), (1, 2, 1), (1, 0, 1), (3, 2, 2))
    assert isinstance(found, np.ndarray) and (found == want).all()
    assert (pk.max_pool3d(X[0], 2) == pk.max_pool3d(X, 2)[0]).all()
    assert pk.avg_pool3d(dev.tensor(X[1]), (7, 6, 8)).shape == (3, 1, 1, 1)


def test_gradients_of_pools_of_volumes(dev: pk.Device) -> None:
    x = dev.tensor(X)
    with pk.Tape() as tape:
        loss = pk.sum(pk.max_pool3d(x, 3, 3)) + 2 * pk.sum(pk.avg_pool3d(x, (2, 3, 2)))
    (found,) = tape.gradient(loss, [x])
    want = np.zeros_like(X)
    want[:, :, :6] += 2 / 12
    for n, c, d, h, w in np.ndindex(2, 3, 2, 2, 2):
        part = X[n, c, 3 * d : 3 * d + 3, 3 * h : 3 * h + 3, 3 * w : 3 * w + 3]
        at = np.unravel_index(part.argmax(), part.shape)
        want[n, c, 3 * d + at[0], 3 * h + at[1], 3 * w + at[2]] += 1
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-6, atol=1e-6)


def test_pools_of_volumes_reject(dev: pk.Device) -> None:
    with pytest.raises(
        pk.ShapeError, match=r"\[max_pool3d\] x must have axes .* shape \(7, 6, 8\)"
    ):
        pk.max_pool3d(X[0, 0], 2)
    with pytest.raises(pk.ArgumentError, match=r"\[avg_pool3d\] kernel_size must be one or three"):
        pk.avg_pool3d(X, (2, 2))
    with pytest.raises(pk.DTypeError, match=r"\[avg_pool3d\] x must be .* or bfloat16 but is"):
        pk.avg_pool3d(dev.zeros((1, 1, 4, 4, 4), "int32"), 2)
