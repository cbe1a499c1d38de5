"""pk.cross_entropy and pk.nll_loss: torch's shapes, numpy in and out, errors, captured calls."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import loss as reference

pytestmark = pytest.mark.gpu


def test_cross_entropy_takes_torchs_shapes(dev: pk.Device) -> None:
    """Classes are the second axis, or the only one; nll_loss of log_softmax is the same."""
    rng = np.random.default_rng(0)
    for shape in ((7,), (5, 7), (3, 7, 4), (2, 7, 3, 5)):
        axis = min(1, len(shape) - 1)
        x = rng.normal(0, 2, shape).astype(np.float32)
        target = rng.integers(0, 7, [n for a, n in enumerate(shape) if a != axis])
        last = np.moveaxis(x, axis, -1)
        for dtype in ("float32", "float16"):
            given = dev.tensor(x).astype(dtype)
            for reduction in ("none", "mean", "sum"):
                want = reference.cross_entropy(last, target, reduction=reduction)
                got = pk.cross_entropy(given, target, reduction=reduction)
                assert got.dtype == dtype
                rtol = 1e-5 if dtype == "float32" else 5e-3
                np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=rtol)
                logs = pk.log_softmax(given, axis=axis)
                again = pk.nll_loss(logs, target, reduction=reduction)
                np.testing.assert_allclose(again.numpy(), want, rtol=rtol, atol=rtol)
        shares = rng.random(shape).astype(np.float32)
        want = reference.cross_entropy(last, np.moveaxis(shares, axis, -1), label_smoothing=0.1)
        got = pk.cross_entropy(dev.tensor(x), shares, label_smoothing=0.1)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_cross_entropy_of_arrays_is_an_array(dev: pk.Device) -> None:
    x, target = np.eye(3, 4, dtype=np.float32), np.array([0, 1, -100])
    got = pk.cross_entropy(x, target)
    assert isinstance(got, np.ndarray) and got.dtype == np.float32
    np.testing.assert_allclose(got, reference.cross_entropy(x, target), rtol=1e-6)
    out = dev.empty(())
    assert pk.cross_entropy(dev.tensor(x), target, out=out) is out
    assert out.item() == got
    with pytest.raises(pk.IndexRangeError, match=r"target must be in \[0, 4\) but is 4"):
        pk.cross_entropy(x, np.array([0, 1, 4]))


def test_cross_entropy_can_be_captured(dev: pk.Device) -> None:
    x, target = dev.rand((6, 5), seed=0), dev.tensor(np.array([0, 1, 2, 3, 4, -100]))
    with dev.capture() as step:
        loss = pk.cross_entropy(x, target)
    for _ in range(2):
        x[:] = dev.rand((6, 5), seed=0)
        step()
        assert loss.item() == pk.cross_entropy(x, target).item()


def test_cross_entropy_and_nll_loss_reject(dev: pk.Device) -> None:
    x, t = dev.ones((3, 4, 2)), dev.zeros((3, 2), "int32")
    told = r"target of classes must have shape \(3, 2\) for input of shape \(3, 4, 2\)"
    for function in (pk.cross_entropy, pk.nll_loss):
        name = rf"\[{function.__name__}\] "
        with pytest.raises(pk.ShapeError, match=name + told):
            function(x, t[0])
        with pytest.raises(pk.ShapeError, match=name + r"input must be \(C,\), \(N, C\) or"):
            function(dev.ones(()), t)
        with pytest.raises(
            pk.DTypeError, match=name + "input must be float32, float16 or bfloat16"
        ):
            function(t, t)
        with pytest.raises(pk.DTypeError, match=name + "weight must have the dtype of input"):
            function(x, t, dev.ones(4, "float16"))
        for wrong in ("average", 2, ["mean"]):
            with pytest.raises(pk.ArgumentError, match=name):
                function(x, t, reduction=wrong)
    with pytest.raises(pk.ShapeError, match=r"target of probabilities must have shape \(3, 4, 2\)"):
        pk.cross_entropy(x, dev.ones((3, 2, 4)))
