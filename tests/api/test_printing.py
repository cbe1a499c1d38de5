"""Tensors as text: their values, shortened as numpy's, and formats of one element."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

X = np.array([[1, 2.5], [-3, 0.125]], "f4")


def values(t: pk.Tensor) -> str:
    head, _, rest = repr(t).partition(":")
    assert head.startswith("<pykernels.Tensor ") and str(t) == repr(t) == f"{t}"
    return rest[1:-1]


def test_values_are_numpys(dev: pk.Device) -> None:
    t = dev.tensor(X)
    assert "float32 (2, 2)" in repr(t) and values(t) == np.array2string(X, separator=", ")
    for view, want in ((t.T, X.T), (t[:, ::-1], X[:, ::-1]), (t[1, 1], X[1, 1])):
        assert values(view) == np.array2string(want, separator=", ")
    assert values(t > 0) == np.array2string(X > 0, separator=", ")
    assert values(dev.zeros((0, 3))) == "[]"
    assert values(t.astype("bfloat16")) == np.array2string(X, separator=", ")


@pytest.mark.parametrize("shape", [(1001,), (40, 50), (3, 500), (8, 9, 20)])
def test_large_ones_are_shortened(shape: tuple[int, ...], dev: pk.Device) -> None:
    a = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    a[(-1,) * len(shape)] = 0.5
    for dtype in ("float32", "float16", "bfloat16"):
        t = dev.tensor(a, dtype)
        want = t.astype("float32").numpy()
        assert values(t) == np.array2string(want, separator=", ")
        assert values(t.T) == np.array2string(want.T, separator=", ")


def test_one_read(dev: pk.Device) -> None:
    t = dev.zeros((64, 64))
    dev.sync()
    before = dev.submits
    repr(t)
    assert dev.submits <= before + 2  # the corners, and the read
    with pk.Tape() as tape:
        tape.watch(t)
        repr(t), repr(t.T)
    assert len(tape) == 0


def test_where_values_cannot_be_read(dev: pk.Device) -> None:
    t = dev.tensor(X)
    with dev.capture() as program:
        y = t + 1
        assert repr(t).endswith(">") and ":" not in repr(t).partition(" on ")[0]
        assert "2.5" not in repr(t)
    assert "2.5" not in repr(y)  # it has not run
    program()
    assert "3.5" in repr(y)


def test_formats(dev: pk.Device) -> None:
    t = dev.tensor(X)
    assert f"{t[0, 1]:.3f}" == "2.500" and f"{t[0, 1]:8.2e}" == "2.50e+00"
    assert f"{dev.tensor([7], 'int32'):04d}" == "0007"
    with pytest.raises(TypeError, match=r"the format '\.3f' needs a tensor of one element"):
        f"{t:.3f}"
