"""grid_sample against torch's definition, pixel by pixel in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array

pytestmark = pytest.mark.gpu
PADDINGS = ("zeros", "border", "reflection")


def place(v: float, n: int, padding: str, corners: bool) -> float:
    v = (v + 1) / 2 * (n - 1) if corners else ((v + 1) * n - 1) / 2
    if padding == "reflection":
        low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
        if span == 0:
            return 0.0
        times, rest = divmod(abs(v - low), span)
        v = (span - rest if times % 2 else rest) + low
    return v if padding == "zeros" else min(max(v, 0.0), n - 1.0)


def cubic(away: float, a: float = -0.75) -> float:
    d = abs(away)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


def near(v: float, n: int, mode: str, padding: str, corners: bool) -> list[tuple[float, float]]:
    """Pixels along an axis, and their shares."""
    if mode == "bicubic":  # each neighbour is folded, not the place
        centre = place(v, n, "zeros", corners)
        found = []
        for k in range(-1, 3):
            at = np.floor(centre) + k
            back = 2 * at / max(n - 1, 1) - 1 if corners else (2 * at + 1) / n - 1
            found.append((float(np.round(place(back, n, padding, corners), 6)), cubic(at - centre)))
        return found
    at = place(v, n, padding, corners)
    if mode == "nearest":
        return [(float(np.round(at)), 1.0)]
    return [(np.floor(at) + k, 1 - abs(at - np.floor(at) - k)) for k in (0, 1)]


def reference(x: Array, grid: Array, mode: str, padding: str, corners: bool) -> Array:
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *at in np.ndindex(grid.shape[:-1]):
        row = grid[(n, *at)][::-1]
        axes = [near(float(v), m, mode, padding, corners) for v, m in zip(row, sizes, strict=True)]
        for corner in itertools.product(*axes):
            if all(0 <= i < m for (i, _), m in zip(corner, sizes, strict=True)):
                share = np.prod([part for _, part in corner])
                pixel = x[(n, slice(None), *(int(i) for i, _ in corner))]
                out[(n, slice(None), *at)] += pixel * share
    return out


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_is_torchs(dev: pk.Device, mode: Any, padding: Any) -> None:
    rng = np.random.default_rng(0)
    for corners, shape in itertools.product((False, True), ((2, 3, 4, 5), (1, 1, 1, 3))):
        x = rng.normal(0, 1, shape).astype("f4")
        grid = rng.uniform(-2.6, 2.6, (shape[0], 3, 4, 2)).astype("f4")
        want = reference(x, grid.astype("f8"), mode, padding, corners)
        got = pk.grid_sample(dev.tensor(x), dev.tensor(grid), mode, padding, corners)
        assert isinstance(got, pk.Tensor) and got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)
        half = pk.grid_sample(dev.tensor(x, "float16"), dev.tensor(grid), mode, padding, corners)
        assert half.dtype == "float16"


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_of_volumes(dev: pk.Device, mode: Any, padding: Any) -> None:
    rng = np.random.default_rng(0)
    for corners, shape in itertools.product((False, True), ((2, 2, 3, 4, 5), (1, 1, 1, 2, 1))):
        x = rng.normal(0, 1, shape).astype("f4")
        grid = rng.uniform(-1.9, 1.9, (shape[0], 2, 2, 3, 3)).astype("f4")
        want = reference(x, grid.astype("f8"), mode, padding, corners)
        got = pk.grid_sample(dev.tensor(x), dev.tensor(grid), mode, padding, corners)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)


def test_what_is_far_outside_is_zero(dev: pk.Device) -> None:
    x = dev.ones((1, 1, 2, 2))
    far = np.array([np.nan, np.inf, -np.inf, 1e30, -1e9, 0], "f4")
    grid = np.stack([far, np.zeros(6, "f4")], -1)[None, None]
    assert pk.grid_sample(x, dev.tensor(grid)).numpy().tolist() == [[[[0, 0, 0, 0, 0, 1]]]]
    x = dev.tensor(np.array([[[[np.nan, 1.0]]]], "f4"))
    one = dev.tensor(np.array([[[[0.5, 0.0]]]], "f4"))
    assert pk.grid_sample(x, one).numpy().tolist() == [[[[1.0]]]], "a NaN beside it"


def test_gradients_of_grid_sample(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    x = dev.tensor(rng.normal(0, 1, (1, 2, 3, 3)).astype("f4"))
    # Between pixels, of which gradients jump: in these units pixels are at whole numbers.
    places = rng.integers(-2, 2, (1, 2, 2, 2)) + rng.uniform(0.2, 0.4, (1, 2, 2, 2))
    grid = dev.tensor(places.astype("f4"))
    for mode in ("bilinear", "nearest", "bicubic"):
        pk.check_gradients(
            lambda x, g, m=mode: pk.grid_sample(x, g, m, "reflection", True), (x, grid)
        )
    x = dev.tensor(rng.normal(0, 1, (1, 1, 3, 3, 3)).astype("f4"))
    places = rng.integers(-2, 2, (1, 1, 2, 2, 3)) + rng.uniform(0.2, 0.4, (1, 1, 2, 2, 3))
    grid = dev.tensor(places.astype("f4"))
    pk.check_gradients(lambda x, g: pk.grid_sample(x, g, "bilinear", "reflection", True), (x, grid))


def test_grid_sample_refuses(dev: pk.Device) -> None:
    x, grid = dev.ones((1, 1, 2, 2)), dev.zeros((1, 2, 2, 2))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.grid_sample(x, grid, "area"), pk.ArgumentError, "mode must be"),  # type: ignore[arg-type]
        (lambda: pk.grid_sample(x[None], dev.zeros((1, 1, 2, 2, 3)), "bicubic"), pk.ArgumentError,
         "for volumes"),
        (lambda: pk.grid_sample(x, grid, padding_mode="wrap"), pk.ArgumentError, "padding_mode"),  # type: ignore[arg-type]
        (lambda: pk.grid_sample(x[0], grid), pk.ShapeError, "input must be"),
        (lambda: pk.grid_sample(x, grid[..., :1]), pk.ShapeError, "grid must have shape"),
        (lambda: pk.grid_sample(x, dev.zeros((1, 2, 2, 2), "int32")), pk.DTypeError, "grid"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
