"""meshgrid beside numpy's."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

VECTORS = [np.array([1, 2, 3], "f4"), np.array([4, 5], "i4"), np.array([True]), np.zeros(0, "f2")]


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_is_numpys(dev: pk.Device, indexing: Literal["xy", "ij"]) -> None:
    number = np.array(7, "f4")
    for xi in ([], *[VECTORS[:n] for n in range(1, 5)], VECTORS[1:], [number, *VECTORS[:2]]):
        want = np.meshgrid(*xi, indexing=indexing)
        tensors = [dev.tensor(x) for x in xi]
        for given in (xi, tensors, [*tensors[:1], *xi[1:]]):
            got = pk.meshgrid(*given, indexing=indexing)
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                assert isinstance(g, pk.Tensor) == (given is not xi) and str(g.dtype) == str(
                    w.dtype
                )
                np.testing.assert_array_equal(np.asarray(g), w, strict=True)


def test_grids_are_views(dev: pk.Device) -> None:
    x, y = dev.tensor(np.array([1, 2, 3], "f4")), dev.tensor(np.array([4, 5], "f4"))
    grids = pk.meshgrid(x, y)
    assert [g.strides for g in grids] == [(0, 4), (4, 0)]
    with pk.Tape() as tape:
        a, b = pk.meshgrid(x, y)
        loss = pk.sum(a * b)
    dx, dy = tape.gradient(loss, [x, y])
    assert dx.numpy().tolist() == [9, 9, 9] and dy.numpy().tolist() == [6, 6]


def test_meshgrid_refuses(dev: pk.Device) -> None:
    x = dev.ones(3)
    with pytest.raises(pk.ShapeError, match=r"\[meshgrid\] xi must have one axis each"):
        pk.meshgrid(x, dev.ones((2, 2)))
    with pytest.raises(pk.ArgumentError, match="indexing must be 'xy' or 'ij' but is 'yx'"):
        pk.meshgrid(x, indexing="yx")  # type: ignore[call-overload]
    with pytest.raises(pk.DTypeError, match="but is float"):
        pk.meshgrid(x, 1.0)  # type: ignore[call-overload]
