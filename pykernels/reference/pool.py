"""Pools and their gradients: maxima are exact, all else is computed in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool2d_backward", "adaptive_max_pool2d",
    "adaptive_max_pool2d_backward", "avg_pool2d", "avg_pool2d_backward", "max_pool2d",
    "max_pool2d_backward",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Pair = int | tuple[int, int]
# For each output row or column: its window in the image, and the number by which a mean divides.
Axis = list[tuple[range, int]]


def max_pool2d(
    x: Array, shape: tuple[int, ...], kernel: Pair = 1, stride: Pair | None = None,
    padding: Pair = 0, dilation: Pair = 1, index: Array | None = None,
) -> Any:  # fmt: skip
    """The largest elements of windows of x (N, C, H, W), (N, C, OH, OW) in the dtype of x; with
    an `index` also their first positions in H x W, -1 if a window has none."""
    found = _largest(x, _windows(x.shape, shape, kernel, stride, padding, dilation))
    return found[0] if index is None else found


def adaptive_max_pool2d(x: Array, shape: tuple[int, ...], index: Array | None = None) -> Any:
    """The same as max_pool2d, with windows that divide an image."""
    found = _largest(x, _divided(x.shape, shape))
    return found[0] if index is None else found


def avg_pool2d(
    x: Array, shape: tuple[int, ...], kernel: Pair = 1, stride: Pair | None = None,
    padding: Pair = 0, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """The means of windows of x (N, C, H, W), in the shape (N, C, OH, OW)."""
    axes = _windows(x.shape, shape, kernel, stride, padding, 1, count_include_pad)
    return _means(x, axes, divisor_override)


def adaptive_avg_pool2d(x: Array, shape: tuple[int, ...]) -> Array:
    """The means of windows that divide an image."""
    return _means(x, _divided(x.shape, shape), None)


def max_pool2d_backward(
    dy: Array, index: Array, shape: tuple[int, ...], kernel: Pair = 1, stride: Pair | None = None,
    padding: Pair = 0, dilation: Pair = 1,
) -> Array:  # fmt: skip
    """dy (N, C, OH, OW) added up in an image of `shape`, at the positions in the index."""
    axes = _windows(shape, dy.shape, kernel, stride, padding, dilation)
    return _placed(dy, index, shape, axes)


def adaptive_max_pool2d_backward(dy: Array, index: Array, shape: tuple[int, ...]) -> Array:
    return _placed(dy, index, shape, _divided(shape, dy.shape))


def avg_pool2d_backward(
    dy: Array, shape: tuple[int, ...], kernel: Pair = 1, stride: Pair | None = None,
    padding: Pair = 0, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """The part of dy (N, C, OH, OW) that each element of a window gets, added up in an image of
    `shape`."""
    axes = _windows(shape, dy.shape, kernel, stride, padding, 1, count_include_pad)
    return _shares(dy, shape, axes, divisor_override)


def adaptive_avg_pool2d_backward(dy: Array, shape: tuple[int, ...]) -> Array:
    return _shares(dy, shape, _divided(shape, dy.shape), None)


def avg_pool2d_budget(x: Array, shape: tuple[int, ...], *args: Any, **options: Any) -> Array:
    """The error of one rounding for each summand, and of a division."""
    taps = _most(_windows(x.shape, shape, *_geometry(args, options)))
    return (taps + 4) * 2.0**-24 * np.abs(avg_pool2d(np.abs(x), shape, *args, **options))


def adaptive_avg_pool2d_budget(x: Array, shape: tuple[int, ...]) -> Array:
    taps = _most(_divided(x.shape, shape))
    return (taps + 4) * 2.0**-24 * adaptive_avg_pool2d(np.abs(x), shape)


def max_pool2d_backward_budget(
    dy: Array, index: Array, shape: tuple[int, ...], *args: Any, **options: Any
) -> Array:
    """The error of one rounding for each summand."""
    times = max_pool2d_backward(np.ones(dy.shape), index, shape, *args, **options)
    return times * 2.0**-24 * max_pool2d_backward(np.abs(dy), index, shape, *args, **options)


def adaptive_max_pool2d_backward_budget(dy: Array, index: Array, shape: tuple[int, ...]) -> Array:
    times = adaptive_max_pool2d_backward(np.ones(dy.shape), index, shape)
    return times * 2.0**-24 * adaptive_max_pool2d_backward(np.abs(dy), index, shape)


def avg_pool2d_backward_budget(
    dy: Array, shape: tuple[int, ...], *args: Any, **options: Any
) -> Array:
    """The error of one rounding for each summand, and of a division."""
    axes = _windows(shape, dy.shape, *_geometry(args, options))
    times = _shares(np.ones(dy.shape), shape, axes, 1)
    return (times + 4) * 2.0**-24 * np.abs(avg_pool2d_backward(np.abs(dy), shape, *args, **options))


def adaptive_avg_pool2d_backward_budget(dy: Array, shape: tuple[int, ...]) -> Array:
    times = _shares(np.ones(dy.shape), shape, _divided(shape, dy.shape), 1)
    return (times + 4) * 2.0**-24 * adaptive_avg_pool2d_backward(np.abs(dy), shape)


def _geometry(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments kernel, stride and padding of a mean."""
    given = dict(zip(("kernel", "stride", "padding"), args, strict=False)) | options
    return given.get("kernel", 1), given.get("stride"), given.get("padding", 0)


def _most(axes: tuple[Axis, Axis]) -> int:
    """The number of elements of the largest window."""
    return max(len(r) for r, _ in axes[0]) * max(len(r) for r, _ in axes[1])


def _pair(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _windows(
    size: tuple[int, ...], out: tuple[int, ...], kernel: Pair, stride: Pair | None, padding: Pair,
    dilation: Pair = 1, include_pad: bool = True,
) -> tuple[Axis, Axis]:  # fmt: skip
    """The windows of images whose last axes have these sizes."""
    found: list[Axis] = []
    for k, s, p, d, n, m in zip(
        _pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation), size[-2:],
        out[-2:], strict=True,
    ):  # fmt: skip
        axis: Axis = []
        for o in range(m):
            taps = range(o * s - p, o * s - p + d * (k - 1) + 1, d)
            inside = [t for t in taps if 0 <= t < n]
            counted = [t for t in taps if t < n + p] if include_pad else inside
            inner = range(inside[0], inside[-1] + 1, d) if inside else range(0)
            axis.append((inner, len(counted)))
        found.append(axis)
    return found[0], found[1]


def _divided(size: tuple[int, ...], out: tuple[int, ...]) -> tuple[Axis, Axis]:
    """The windows that divide images of these sizes."""
    found: list[Axis] = []
    for n, m in zip(size[-2:], out[-2:], strict=True):
        bounds = [(o * n // m, -(-(o + 1) * n // m)) for o in range(m)]
        found.append([(range(a, b), b - a) for a, b in bounds])
    return found[0], found[1]


def _each(axes: tuple[Axis, Axis]) -> Iterator[tuple[int, int, Any, int]]:
    """For each result: its row and column, the indices of its window, and the number of elements of
    its mean."""
    for y, (rows, high) in enumerate(axes[0]):
        for x, (cols, wide) in enumerate(axes[1]):
            yield y, x, np.ix_(rows, cols), high * wide


def _largest(x: Array, axes: tuple[Axis, Axis]) -> tuple[Array, Array]:
    n, c, _, width = x.shape
    values = np.full((n, c, len(axes[0]), len(axes[1])), -np.inf, x.dtype)
    index = np.full(values.shape, -1, np.int32)
    for oy, ox, at, _ in _each(axes):
        part = x[:, :, at[0], at[1]].reshape(n, c, -1)
        if part.shape[2] == 0:
            continue
        place = (at[0] * width + at[1]).reshape(-1)
        # argmax gives the first NaN, or else the first of the largest elements
        best = part.argmax(-1)
        values[:, :, oy, ox] = np.take_along_axis(part, best[..., None], -1)[..., 0]
        index[:, :, oy, ox] = place[best]
    return values, index


def _means(x: Array, axes: tuple[Axis, Axis], divisor: int | None) -> Array:
    out = np.empty((*x.shape[:2], len(axes[0]), len(axes[1])))
    for oy, ox, at, count in _each(axes):
        summed = x[:, :, at[0], at[1]].astype(np.float64).sum((2, 3))
        out[:, :, oy, ox] = summed / (divisor or max(count, 1))
    return out


def _placed(dy: Array, index: Array, shape: tuple[int, ...], axes: tuple[Axis, Axis]) -> Array:
    """dy added up at the positions in the index, if they lie in the windows of their results."""
    out = np.zeros(shape)
    images, channels = np.ix_(range(shape[0]), range(shape[1]))
    for oy, ox, at, _ in _each(axes):
        y, x = np.divmod(index[:, :, oy, ox], shape[3])
        inside = np.isin(y, at[0]) & np.isin(x, at[1]) & (index[:, :, oy, ox] >= 0)
        y, x = np.where(inside, y, 0), np.where(inside, x, 0)
        out[images, channels, y, x] += np.where(inside, dy[:, :, oy, ox].astype(np.float64), 0)
    return out


def _shares(
    dy: Array, shape: tuple[int, ...], axes: tuple[Axis, Axis], divisor: int | None
) -> Array:
    out = np.zeros(shape)
    for oy, ox, at, count in _each(axes):
        share = dy[:, :, oy, ox].astype(np.float64) / (divisor or max(count, 1))
        out[:, :, at[0], at[1]] += share[:, :, None, None]
    return out
