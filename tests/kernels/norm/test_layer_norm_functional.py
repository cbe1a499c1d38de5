"""The functions of norms: several axes, arrays, `out`, defaults, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import norm as reference

pytestmark = pytest.mark.gpu


def test_layer_norm_over_several_axes(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x, r = (rng.normal(3, 1, (2, 3, 4)).astype("f4") for _ in range(2))
    w = rng.normal(1, 1, (3, 4)).astype("f4")
    out = dev.zeros((2, 4, 3)).transpose(0, 2, 1)  # whose axes do not merge
    want = reference.layer_norm(x.reshape(2, 12), w.ravel()).reshape(x.shape)
    pk.layer_norm(dev.tensor(x), (3, 4), dev.tensor(w), out=out)
    np.testing.assert_allclose(out.numpy(), want, 1e-5, 1e-5)
    far = dev.tensor(x.transpose(0, 2, 1).copy()).transpose(0, 2, 1)
    normed, summed = pk.add_layer_norm(far, r, (3, 4), w, out=(out, far))
    assert summed is far
    assert (summed.numpy() == x + r).all()
    want = reference.layer_norm((x + r).reshape(2, 12), w.ravel()).reshape(x.shape)
    np.testing.assert_allclose(normed.numpy(), want, 1e-5, 1e-5)
    dx, dw, db = pk.layer_norm_backward(r, x, (3, 4), w)
    assert isinstance(dx, np.ndarray)
    found = reference.layer_norm_backward(r.reshape(2, 12), x.reshape(2, 12), w.ravel(), None, 1, 1)
    for got, exact in zip((dx, dw, db), found, strict=True):
        np.testing.assert_allclose(got.ravel(), exact.ravel(), 1e-4, 1e-5)


def test_sums_and_norms_again(dev: pk.Device) -> None:
    """Calls like one that was judged, with other numbers, layouts, arguments and errors."""
    rng = np.random.default_rng(1)
    w = rng.normal(1, 1, 8).astype("f4")
    weight, shapes = dev.tensor(w), (8, [8], (8,))
    for shape, turned in ((s, t) for t in (False, True) for s in shapes):
        x, r = (rng.normal(3, 1, (6, 8)).astype("f4") for _ in range(2))
        given = [dev.tensor(x.T.copy()).T if turned else dev.tensor(x), dev.tensor(r)]
        for eps in (1e-5, 0.5):
            normed, summed = pk.add_layer_norm(*given, shape, weight, eps=eps)
            np.testing.assert_array_equal(summed.numpy(), x + r)
            want = reference.layer_norm(x + r, w, eps=eps)
            np.testing.assert_allclose(normed.numpy(), want, 1e-5, 1e-5)
            normed, summed = pk.add_rms_norm(*given, shape, eps=eps)
            np.testing.assert_array_equal(summed.numpy(), x + r)
            np.testing.assert_allclose(normed.numpy(), reference.rms_norm(x + r, eps=eps), 1e-5)
        assert normed.contiguous and summed.contiguous
    for call in (pk.add_layer_norm, pk.add_rms_norm):
        with pytest.raises(pk.ShapeError, match="normalized_shape"):
            call(*given, 6)
        with pytest.raises(pk.ShapeError, match="weight must have shape"):
            call(*given, 8, weight[:6])
        with pytest.raises(pk.ShapeError, match="residual must have shape"):
            call(given[0], given[1][:3], 8)
        assert isinstance(call(given[0], r, 8)[1], pk.Tensor)


def test_rms_norm_has_torchs_eps(dev: pk.Device) -> None:
    for dtype, eps in (("float32", 2.0**-23), ("float16", 2.0**-10)):
        x = np.full((1, 8), 2.0**-6, dtype)
        want = reference.rms_norm(x, eps=eps)
        for got in (pk.rms_norm(dev.tensor(x), 8), pk.add_rms_norm(dev.tensor(x), 0 * x, 8)[0]):
            np.testing.assert_allclose(got.numpy(), want, 2e-3 if dtype == "float16" else 1e-6)


def test_norms_of_arrays_are_arrays() -> None:
    x = np.random.default_rng(0).normal(0, 1, (3, 4, 5)).astype("f4")
    some = np.ones(4, "f4")
    results = (
        pk.layer_norm(x, 5), pk.rms_norm(x, (4, 5)), pk.l2_norm(x, axis=1),
        pk.group_norm(x, 2), pk.instance_norm(x), pk.batch_norm(x, some, some),
        pk.batch_norm(x, None, None, training=True), *pk.add_rms_norm(x, x, 5),
        *pk.rms_norm_backward(x, x, 5),
    )  # fmt: skip
    for got in results[:-1]:
        assert isinstance(got, np.ndarray)
        assert got.shape == x.shape
    assert results[-1].shape == (5,)


def test_batch_norm_counts_on_running_statistics(dev: pk.Device) -> None:
    x = np.random.default_rng(0).normal(2, 3, (6, 4, 5)).astype("f4")
    mean, variance = dev.zeros(4), dev.ones(4)
    pk.batch_norm(dev.tensor(x), mean, variance, training=True, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), x.mean((0, 2)), 1e-5)
    np.testing.assert_allclose(variance.numpy(), x.var((0, 2), ddof=1), 1e-5)
    got = pk.instance_norm(dev.tensor(x), mean, variance, use_input_stats=False).numpy()
    want = reference.batch_norm(x, mean.numpy(), variance.numpy())
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_norms_reject(dev: pk.Device) -> None:
    x = dev.ones((2, 3, 4))
    with pytest.raises(pk.ShapeError, match=r"\[layer_norm\] normalized_shape must be the last"):
        pk.layer_norm(x, 3)
    with pytest.raises(pk.ShapeError, match=r"\[layer_norm\] normalized_shape .* but is \(\)"):
        pk.layer_norm(x, ())
    with pytest.raises(pk.ShapeError, match=r"\[rms_norm\] weight must have shape \(3, 4\)"):
        pk.rms_norm(x, (3, 4), dev.ones(12))
    with pytest.raises(pk.ShapeError, match=r"\[add_rms_norm\] residual must have shape"):
        pk.add_rms_norm(x, dev.ones((2, 3)), 4)
    with pytest.raises(pk.ArgumentError, match=r"\[add_layer_norm\] out must be a tuple of two"):
        pk.add_layer_norm(x, x, 4, out=x)  # type: ignore[call-overload]
    with pytest.raises(pk.ShapeError, match=r"\[layer_norm_backward\] x must have the shape of dy"):
        pk.layer_norm_backward(dev.ones((2, 3)), x, 4)
    with pytest.raises(pk.ArgumentError, match=r"\[batch_norm\] running_mean and running_var must"):
        pk.batch_norm(x, None, None)
    with pytest.raises(pk.DTypeError, match=r"\[batch_norm\] running_mean is written in training"):
        pk.batch_norm(x, np.ones(3, "f4"), np.ones(3, "f4"), training=True)
    with pytest.raises(pk.ShapeError, match=r"\[instance_norm\] x must have more than one pixel"):
        pk.instance_norm(dev.ones((2, 3)))
    with pytest.raises(pk.ArgumentError, match=r"\[instance_norm\] running statistics need"):
        pk.instance_norm(x, dev.ones(3), dev.ones(3))
    with pytest.raises(pk.ArgumentError, match=r"\[group_norm\] num_groups must be an integer"):
        pk.group_norm(x, 1.5)  # type: ignore[call-overload]
