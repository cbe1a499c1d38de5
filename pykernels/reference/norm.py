"""Norms and their gradients, in float64, and the largest error of f32.

n is the result of a norm before weight and bias; `factor` multiplies the differences from the mean.
The kernels subtract a rounded mean, and then the mean of the differences. So errors are counted in
units of differences, and |mean| counts only where its rounding is as large as the differences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "add_layer_norm", "add_rms_norm", "l2_norm", "l2_norm_backward",
    "layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]
LAST: Axes = (-1,)
U = 2.0**-24  # relative error of a rounding to f32
# Sums are trees and short runs, so no term takes part in more roundings than this.
DEPTH = 32
# The error that WGSL allows for a division and a square root, or for an inverse square root, in
# roundings.
ROOT = 16


class _Normed(NamedTuple):
    """n, the factor, the error of n, the relative error of the factor, and the rounding error of a
    mean that is subtracted."""

    n: Array
    factor: Array
    n_error: Array
    factor_error: Array
    offset: Array


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis."""
    return _affine(_by_mean(_double(x), LAST, eps).n, weight, bias)


def layer_norm_budget(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    return _affine_budget(_by_mean(_double(x), LAST, eps), weight, bias)


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return _affine(_by_squares(_double(x), eps).n, weight, None)


def rms_norm_budget(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    return _affine_budget(_by_squares(_double(x), eps), weight, None)


def add_layer_norm(
    x: Array, residual: Array, weight: Array | None = None, bias: Array | None = None, *,
    eps: float = 1e-5,
) -> tuple[Array, Array]:  # fmt: skip
    """The sum of x and residual, and its layer_norm."""
    s = _double(x) + _double(residual)
    return s, layer_norm(s, weight, bias, eps=eps)


def add_layer_norm_budget(
    x: Array, residual: Array, weight: Array | None = None, bias: Array | None = None, *,
    eps: float = 1e-5,
) -> tuple[Array, Array]:  # fmt: skip
    found = _by_mean(_double(x) + _double(residual), LAST, eps)
    return _with_sum(x, residual, found, weight, _affine_budget(found, weight, bias))


def add_rms_norm(
    x: Array, residual: Array, weight: Array | None = None, *, eps: float = 1e-6
) -> tuple[Array, Array]:
    """The sum of x and residual, and its rms_norm."""
    s = _double(x) + _double(residual)
    return s, rms_norm(s, weight, eps=eps)


def add_rms_norm_budget(
    x: Array, residual: Array, weight: Array | None = None, *, eps: float = 1e-6
) -> tuple[Array, Array]:
    found = _by_squares(_double(x) + _double(residual), eps)
    return _with_sum(x, residual, found, weight, _affine_budget(found, weight, None))


def l2_norm(x: Array, *, eps: float = 1e-12) -> Array:
    """x / max(sqrt(sum(x^2)), eps) over the last axis."""
    return _by_length(_double(x), eps).n


def l2_norm_budget(x: Array, *, eps: float = 1e-12) -> Array:
    return _by_length(_double(x), eps).n_error + 2.0**-126


def layer_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then dweight and dbias; the latter two only if their arguments are not None."""
    found = _by_mean(_double(x), LAST, eps)
    dst = _input_gradient(_double(dy), found, weight, LAST, mean=True) + _or_zero(ds)
    sums = _column_sums(_double(dy), found, LAST)
    return (dst, *[sums[i] for i in _wanted(dweight, dbias)])


def layer_norm_backward_budget(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    found = _by_mean(_double(x), LAST, eps)
    bound = _input_gradient_budget(_double(dy), found, weight, LAST, mean=True)
    alone = _input_gradient(_double(dy), found, weight, LAST, mean=True)
    sums = _column_sums_budget(_double(dy), found, LAST)
    of_sums = [sums[i] for i in _wanted(dweight, dbias)]
    return (bound + _with_other(x, alone, ds), *of_sums)


def rms_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, *, eps: float = 1e-6,
) -> Any:  # fmt: skip
    """dst, and dweight if its argument is not None."""
    found = _by_squares(_double(x), eps)
    dst = _input_gradient(_double(dy), found, weight, LAST, mean=False) + _or_zero(ds)
    sums = _column_sums(_double(dy), found, LAST)
    return (dst, *[sums[i] for i in _wanted(dweight, None)])


def rms_norm_backward_budget(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, *, eps: float = 1e-6,
) -> Any:  # fmt: skip
    found = _by_squares(_double(x), eps)
    bound = _input_gradient_budget(_double(dy), found, weight, LAST, mean=False)
    alone = _input_gradient(_double(dy), found, weight, LAST, mean=False)
    sums = _column_sums_budget(_double(dy), found, LAST)
    of_sums = [sums[i] for i in _wanted(dweight, None)]
    return (bound + _with_other(x, alone, ds), *of_sums)


def l2_norm_backward(dy: Array, x: Array, *, eps: float = 1e-12) -> Array:
    """(dy - n * sum(dy * n)) / length, or dy / eps if the length is below eps."""
    s, d = _double(x), _double(dy)
    found = _by_length(s, eps)
    along = np.where(_length(s) >= _single(eps), (d * found.n).sum(-1, keepdims=True), 0.0)
    out: Array = (d - found.n * along) * found.factor
    return out


def l2_norm_backward_budget(dy: Array, x: Array, *, eps: float = 1e-12) -> Array:
    return _input_gradient_budget(
        _double(dy), _by_length(_double(x), eps), None, LAST, mean=False, summed=True
    )


# -- images ---------------------------------------------------------------------------------------


def group_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, groups: int = 1,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of an image and a
    group of channels."""
    g = _groups(_double(x), groups)
    n = _by_mean(g, _from(2, g), eps).n.reshape(x.shape)
    return _affine(n, _of_channel(weight, x), _of_channel(bias, x))


def group_norm_budget(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, groups: int = 1,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    g = _groups(_double(x), groups)
    found = _reshaped(_by_mean(g, _from(2, g), eps), g, x.shape)
    return _affine_budget(found, _of_channel(weight, x), _of_channel(bias, x))


def group_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, groups: int = 1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then dweight and dbias; the latter two only if their arguments are not None."""
    g = _groups(_double(x), groups)
    found = _by_mean(g, _from(2, g), eps)
    return _of_images(_double(dy), x, found, g, weight, dweight, dbias)


def group_norm_backward_budget(
    dy: Array, x: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, groups: int = 1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    g = _groups(_double(x), groups)
    found = _by_mean(g, _from(2, g), eps)
    return _of_images_budget(_double(dy), x, found, g, weight, dweight, dbias)


def batch_norm(
    x: Array, mean: Array, variance: Array, weight: Array | None = None,
    bias: Array | None = None, *, eps: float = 1e-5,
) -> Array:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, with all statistics and weights by
    channel."""
    found = _by_known(x, mean, variance, eps)
    return _affine(found.n, _of_channel(weight, x), _of_channel(bias, x))


def batch_norm_budget(
    x: Array, mean: Array, variance: Array, weight: Array | None = None,
    bias: Array | None = None, *, eps: float = 1e-5,
) -> Array:  # fmt: skip
    found = _by_known(x, mean, variance, eps)
    return _affine_budget(found, _of_channel(weight, x), _of_channel(bias, x))


def batch_norm_training(
    x: Array, weight: Array | None = None, bias: Array | None = None,
    running_mean: Array | None = None, running_variance: Array | None = None,
    saved: object = None, *, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then the new running statistics and the saved statistics, if their arguments are given.

    The saved statistics are the mean, the rest of its rounding (0 here), and the sum of squared
    differences, of each channel.
    """
    s = _double(x)
    axes = _but_channels(s)
    found = _by_mean(s, axes, eps)
    mean, squares = _mean(s, axes).ravel(), ((s - _mean(s, axes)) ** 2).sum(axes)
    out = [_affine(found.n, _of_channel(weight, x), _of_channel(bias, x))]
    if running_mean is not None and running_variance is not None:
        share = _single(momentum)
        variance = squares / max(s.size // s.shape[1] - 1, 1)
        for before, now in ((running_mean, mean), (running_variance, variance)):
            out.append(_double(before) * (1 - share) + now * share if s.size else before)
    if saved is not None:
        out.append(np.stack([mean, np.zeros_like(mean), squares]))
    return tuple(out)


def batch_norm_training_budget(
    x: Array, weight: Array | None = None, bias: Array | None = None,
    running_mean: Array | None = None, running_variance: Array | None = None,
    saved: object = None, *, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    s = _double(x)
    axes = _but_channels(s)
    found = _by_mean(s, axes, eps)
    variance, offset = _mean((s - _mean(s, axes)) ** 2, axes).ravel(), found.offset.ravel()
    of_variance = DEPTH * U * (variance + 2 * offset**2) * 2
    out = [_affine_budget(found, _of_channel(weight, x), _of_channel(bias, x))]
    if running_mean is not None and running_variance is not None:
        rounding = 4 * U * (np.abs(_double(running_mean)) + np.abs(_mean(s, axes)).ravel())
        out.append(rounding + offset)
        out.append(4 * U * np.abs(_double(running_variance)) + of_variance + 2.0**-126)
    if saved is not None:
        count = max(s.size // max(s.shape[1], 1), 1)
        out.append(np.stack([offset, offset, of_variance * count + 2.0**-126]))
    return tuple(out)


def batch_norm_backward(
    dy: Array, x: Array, saved: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then dweight and dbias; the latter two only if their arguments are not None."""
    found = _by_saved(_double(x), saved, eps)
    return _of_images(_double(dy), x, found, _double(x), weight, dweight, dbias)


def batch_norm_backward_budget(
    dy: Array, x: Array, saved: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    found = _by_saved(_double(x), saved, eps)
    return _of_images_budget(_double(dy), x, found, _double(x), weight, dweight, dbias)


def _groups(x: Array, groups: int) -> Array:
    """(N, groups, C / groups, ...)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _from(axis: int, x: Array) -> Axes:
    return tuple(range(axis, x.ndim))


def _but_channels(x: Array) -> Axes:
    return (0, *range(2, x.ndim))


def _of_channel(param: Array | None, x: Array) -> Array | None:
    return None if param is None else param.reshape(-1, *[1] * (x.ndim - 2))


def _known(s: Array, mean: Array, variance: Array, eps: float) -> _Normed:
    """The error for given statistics; only x, the differences and the factor are rounded."""
    shape = (-1, *[1] * (s.ndim - 2))
    difference = s - mean.reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = 1.0 / np.sqrt(variance.reshape(shape) + _single(eps))
    factor = factor[None]
    error = np.full_like(factor, ROOT * U)
    n = difference * factor
    return _Normed(n, factor, 4 * U * np.abs(n) + np.abs(n) * error, error, 0 * factor)


def _by_known(x: Array, mean: Array, variance: Array, eps: float) -> _Normed:
    return _known(_double(x), _double(mean), _double(variance), eps)


def _by_saved(s: Array, saved: Array, eps: float) -> _Normed:
    pivot, offset, squares = _double(saved)
    count = max(s.size // max(s.shape[1], 1), 1)
    return _known(s, pivot + offset, squares / count, eps)


def _reshaped(found: _Normed, g: Array, shape: tuple[int, ...]) -> _Normed:
    """Reshape values from the shape of groups to the shape of x."""
    return _Normed(*[np.broadcast_to(part, g.shape).reshape(shape) for part in found])


def _of_images(
    d: Array, x: Array, found: _Normed, g: Array, weight: Array | None, dweight: object,
    dbias: object,
) -> Any:  # fmt: skip
    """The gradients; `g` is x in the shape of `found`, (N, groups, ...), or x itself for
    batch_norm."""
    flat = _reshaped(found, g, x.shape)
    sums = _column_sums(d, flat, (1,))
    scaled = _affine(d, _of_channel(weight, x), None).reshape(g.shape)
    axes = _but_channels(x) if g.ndim == x.ndim else _from(2, g)
    dst = _input_gradient(scaled, found, None, axes, mean=True).reshape(x.shape)
    return (dst, *[sums[i] for i in _wanted(dweight, dbias)])


def _of_images_budget(
    d: Array, x: Array, found: _Normed, g: Array, weight: Array | None, dweight: object,
    dbias: object,
) -> Any:  # fmt: skip
    flat = _reshaped(found, g, x.shape)
    sums = _column_sums_budget(d, flat, (1,))
    scaled = _affine(d, _of_channel(weight, x), None).reshape(g.shape)
    axes = _but_channels(x) if g.ndim == x.ndim else _from(2, g)
    bound = _input_gradient_budget(scaled, found, None, axes, mean=True)
    return (bound.reshape(x.shape), *[sums[i] for i in _wanted(dweight, dbias)])


# -- parts ----------------------------------------------------------------------------------------


def _double(x: Array) -> Array:
    return np.asarray(x, np.float64)


def _single(eps: float) -> float:
    """eps rounded to float32, as the kernel gets it."""
    return float(np.float32(eps))


def _or_zero(ds: Array | None) -> Array | float:
    return 0.0 if ds is None else _double(ds)


def _wanted(dweight: object, dbias: object) -> list[int]:
    return [i for i, given in enumerate((dweight, dbias)) if given is not None]


def _mean(x: Array, axes: Axes) -> Array:
    """The mean; for no elements it is 0, but that value is not used."""
    if x.ndim == 0:
        return x
    count = max(int(np.prod([x.shape[a] for a in axes])), 1)
    found: Array = x.sum(axes, keepdims=True) / count
    return found


def _length(s: Array) -> Array:
    out: Array = np.sqrt((s * s).sum(-1, keepdims=True) if s.ndim else s * s)
    return out


def _by_mean(s: Array, axes: Axes, eps: float) -> _Normed:
    mean = _mean(s, axes)
    difference = s - mean
    variance = _mean(difference**2, axes)
    offset = DEPTH * U * _mean(np.abs(s), axes)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = 1.0 / np.sqrt(variance + _single(eps))
        share = DEPTH * U * (variance + 2.0 * offset**2) / (variance + _single(eps))
    size = np.abs(difference)
    n_error = factor * U * (2.0 * (size + offset) + DEPTH * (_mean(size, axes) + offset))
    n = difference * factor
    factor_error = share + ROOT * U
    return _Normed(n, factor, n_error + np.abs(n) * factor_error, factor_error, offset)


def _by_squares(s: Array, eps: float) -> _Normed:
    factor = 1.0 / np.sqrt(_mean(s * s, LAST) + _single(eps))
    error = np.full_like(factor, (DEPTH + ROOT) * U)
    return _Normed(s * factor, factor, np.abs(s * factor) * error, error, np.zeros_like(factor))


def _by_length(s: Array, eps: float) -> _Normed:
    factor = 1.0 / np.maximum(_length(s), _single(eps))
    error = np.full_like(factor, (DEPTH + ROOT) * U)
    return _Normed(s * factor, factor, np.abs(s * factor) * error, error, np.zeros_like(factor))


def _affine(n: Array, weight: Array | None, bias: Array | None) -> Array:
    scaled = n if weight is None else n * _double(weight)
    return scaled if bias is None else scaled + _double(bias)


def _affine_budget(found: _Normed, weight: Array | None, bias: Array | None) -> Array:
    w = 1.0 if weight is None else np.abs(_double(weight))
    b = 0.0 if bias is None else np.abs(_double(bias))
    return w * found.n_error + 2 * U * (w * np.abs(found.n) + b) + 2.0**-126


def _with_sum(
    x: Array, residual: Array, found: _Normed, weight: Array | None, bound: Array
) -> tuple[Array, Array]:
    """The errors of a sum and of its norm. The sum may be rounded before it is normalised: to
    halves if x is float16."""
    rounding = 2.0**-11 if x.dtype == np.float16 else U
    w = 1.0 if weight is None else np.abs(_double(weight))
    off = rounding * np.abs(_double(x) + _double(residual))
    return off, bound + w * found.factor * (1.0 + np.abs(found.n)) * (off + _mean(off, LAST))


def _with_other(x: Array, alone: Array, ds: Array | None) -> Array | float:
    """The error of the sum of a gradient and ds. The gradient of a long row is also rounded before
    the sum."""
    if ds is None:
        return 0.0
    return (2.0**-11 if x.dtype == np.float16 else U) * np.abs(alone) + U * np.abs(_double(ds))


def _input_gradient(
    d: Array, found: _Normed, weight: Array | None, axes: Axes, mean: bool
) -> Array:
    g = _affine(d, weight, None)
    level = _mean(g, axes) if mean else 0.0
    out: Array = (g - level - found.n * _mean(g * found.n, axes)) * found.factor
    return out


def _input_gradient_budget(
    d: Array, found: _Normed, weight: Array | None, axes: Axes, mean: bool, summed: bool = False
) -> Array:
    """The error that comes from the errors of g, of the means of g and of g * n, of n, and of the
    factor.

    `summed`: the sum of g * n is used in place of its mean."""
    g, n = _affine(d, weight, None), found.n
    size = np.abs(g)
    count = max(int(np.prod([n.shape[a] for a in axes])), 1) if summed and n.ndim else 1
    along = np.abs(count * _mean(g * n, axes))
    along_error = (
        count
        * (
            _mean(
                size * (DEPTH * U * (np.abs(n) + found.offset * found.factor) + found.n_error), axes
            )
        )
        + along * found.factor_error
    )
    level, level_error = mean * np.abs(_mean(g, axes)), mean * DEPTH * U * _mean(size, axes)
    inner = size + level + np.abs(n) * along
    error = 4 * U * inner + level_error + np.abs(n) * along_error + found.n_error * along
    bound: Array = found.factor * (error + inner * found.factor_error) + 2.0**-126
    return bound


def _column_sums(d: Array, found: _Normed, kept: Axes) -> tuple[Array, Array]:
    """The gradients of weight and bias: sums over all axes but `kept`."""
    axes = _others(d, kept)
    return (d * found.n).sum(axes), d.sum(axes)


def _column_sums_budget(d: Array, found: _Normed, kept: Axes) -> tuple[Array, Array]:
    axes = _others(d, kept)
    count = max(int(np.prod([d.shape[a] for a in axes])), 1)
    share = 2 * U * (np.sqrt(count) + 8)
    of_weight = np.abs(d) * (found.n_error + share * np.abs(found.n))
    return of_weight.sum(axes) + 2.0**-126, share * np.abs(d).sum(axes) + 2.0**-126


def _others(d: Array, kept: Axes) -> Axes:
    return tuple(a for a in range(d.ndim) if a - d.ndim not in kept and a not in kept)
