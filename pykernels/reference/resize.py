"""resize, im2col and col2im, in float64."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["col2im", "col2im_budget", "im2col", "resize", "resize_budget"]

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
    """Roundings of weights, products and sums, times the largest magnitude near each pixel."""
    if mode == "nearest":
        return np.zeros(shape)
    out = np.abs(x.astype(np.float64))
    units = 0.0
    for axis in (-2, -1):
        size = x.shape[axis], shape[axis]
        index, weights = _taps(*size, mode, coordinates, nearest, antialias)
        out = np.moveaxis(np.moveaxis(out, axis, -1)[..., index].max(-1), -1, axis)
        if antialias:  # also the error of the sum of weights, which are off by some units
            units += 16 + index.shape[-1] ** 0.5
            out *= np.abs(weights).sum(-1).max()
    return out.reshape(shape) * (units or (32 if mode == "cubic" else 12)) * 2.0**-23


def _taps(
    size: int, out: int, mode: str, coordinates: str, nearest: str, antialias: bool
) -> tuple[Array, Array]:
    """Pixels and their weights, (out, taps) each."""
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
    """Keys' cubic at a distance."""
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _pair(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _windows(
    size: tuple[int, int], kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
) -> Any:
    """For rows and columns: the position of each tap (taps, windows) in the padded image."""
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
    """Sums of (N, C KH KW, OH OW) in an image of `shape`."""
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
