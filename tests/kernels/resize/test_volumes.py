"""resize and interpolate of volumes: values by axes, views, gradients, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.resize import resize
from tests.harness import Array

pytestmark = pytest.mark.gpu

COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


def reference(x: Array, size: tuple[int, int, int], *options: Any) -> Array:
    """Planes, and then columns of planes, in float64."""
    planes = resize(x, (*x.shape[:-2], *size[1:]), *options)
    columns = np.moveaxis(planes, -3, -1)  # (..., H, W, D)
    found = resize(columns, (*columns.shape[:-1], size[0]), *options)
    return np.moveaxis(found, -1, -3)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_resize_of_volumes(dev: pk.Device, mode: Any, coordinates: Any) -> None:
    rng = np.random.default_rng(0)
    for size in ((5, 9, 4), (2, 3, 11), (4, 6, 5), (1, 1, 1)):
        x = rng.normal(size=(2, 4, 6, 5)).astype("f4")
        want = reference(x, size, mode, coordinates)
        got = pk.resize(dev.tensor(x), size, mode, coordinates=coordinates)
        # Three sums of up to four weighted pixels.
        np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=2.0**-20 * np.abs(x).max())
        half = pk.resize(x.astype("f2"), size, mode, coordinates=coordinates)
        want = reference(x.astype("f2").astype("f8"), size, mode, coordinates)
        assert half.dtype == np.float16
        np.testing.assert_allclose(half, want, rtol=2.0**-10, atol=2.0**-20 * np.abs(x).max())


def test_smooth_volumes_and_areas(dev: pk.Device) -> None:
    x = np.random.default_rng(1).normal(size=(3, 8, 6, 9)).astype("f4")
    want = reference(x, (3, 4, 5), "linear", "half_pixel", "round_prefer_floor", True)
    np.testing.assert_allclose(pk.resize(x, (3, 4, 5), antialias=True), want, rtol=0, atol=5e-6)
    got = pk.resize(x, (4, 2, 3), "area")
    want = x.reshape(3, 4, 2, 2, 3, 3, 3).mean((2, 4, 6), dtype="f8")
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


def test_views_and_out(dev: pk.Device) -> None:
    x = np.random.default_rng(2).normal(size=(6, 5, 2, 4)).astype("f4")
    out = dev.zeros((2, 3, 14, 4))[:, :, ::2]
    view = dev.tensor(x).transpose(2, 3, 1, 0)[:, ::-1]
    pk.resize(view, (3, 7, 4), out=out)
    want = reference(x.transpose(2, 3, 1, 0)[:, ::-1], (3, 7, 4))
    np.testing.assert_allclose(out.numpy(), want, rtol=0, atol=5e-6)


# By the positions that torch documents, of arange(8) as (1, 1, 2, 2, 2) with the size (3, 1, 2).
@pytest.mark.parametrize(
    ("mode", "aligned", "want"),
    [
        ("trilinear", False, [1, 2, 3, 4, 5, 6]), ("trilinear", True, [0, 1, 2, 3, 4, 5]),
        ("nearest", False, [0, 1, 0, 1, 4, 5]), ("nearest-exact", False, [2, 3, 6, 7, 6, 7]),
        ("area", False, [1, 2, 3, 4, 5, 6]),
    ],
)  # fmt: skip
def test_interpolate_has_torchs_corners(
    dev: pk.Device, mode: str, aligned: bool, want: list[float]
) -> None:
    x = np.arange(8, dtype="f4").reshape(1, 1, 2, 2, 2)
    got = pk.interpolate(dev.tensor(x), (3, 1, 2), mode=mode, align_corners=aligned)
    np.testing.assert_allclose(got.numpy().reshape(-1), want, rtol=1e-6, atol=1e-6)
    doubled = pk.interpolate(x, scale_factor=2, mode="nearest")
    assert (doubled == x.repeat(2, 2).repeat(2, 3).repeat(2, 4)).all()


def test_gradients(dev: pk.Device) -> None:
    rng = np.random.default_rng(3)
    x, dy = rng.normal(size=(2, 3, 4, 5)).astype("f4"), rng.normal(size=(2, 5, 3, 7)).astype("f4")
    t = dev.tensor(x)
    with pk.Tape() as tape:
        y = pk.resize(t, (5, 3, 7))
    found = tape.gradient(y, t, dev.tensor(dy)).numpy()
    way = rng.normal(size=x.shape)  # it is linear in x
    assert (found * way).sum() == pytest.approx((reference(way, (5, 3, 7)) * dy).sum(), rel=1e-4)


def test_what_is_refused(dev: pk.Device) -> None:
    x = dev.zeros((2, 3, 4, 5))
    with pytest.raises(pk.ArgumentError, match="layout must be 'chw' for volumes"):
        pk.resize(x, (1, 2, 3), layout="hwc")
    with pytest.raises(pk.ShapeError, match="x must have three or more axes"):
        pk.resize(x[0, 0], (1, 2, 3))
    with pytest.raises(pk.DTypeError, match=r"\[resize\] x must be float32, float16 or bfloat16"):
        pk.resize(x.astype("uint8"), (1, 2, 3))
    with pytest.raises(pk.ArgumentError, match="mode area takes no coordinates"):
        pk.resize(x, (1, 2, 3), "area", antialias=True)
    with pytest.raises(pk.ShapeError, match="5 axes for trilinear"):
        pk.interpolate(x, 3, mode="trilinear")
