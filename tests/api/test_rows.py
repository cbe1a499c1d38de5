"""pk.set_rows, pk.get_rows and pk.embedding: numpy or tensors in and out, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.rows import get_rows as get_reference
from pykernels.reference.rows import set_rows as set_reference

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def _needs_an_adapter(dev: pk.Device) -> None:
    """The column's driver is there; numpy arguments run on wgpu's default device."""


def normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(0).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("shape", ((), (3,), (2, 0), (2, 3, 4)))
def test_embedding_of_any_index(dev: pk.Device, shape: tuple[int, ...]) -> None:
    weight = normal(7, 6)
    index = np.random.default_rng(1).integers(0, 7, shape)
    got = pk.embedding(weight, np.asarray(index))
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, weight[index])
    for dtype in ("i4", "i8"):
        places = np.asarray(index, dtype)
        for given in ((dev.tensor(weight), places), (weight, dev.tensor(places))):
            t = pk.embedding(*given)
            assert isinstance(t, pk.Tensor) and t.shape == (*shape, 6)
            np.testing.assert_array_equal(t.numpy(), weight[index])


def test_embedding_converts_to_out(dev: pk.Device) -> None:
    weight, index = normal(7, 6), np.array([[6, 0]])
    out = dev.empty((1, 2, 6), "float16")
    assert pk.embedding(weight, index, out=out) is out
    np.testing.assert_array_equal(out.numpy(), weight[index].astype("f2"))


def test_get_rows_of_batches(dev: pk.Device) -> None:
    for src, index in (((4, 5, 6), (4, 3)), ((5, 6), (4, 3)), ((4, 5, 6), (3,)),
                       ((2, 5, 6), (4, 3)), ((2, 1, 5, 6), (4, 3)),
                       ((0, 5, 6), (1, 3))):  # fmt: skip
        x, places = normal(*src), np.random.default_rng(2).integers(0, 5, index)
        lead = np.maximum(np.array((1,) * 2 + src[:-2])[-2:], ((1,) * 2 + index[:-1])[-2:])
        lead = lead[2 - max(len(src) - 2, len(index) - 1) :]
        if 0 in src:
            lead[-1] = 0
        want = get_reference(x, places, np.zeros((*lead, 3, 6), "f4"))
        got = pk.get_rows(x, places)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(pk.get_rows(dev.tensor(x), places).numpy(), want)


def test_set_rows_takes_arrays(dev: pk.Device) -> None:
    x, places, before = normal(2, 3, 6), np.array([4, 1, 0]), normal(2, 5, 6).astype("f2")
    want = set_reference(x, places, before)
    for src, index in ((x, places), (dev.tensor(x), places), (x, dev.tensor(places))):
        dst = dev.tensor(before)
        assert pk.set_rows(src, index, dst) is None  # type: ignore[func-returns-value]
        np.testing.assert_array_equal(dst.numpy(), want)


def test_what_is_out_of_range(dev: pk.Device) -> None:
    x = normal(3, 4)
    with pytest.raises(
        pk.IndexRangeError, match=r"\[embedding\] index .* is -1 at position \(0, 1\)"
    ):
        pk.embedding(x, np.array([[0, -1]]))  # at once: an array comes back
    with pytest.raises(pk.IndexRangeError, match=r"is 3 at position \(\)"):
        pk.embedding(x, np.array(3))
    assert (pk.embedding(x, np.array([1, 2])) == x[1:]).all()
    dst = dev.tensor(x)
    pk.set_rows(x, np.array([5, 0, 1]), dst)
    with pytest.raises(pk.IndexRangeError, match=r"\[set_rows\] index .* is 5 at position \(0,\)"):
        dev.sync()
    pk.set_rows(x, np.array([5, 0, 1]), dst, check=False)
    np.testing.assert_array_equal(dst.numpy()[:2], x[1:])


def test_refusals(dev: pk.Device) -> None:
    x, index = normal(3, 4), np.array([0, 1])
    with pytest.raises(
        pk.DTypeError, match=r"\[set_rows\] dst must be a pykernels.Tensor but is numpy.nd"
    ):
        pk.set_rows(x, index, x)  # type: ignore[arg-type]
    with pytest.raises(pk.DTypeError, match=r"\[embedding\] index must be .* or a numpy array"):
        pk.embedding(x, [0, 1])  # type: ignore[call-overload]
    with pytest.raises(
        pk.DTypeError, match=r"\[get_rows\] index must be int32 or int64 but is uint"
    ):
        pk.get_rows(x, index.astype("u4"))
    with pytest.raises(pk.DTypeError, match=r"\[get_rows\] src must be .* is float64"):
        pk.get_rows(x.astype("f8"), index)
    with pytest.raises(pk.ShapeError, match=r"\[embedding\] weight must have two axes"):
        pk.embedding(normal(2, 3, 4), index)
    with pytest.raises(pk.ShapeError, match=r"\[get_rows\] src must have two or more axes"):
        pk.get_rows(x, np.array(1))
    with pytest.raises(pk.ShapeError, match=r"\[get_rows\] out must have shape \(2, 4\)"):
        pk.get_rows(x, index, out=dev.zeros((2, 5)))
    with pytest.raises(pk.ShapeError, match=r"\[get_rows\] src \(..., m, k\) must repeat"):
        pk.get_rows(normal(2, 3, 4), np.zeros((3, 2), "i4"))
    with pytest.raises(pk.DTypeError, match=r"\[get_rows\] dst must have the dtype of src"):
        pk.get_rows(x, index, out=dev.zeros((2, 4), "int32"))
