"""Calls on tensors that are larger than a storage binding: in parts, with the bits of the whole.

WebGPU's default is 128 MiB; here it is a few KiB, so that small tensors do not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from tests.harness import caps

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
SMALL = 1 << 14


def both(
    dev: pk.Device, call: Callable[[], pk.Tensor], least: int, most: int = SMALL
) -> tuple[Array, Array]:
    """What the call gives as one and in parts, which are `least` dispatches or more."""
    whole = call().numpy()
    with caps(dev, max_binding=most), dev.profile() as p:
        parts = call().numpy()
    assert len(p.records) >= least
    return whole, parts


def scanned(dev: pk.Device, kernel: str, x: pk.Tensor, axis: int = 1) -> Callable[[], pk.Tensor]:
    def call() -> pk.Tensor:
        dst = dev.empty(x.shape, x.dtype)
        pair = (x, dst) if axis == 1 else (x.transpose(1, 0), dst.transpose(1, 0))
        getattr(kernels, kernel)(*pair)
        return dst

    return call


@pytest.mark.parametrize("kernel", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("shape", "axis", "least"),
    [((300, 70), 1, 2), ((1, 50_000), 1, 5), ((2, 40_001), 1, 6), ((3000, 40), 0, 5)],
    ids=["rows", "one_row", "odd_rows", "columns"],
)
def test_scans(
    dev: pk.Device, kernel: str, dtype: str, shape: tuple[int, int], axis: int, least: int
) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(-9, 9, shape) if dtype == "int32" else rng.uniform(0.99, 1.01, shape)
    x = dev.tensor(values.astype(dtype))
    _, parts = both(dev, scanned(dev, kernel, x, axis), least)
    f = np.cumsum if kernel == "cumsum" else np.cumprod
    if dtype == "int32":
        wrapped = f(values.astype(np.uint32), axis=axis, dtype=np.uint32)
        assert np.array_equal(parts.view(np.uint32), wrapped)
    else:
        want = f(x.numpy().astype(np.float64), axis=axis)
        assert np.allclose(parts, want, rtol=1e-4, atol=0)


@pytest.mark.parametrize("cols", [50_000, 50_001])
def test_a_long_row_has_the_bits_of_the_whole(dev: pk.Device, cols: int) -> None:
    x = dev.tensor(np.random.default_rng(1).standard_normal((1, cols), np.float32))
    whole, parts = both(dev, scanned(dev, "cumsum", x), 5)
    assert np.array_equal(whole, parts)


def test_fill_with_gaps(dev: pk.Device) -> None:
    def call() -> pk.Tensor:
        base = dev.zeros((200, 100), "float32")
        kernels.fill(base[:, :77], 3.0)
        return base

    whole, parts = both(dev, call, 5)
    assert np.array_equal(whole, parts) and whole[:, :77].all() and not whole[:, 77:].any()


def test_pad_of_a_border_that_is_large(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(3000, dtype=np.float32).reshape(1000, 3))
    whole, parts = both(dev, lambda: pk.pad(x, ((0, 0), (0, 9))), 3)
    assert np.array_equal(whole, parts) and not whole[:, 3:].any()


def test_top_k_of_many_rows(dev: pk.Device) -> None:
    x = dev.tensor(np.random.default_rng(2).standard_normal((64, 300), np.float32))
    for which in (0, 1):
        whole, parts = both(dev, lambda: pk.top_k(x, 7)[which], 4)  # noqa: B023
        assert np.array_equal(whole, parts)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_gather_along_an_axis_that_is_far(dev: pk.Device, dtype: str) -> None:
    """The elements of a column lie further apart than a binding reaches; a column would fit."""
    rng = np.random.default_rng(3)
    x = dev.tensor(rng.integers(0, 200, (500, 90)).astype(dtype))
    index = dev.tensor(rng.integers(0, 500, (40, 90)).astype(np.int32))

    whole, parts = both(dev, lambda: pk.gather(x, 0, index), 8)
    assert np.array_equal(whole, np.take_along_axis(x.numpy(), index.numpy(), 0))
    assert np.array_equal(whole, parts)


@pytest.mark.parametrize("distinct", [False, True])
def test_scatter_along_an_axis_that_is_far(dev: pk.Device, distinct: bool) -> None:
    rng = np.random.default_rng(4)
    x = dev.tensor(rng.standard_normal((500, 90), np.float32))
    places = rng.permuted(np.tile(np.arange(500)[:, None], (1, 90)), axis=0)[:40]
    if not distinct:
        places[20:] = places[:20]
    index = dev.tensor(places.astype(np.int32))
    src = dev.tensor(rng.standard_normal((40, 90), np.float32))

    whole, parts = both(dev, lambda: pk.scatter(x, 0, index, src, distinct=distinct), 8, 2 * SMALL)
    want = x.numpy()
    for i in range(40):
        np.put_along_axis(want, places[i : i + 1], src.numpy()[i : i + 1], 0)
    assert np.array_equal(whole, want)
    assert np.array_equal(parts, want)


def test_wrong_indices_of_a_far_axis_are_reported(dev: pk.Device) -> None:
    x = dev.zeros((500, 90), "float32")
    places = np.zeros((40, 90), np.int32)
    places[17, 80] = 500
    index = dev.tensor(places)
    with caps(dev, max_binding=SMALL):
        pk.gather(x, 0, index)
        with pytest.raises(pk.IndexRangeError, match="500"):
            dev.sync()
