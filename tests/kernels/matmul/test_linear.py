"""linear: x @ w.T + b over the product's kernels, for any axes of x."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import assert_same_bits

pytestmark = pytest.mark.gpu


def test_linear(dev: pk.Device) -> None:
    """Small integers are exact; one product whatever the leading axes are."""
    rng = np.random.default_rng(0)
    w, b = rng.integers(-9, 9, (6, 12)).astype("f4"), rng.integers(-9, 9, 6).astype("f4")
    for lead in ((), (5,), (2, 3, 4), (0,)):
        x = rng.integers(-9, 9, (*lead, 12)).astype("f4")
        t = dev.tensor(x)
        assert_same_bits(pk.linear(t, w).numpy(), x @ w.T)
        for _ in range(2):  # the second time on layouts that are known
            got = pk.linear(t, dev.tensor(w), dev.tensor(b))
            assert_same_bits(got.numpy(), x @ w.T + b)
        array = pk.linear(x, w, b, activation="relu")
        assert isinstance(array, np.ndarray)
        assert_same_bits(array, np.maximum(x @ w.T + b, 0))
    x = rng.integers(-9, 9, (3, 2, 12)).astype("f4")
    turned = dev.tensor(x.transpose(2, 0, 1)).transpose(1, 2, 0)
    out = dev.empty((3, 2, 6))
    assert pk.linear(turned, dev.tensor(w), b, out=out) is out
    assert_same_bits(out.numpy(), x @ w.T + b)
    assert_same_bits(pk.linear(x, w[0], np.array(2, "f4")).reshape(3, 2), x @ w[0] + 2)
    assert pk.linear(x.astype("f2"), w.astype("f2")).dtype == np.float16


def test_linear_rejects(dev: pk.Device) -> None:
    x, w = dev.zeros((3, 4)), dev.zeros((5, 4))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.linear(x, w.T), pk.ShapeError, r"\[linear\] x must be \(..., k\) and w"),
        (lambda: pk.linear(x, w[None]), pk.ShapeError, r"\[linear\] x must be \(..., k\) and w"),
        (lambda: pk.linear(x, w, x[0]), pk.ShapeError, r"\[linear\] b must have shape \(5,\)"),
        (lambda: pk.linear(x, [1]), pk.DTypeError, r"\[linear\] w must be a pykernels.Tensor"),  # type: ignore[call-overload]
        (lambda: pk.linear(x, w, out=x), pk.ShapeError, "out must have shape"),
        (lambda: pk.linear(x, w, out=dev.zeros((3, 5), "int32")), pk.DTypeError, "must be float32"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
