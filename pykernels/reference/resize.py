"""resize, im2col and col2im, in float64."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "col2im", "col2im_budget", "im2col", "resize", "resize_budget", "roi_align",
    "roi_align_backward", "roi_align_backward_budget", "roi_align_budget",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Pair = int | tuple[int, int]


def resize(
    x: Array, shape: tuple[int, ...], mode: str = "linear", coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor", antialias: bool = False,
) -> Array:  # fmt: skip
    """x (..., H, W) sampled at the pixels of shape (..., OH, OW)."""
    out = x.astype(np.float64)
    for axis in (-2, -1):
        size = x.shape[axis], shape[axis]
        index, weights = _taps(*size, mode, coordinates, nearest, antialias)
        parts = np.moveaxis(out, axis, -1)[..., index]  # (..., out, taps)
        out = np.moveaxis((parts * weights).sum(-1), -1, axis)
    return out.reshape(shape)


def resize_budget(
    x: Array, shape: tuple[int, ...], mode: str = "linear", coordinates: str = "half_pixel",
    nearest: str = "round_prefer_floor", antialias: bool = False,
) -> Array:  # fmt: skip
    """The error: some roundings of weights, products and sums, times the largest magnitude near
    each pixel."""
    if mode == "nearest":
        return np.zeros(shape)
    out = np.abs(x.astype(np.float64))
    units = 0.0
    for axis in (-2, -1):
        size = x.shape[axis], shape[axis]
        index, weights = _taps(*size, mode, coordinates, nearest, antialias)
        out = np.moveaxis(np.moveaxis(out, axis, -1)[..., index].max(-1), -1, axis)
        # `units` includes the error of the sum of weights; each weight is off by some units
        if antialias:
            units += 16 + index.shape[-1] ** 0.5
            out *= np.abs(weights).sum(-1).max()
    return out.reshape(shape) * (units or (32 if mode == "cubic" else 12)) * 2.0**-23


def _taps(
    size: int, out: int, mode: str, coordinates: str, nearest: str, antialias: bool
) -> tuple[Array, Array]:
    """The pixels that each output reads, and their weights, both (out, taps)."""
    index, weights = [], []
    wide = max(Fraction(size, out), Fraction(1))
    for i in range(out):
        at = _position(i, size, out, coordinates)
        if antialias:
            radius = 1 if mode == "linear" else 2
            taps = list(range(size))
            away = [float(abs(at - k) / wide) for k in taps]
            value = (lambda d: 1 - d) if radius == 1 else (lambda d: _keys(d, -0.5))
            w = [value(d) if d < radius else 0.0 for d in away]
            w = [v / sum(w) for v in w]
        elif mode == "nearest":
            taps, w = [_rounded(at, nearest)], [1.0]
        elif mode == "linear":
            t = float(at - at.__floor__())
            taps, w = [at.__floor__(), at.__floor__() + 1], [1 - t, t]
        else:
            taps = [at.__floor__() + k for k in range(-1, 3)]
            w = [_keys(float(abs(at - k))) for k in taps]
        index.append([min(max(k, 0), size - 1) for k in taps])
        weights.append(w)
    return np.array(index), np.array(weights)


def _position(i: int, size: int, out: int, coordinates: str) -> Fraction:
    if coordinates == "align_corners":
        return Fraction(i * (size - 1), out - 1) if out > 1 else Fraction(0)
    if coordinates == "asymmetric":
        return Fraction(i * size, out)
    if coordinates == "pytorch_half_pixel" and out == 1:
        return Fraction(0)
    return (i + Fraction(1, 2)) * Fraction(size, out) - Fraction(1, 2)


def _rounded(at: Fraction, nearest: str) -> int:
    half = Fraction(1, 2)
    return {
        "floor": at.__floor__, "ceil": at.__ceil__,
        "round_prefer_floor": (at - half).__ceil__, "round_prefer_ceil": (at + half).__floor__,
    }[nearest]()  # fmt: skip


def _keys(d: float, a: float = -0.75) -> float:
    """The weight of cubic interpolation (Keys 1981) at a distance."""
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _pair(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _windows(
    size: tuple[int, int], kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Any:
    """For rows and for columns, the position of each tap in the padded image, (taps, windows)."""
    k, s, p, d = map(_pair, (kernel, stride, padding, dilation))
    found = []
    for a in range(2):
        n = (size[a] + 2 * p[a] - d[a] * (k[a] - 1) - 1) // s[a] + 1
        found.append(np.arange(k[a])[:, None] * d[a] + np.arange(n) * s[a])
    return found


def im2col(
    x: Array, kernel: Pair = 1, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1
) -> Array:
    """(N, C, H, W) to (N, C KH KW, OH OW), bit for bit."""
    ys, xs = _windows(x.shape[2:], kernel, stride, padding, dilation)
    ph, pw = _pair(padding)
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    found = padded[:, :, ys[:, None, :, None], xs[None, :, None, :]]  # n c i j y x
    return found.reshape(x.shape[0], x.shape[1] * ys.shape[0] * xs.shape[0], -1)


def col2im(
    x: Array, shape: tuple[int, ...], kernel: Pair = 1, stride: Pair = 1, padding: Pair = 0,
    dilation: Pair = 1,
) -> Array:  # fmt: skip
    """The columns (N, C KH KW, OH OW), added up in an image of `shape`."""
    n, c, h, w = shape
    ys, xs = _windows((h, w), kernel, stride, padding, dilation)
    ph, pw = _pair(padding)
    out = np.zeros((n, c, h + 2 * ph, w + 2 * pw))
    parts = x.astype(np.float64).reshape(n, c, len(ys), len(xs), ys.shape[1], xs.shape[1])
    for i, rows in enumerate(ys):
        for j, cols in enumerate(xs):
            out[:, :, rows[:, None], cols[None, :]] += parts[:, :, i, j]
    return out[:, :, ph : ph + h, pw : pw + w]


def col2im_budget(
    x: Array, shape: tuple[int, ...], kernel: Pair = 1, stride: Pair = 1, padding: Pair = 0,
    dilation: Pair = 1,
) -> Array:  # fmt: skip
    """The error of one rounding for each summand."""
    taps = _pair(kernel)[0] * _pair(kernel)[1]
    return 2.0**-24 * taps * col2im(np.abs(x), shape, kernel, stride, padding, dilation)


class _Box(NamedTuple):
    """Along each axis (y, x), the start of the first bin, the size of a bin, and the number of its
    samples."""

    start: Array
    bin: Array
    samples: Array

    def places(self, axis: int, bins: int) -> Array:
        """The places of the samples, (bins, samples)."""
        count = int(self.samples[axis])
        steps = np.arange(bins)[:, None] + (np.arange(count) + 0.5) / max(count, 1)
        found: Array = self.start[axis] + steps * self.bin[axis]
        return found


def _box(box: Array, bins: Pair, scale: float, ratio: int, aligned: bool) -> _Box:
    x1, y1, x2, y2 = box.astype(np.float64) * scale - (0.5 if aligned else 0)
    size = np.array([y2 - y1, x2 - x1])
    if not aligned:
        size = np.maximum(size, 1)
    each = size / np.array(bins)
    samples = np.full(2, float(ratio)) if ratio > 0 else np.maximum(np.ceil(each), 0)
    return _Box(np.array([y1, x1]), each, samples)


def _shares(places: Array, size: int) -> Array:
    """The share of each pixel in the value at a place, (..., size)."""
    at = np.clip(places, 0, size - 1)
    shares = np.maximum(0, 1 - np.abs(at[..., None] - np.arange(size)))
    found: Array = np.where((places >= -1) & (places <= size), 1, 0)[..., None] * shares
    return found


def roi_align(
    x: Array, boxes: Array, index: Array, shape: tuple[int, ...], spatial_scale: float = 1.0,
    sampling_ratio: int = 0, aligned: bool = False, mode: str = "avg",
) -> Array:  # fmt: skip
    """The value of each bin of the boxes, (R, C, OH, OW)."""
    out, bins = np.zeros(shape), (shape[2], shape[3])
    for r, n in enumerate(index):
        box = _box(boxes[r], bins, spatial_scale, sampling_ratio, aligned)
        down, across = (_shares(box.places(a, bins[a]), x.shape[2 + a]) for a in range(2))
        image = x[n].astype(np.float64)
        if mode == "avg":
            count = max(box.samples[0] * box.samples[1], 1)
            out[r] = np.einsum("pih,chw,qjw->cpq", down, image, across, optimize=True) / count
        elif box.samples.all():
            out[r] = _largest(image, down, across)
    return out


def _largest(image: Array, down: Array, across: Array) -> Array:
    """The largest product of a pixel and its share, among the four pixels of each sample."""
    found = np.full((image.shape[0], down.shape[0], across.shape[0]), -np.inf)
    for i, j in np.ndindex(down.shape[1], across.shape[1]):
        shares = down[:, i, None, :, None] * across[None, :, j, None, :]  # (p, q, h, w)
        for c in range(image.shape[0]):
            products = np.where(shares > 0, shares * image[c], -np.inf).max((-2, -1))
            # If fewer than four pixels have a share, the others count as 0.
            products = np.where((shares > 0).sum((-2, -1)) < 4, np.maximum(products, 0), products)
            found[c] = np.maximum(found[c], products)
    return found


def roi_align_budget(
    x: Array, boxes: Array, index: Array, shape: tuple[int, ...], spatial_scale: float = 1.0,
    sampling_ratio: int = 0, aligned: bool = False, mode: str = "avg",
) -> Array:  # fmt: skip
    """The place of a sample has the error of some roundings of numbers as large as the corners of
    the box, and the share of a pixel has the same error. The sum of a mean is rounded once for each
    sample."""
    out = np.zeros(shape)
    for r, n in enumerate(index):
        unit = _roundings(boxes[r], shape[2:], spatial_scale, sampling_ratio, aligned)
        out[r] = unit * np.abs(x[n]).max(initial=0)
    return out


def _roundings(box: Array, bins: tuple[int, ...], scale: float, ratio: int, aligned: bool) -> float:
    made = _box(box, (bins[0], bins[1]), scale, ratio, aligned)
    reach = np.abs(box).max() * abs(scale) + np.abs(made.bin * np.array(bins)).max() + 1
    return float(2.0**-24 * (32 * reach + made.samples[0] * made.samples[1] + 12))


def roi_align_backward(
    dy: Array, boxes: Array, index: Array, shape: tuple[int, ...], spatial_scale: float = 1.0,
    sampling_ratio: int = 0, aligned: bool = False,
) -> Array:  # fmt: skip
    """The gradient of the mean with respect to x, (N, C, H, W)."""
    out, bins = np.zeros(shape), (dy.shape[2], dy.shape[3])
    for r, n in enumerate(index):
        box = _box(boxes[r], bins, spatial_scale, sampling_ratio, aligned)
        down, across = (_shares(box.places(a, bins[a]), shape[2 + a]).sum(1) for a in range(2))
        part = np.einsum("ph,cpq,qw->chw", down, dy[r].astype(np.float64), across, optimize=True)
        out[n] += part / max(box.samples[0] * box.samples[1], 1)
    return out


def roi_align_backward_budget(
    dy: Array, boxes: Array, index: Array, shape: tuple[int, ...], spatial_scale: float = 1.0,
    sampling_ratio: int = 0, aligned: bool = False,
) -> Array:  # fmt: skip
    """The error of the mean, and a rounding for each summand of all gradients of the image."""
    out = np.zeros(shape)
    summands = dy.shape[0] * dy.shape[2] * dy.shape[3]
    for r, n in enumerate(index):
        unit = _roundings(boxes[r], dy.shape[2:], spatial_scale, sampling_ratio, aligned)
        each = np.abs(dy[r].astype(np.float64)).sum((1, 2))
        out[n] += (unit + 2.0**-24 * summands) * each[:, None, None]
    return out
