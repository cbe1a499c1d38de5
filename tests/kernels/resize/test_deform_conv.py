"""deform_conv2d: beside conv2d, its definition in float64, gradients, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array

pytestmark = pytest.mark.gpu


def sample(image: Array, y: float, x: float) -> Array:
    """(C,): the image between pixels; pixels outside are 0."""
    low, left = int(np.floor(y)), int(np.floor(x))
    total = np.zeros(image.shape[0])
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, col = low + i, left + j
        if 0 <= row < image.shape[1] and 0 <= col < image.shape[2]:
            share = (y - low if i else 1 - (y - low)) * (x - left if j else 1 - (x - left))
            total = total + share * image[:, row, col]
    return total


def reference(
    x: Array, offset: Array, w: Array, b: Array, mask: Array, stride: tuple[int, int],
    padding: tuple[int, int], dilation: tuple[int, int],
) -> Array:  # fmt: skip
    n, channels = x.shape[:2]
    outs, inner, kh, kw = w.shape
    groups, rows, cols = channels // inner, *offset.shape[2:]
    parts = offset.shape[1] // (2 * kh * kw)
    columns = np.zeros((n, channels, kh, kw, rows, cols))
    each = channels // parts
    for i, g, p, q, r, c in np.ndindex(n, parts, kh, kw, rows, cols):
        tap = (g * kh + p) * kw + q
        y0 = r * stride[0] - padding[0] + p * dilation[0] + offset[i, 2 * tap, r, c]
        x0 = c * stride[1] - padding[1] + q * dilation[1] + offset[i, 2 * tap + 1, r, c]
        own = slice(g * each, (g + 1) * each)
        columns[i, own, p, q, r, c] = sample(x[i, own], y0, x0) * mask[i, tap, r, c]
    columns = columns.reshape(n, groups, inner * kh * kw, rows * cols)
    y = w.reshape(groups, outs // groups, -1).astype("f8") @ columns
    found: Array = y.reshape(n, outs, rows, cols) + b[:, None, None]
    return found


OPTIONS = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}


def arguments(rng: np.random.Generator, dtype: str = "f4") -> list[Array]:
    """Two groups of channels, four of weights."""
    shapes = ((2, 8, 7, 6), (2, 2 * 2 * 6, 4, 6), (4, 2, 2, 3), (4,), (2, 2 * 6, 4, 6))
    return [rng.normal(size=s).astype(dtype) for s in shapes]


@pytest.mark.parametrize(("dtype", "bound"), [("f4", 4e-6), ("f2", 2e-3)])
def test_it_is_its_definition(dev: pk.Device, dtype: str, bound: float) -> None:
    given = arguments(np.random.default_rng(0), dtype)
    x, offset, w, b, mask = given
    want = reference(*[a.astype("f8") for a in given], **OPTIONS)
    got = pk.deform_conv2d(x, offset, w, b, mask=mask, **OPTIONS)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound * np.abs(want).max())
    turned = dev.tensor(np.ascontiguousarray(x.T)).T
    views = pk.deform_conv2d(turned, dev.tensor(offset), dev.tensor(w[::-1])[::-1], dev.tensor(b),
                             mask=dev.tensor(mask), **OPTIONS)  # fmt: skip
    assert (views.numpy() == got).all()


def test_without_offsets_it_is_a_convolution(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.integers(-4, 5, (1, 3, 5, 6)).astype("f4"), rng.integers(-4, 5, (2, 3, 3, 3))
    found = pk.deform_conv2d(x, np.zeros((1, 18, 5, 6), "f4"), w.astype("f4"), padding=1)
    assert (found == pk.conv2d(x, w.astype("f4"), padding=1)).all()


def test_gradients(dev: pk.Device) -> None:
    """By differences in float64, along a direction of each argument."""
    rng = np.random.default_rng(2)
    given = arguments(rng)
    wide = [a.astype("f8") for a in given]
    dy = rng.normal(size=(2, 4, 4, 6))
    x, offset, w, b, mask = (dev.tensor(a) for a in given)
    with pk.Tape() as tape:
        y = pk.deform_conv2d(x, offset, w, b, mask=mask, **OPTIONS)
    grads = tape.gradient(y, [x, offset, w, b, mask], dev.tensor(dy.astype("f4")))
    for i, found in enumerate(grads):
        way, h = rng.normal(size=given[i].shape), 1e-7
        ends = []
        for side in (h, -h):
            moved = [a + side * way if j == i else a for j, a in enumerate(wide)]
            ends.append((reference(*moved, **OPTIONS) * dy).sum())
        terms = found.numpy() * way
        assert abs(terms.sum() - (ends[0] - ends[1]) / (2 * h)) < 1e-5 * (np.abs(terms).sum() + 1)


def test_what_is_refused(dev: pk.Device) -> None:
    x, offset, w, b, mask = (dev.tensor(a) for a in arguments(np.random.default_rng(3)))
    with pytest.raises(pk.ShapeError, match=r"offset must be \(2, 12 G, 6, 2\) with G a divisor"):
        pk.deform_conv2d(x, offset, w, stride=(1, 2))
    with pytest.raises(pk.ShapeError, match=r"mask must have shape \(2, 12, 4, 6\)"):
        pk.deform_conv2d(x, offset, w, mask=mask[:, :6], **OPTIONS)
    with pytest.raises(pk.ShapeError, match="weight must divide 8 channels"):
        pk.deform_conv2d(x, offset, dev.zeros((4, 3, 2, 3)), **OPTIONS)
    wrong: Any = (1, 2, 3)
    with pytest.raises(pk.ArgumentError, match="stride must be an integer or two"):
        pk.deform_conv2d(x, offset, w, stride=wrong)
    with pytest.raises(pk.ArgumentError, match="padding must be from 0 up"):
        pk.deform_conv2d(x, offset, w, padding=-1)
    with pytest.raises(
        pk.DTypeError, match=r"\[deform_conv2d\] bias must be float32, float16 or bfloat16"
    ):
        pk.deform_conv2d(x, offset, w, b.astype("int32"), **OPTIONS)
