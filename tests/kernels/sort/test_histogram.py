"""histogram beside numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu


def check(dev: pk.Device, x: Any, *args: Any) -> None:
    counts, edges = np.histogram(x, *args)
    for given in (x, dev.tensor(x)):
        found = pk.histogram(given, *args)
        c, e = (np.asarray(f) for f in found)
        assert all(isinstance(f, pk.Tensor) == (given is not x) for f in found)
        assert (c.dtype, e.dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(c, counts)
        np.testing.assert_allclose(e, edges, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int8"])
def test_histogram_is_numpys(dev: pk.Device, dtype: str) -> None:
    """Of multiples of 1/4, whose edges are exact in every dtype."""
    rng = np.random.default_rng(0)
    for shape in ((), (1,), (7,), (3, 4, 5), (10_001,)):
        x = np.asarray(rng.integers(0, 65, shape) * (0.25 if dtype[0] == "f" else 1)).astype(dtype)
        for args in ((8, (0, 16)), (1, (2, 3)), (4, (-4, 4)), (4, (5, 5)), ([0, 4, 8],),
                     ([1, 1, 2],), ([0, 1, 1],), (np.array([-3.0, 2, 16, 100]),)):  # fmt: skip
            check(dev, x, *args)
    check(dev, np.array([0, 16, 3, 16, 4], dtype), 4)
    check(dev, np.array([0, 10, 3, 10, 4], dtype))
    check(dev, np.array([7, 7], dtype), 2)
    check(dev, np.zeros(0, dtype), 4)
    check(dev, np.zeros((0, 2), dtype), [1, 2, 4])


def test_random_numbers(dev: pk.Device) -> None:
    x = np.random.default_rng(0).normal(0, 1, 5000).astype(np.float32)
    check(dev, x, 64)
    check(dev, x, np.linspace(-2, 2, 33, dtype=np.float32))


def test_what_no_bin_has(dev: pk.Device) -> None:
    x = np.array([np.nan, -np.inf, np.inf, -1e-30, 0, 1, 1.0000001], np.float32)
    check(dev, x, 2, (0, 1))
    check(dev, x - 1, [-1, 0])


def test_edges_on_the_device(dev: pk.Device) -> None:
    x, edges = np.array([0, 1, 2, 3], np.float32), np.array([0, 2, 3], np.float32)
    for given in (x, dev.tensor(x)):
        counts, same = pk.histogram(given, dev.tensor(edges))
        assert isinstance(counts, pk.Tensor) and counts.numpy().tolist() == [2, 2]
        assert same.numpy().tolist() == edges.tolist()


def test_captures_take_a_range(dev: pk.Device) -> None:
    x = dev.tensor(np.array([0, 1, 2, 3], np.float32))
    with pytest.raises(pk.BufferStateError, match="histogram without a range"), dev.capture():
        pk.histogram(x, 4)


def test_histogram_refuses(dev: pk.Device) -> None:
    x: Any = dev.ones((3, 4))
    refused: list[tuple[type[Exception], str, Any]] = [
        (pk.ArgumentError, "bins must be from 1", lambda: pk.histogram(x, 0)),
        (pk.ArgumentError, "bins must be an integer", lambda: pk.histogram(x, "auto")),
        (pk.ArgumentError, "bins must ascend", lambda: pk.histogram(x, [1, 0])),
        (pk.DTypeError, "bins must be numbers", lambda: pk.histogram(x, ["a", "b"])),
        (pk.ShapeError, "bins must be two edges", lambda: pk.histogram(x, [1])),
        (pk.ShapeError, "bins must be two edges", lambda: pk.histogram(x, np.ones((2, 2)))),
        (pk.ArgumentError, "range must be two numbers", lambda: pk.histogram(x, 4, 3)),
        (pk.ArgumentError, "range must be finite", lambda: pk.histogram(x, 4, (2, 1))),
        (pk.ArgumentError, "range must be finite", lambda: pk.histogram(x * np.nan, 4)),
        (pk.DTypeError, "x must be float32", lambda: pk.histogram(np.zeros(3))),
    ]
    for error, told, call in refused:
        with pytest.raises(error, match=rf"\[histogram\] {told}"):
            call()
