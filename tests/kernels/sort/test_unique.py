"""unique beside numpy's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool")
SHAPES = [(), (1,), (0,), (2, 0, 3), (7,), (3, 4, 5), (1000,), (4097,)]
FLAGS = ("return_index", "return_inverse", "return_counts")
ALL = dict.fromkeys(FLAGS, True)


def same(got: Any, want: Any, tensors: bool) -> None:
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert isinstance(g, pk.Tensor if tensors else np.ndarray)
        assert str(g.dtype) == (w.dtype.name if i == 0 else "int32")
        np.testing.assert_array_equal(g.numpy() if tensors else g, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unique_is_numpys(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = np.asarray(rng.integers(0, 40, shape)).astype(dtype)
        if dtype not in ("bool", "uint32", "uint16", "uint8"):
            x -= np.array(20, dtype)
        want = np.unique(x, **ALL)
        same(pk.unique(dev.tensor(x), **ALL), want, True)
        same(pk.unique(x, **ALL), want, False)
        same([pk.unique(dev.tensor(x))], want[:1], True)


def test_each_flag_alone_and_together(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(0, 5, (3, 7)).astype(np.int32)
    for chosen in itertools.product((False, True), repeat=3):
        flags: dict[str, Any] = dict(zip(FLAGS, chosen, strict=True))
        want: Any = np.unique(x[:, ::-1], **flags)
        got = pk.unique(dev.tensor(x)[:, ::-1], **flags)
        if not any(chosen):
            np.testing.assert_array_equal(got.numpy(), want)
        else:
            same(got, want, True)


def test_unique_of_a_size(dev: pk.Device) -> None:
    """More places than there are values, as many, and fewer: the first ones, and counts of 0."""
    x = np.random.default_rng(0).integers(-3, 9, 500).astype(np.int32)
    want = np.unique(x, **ALL)
    n = want[0].size
    for size in (1, n - 1, n, n + 4):
        values, index, inverse, counts = pk.unique(dev.tensor(x), size=size, **ALL)
        behind = max(size - n, 0)
        for got, full, fill in ((values, 0, want[0][0]), (index, 1, want[1][0]), (counts, 3, 0)):
            assert got.numpy().tolist() == [*want[full], *[fill] * behind][:size]
        np.testing.assert_array_equal(inverse.numpy(), want[2])
    got = pk.unique(dev.tensor(x), size=n + 2, fill_value=77)
    assert got.numpy().tolist() == [*want[0], 77, 77]
    for dtype, fill, last in (("bool", 3, True), ("int8", 2.0, 2), ("float16", np.float32(2), 2)):
        got = pk.unique(dev.tensor(np.array([1], dtype)), size=2, fill_value=fill)
        assert got.dtype == dtype and got.numpy().view(dtype).tolist() == [1, last]
        assert dtype != "bool" or got.numpy().view(np.uint8)[1] == 1
    assert pk.unique(np.float32([2, 1, 2]), size=2).tolist() == [1, 2]
    assert pk.unique(dev.zeros(0), size=0).shape == (0,)


def test_unique_of_a_size_in_a_captured_program(dev: pk.Device) -> None:
    x = dev.tensor(np.int32([4, 2, 4]))
    with dev.capture(x=x) as program:
        values, counts = pk.unique(x, size=3, return_counts=True)
    program(x=dev.tensor(np.int32([7, 7, 5])))
    assert values.numpy().tolist() == [5, 7, 5] and counts.numpy().tolist() == [1, 2, 0]


def test_unique_rejects_sizes(dev: pk.Device) -> None:
    with pytest.raises(pk.ArgumentError, match=r"\[unique\] size must be 0 or more.* but is -1"):
        pk.unique(dev.zeros(3), size=-1)
    with pytest.raises(pk.ArgumentError, match=r"\[unique\] size .* 0 for an x without elements"):
        pk.unique(dev.zeros(0), size=2)
    with pytest.raises(pk.ArgumentError, match=r"\[unique\] fill_value is for results of a size"):
        pk.unique(dev.zeros(3), fill_value=2)
    for fill in (0.5, 300):
        with pytest.raises(pk.ArgumentError, match=r"\[unique\] fill_value must be .* for int8"):
            pk.unique(dev.zeros(3, "int8"), size=2, fill_value=fill)


def test_special_values(dev: pk.Device) -> None:
    nan = np.nan
    for values in ([nan], [nan, nan], [1, nan, -np.inf, nan, 1], [np.inf, np.inf, nan],
                   [0.0, -0.0, 0.0], [-0.0, 0.0]):  # fmt: skip
        for dtype in ("float32", "float16"):
            x = np.array(values, dtype)
            same(pk.unique(dev.tensor(x), **ALL), np.unique(x, **ALL), True)


def test_gradients_go_to_the_first_of_its_value(dev: pk.Device) -> None:
    x = dev.tensor(np.array([3, 1, 3, 2, 1], np.float32))
    with pk.Tape() as tape:
        loss = pk.sum(pk.unique(x) * dev.tensor(np.array([10, 20, 30], np.float32)))
    np.testing.assert_array_equal(tape.gradient(loss, x).numpy(), [30, 10, 0, 20, 0])


def test_unique_refuses(dev: pk.Device) -> None:
    x = dev.ones(5)
    with pytest.raises(pk.BufferStateError, match=r"\[unique\]"), dev.capture():
        pk.unique(x)
    with pytest.raises(pk.DTypeError, match=r"\[unique\] x must be .* but is float64"):
        pk.unique(np.zeros(3))
    with pytest.raises(pk.ArgumentError, match="return_counts must be"):
        pk.unique(x, return_counts="yes")  # type: ignore[call-overload]
