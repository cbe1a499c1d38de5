"""Norms and their gradients, in float64, and the largest error of f32.

n is the result of a norm before weight and bias; `factor` multiplies the differences from the mean.
The kernels subtract a rounded mean, and then the mean of the differences. So errors are counted in
units of differences, and |mean| counts only where its rounding is as large as the differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .norm_parts import (
    DEPTH,
    LAST,
    Array,
    U,
    affine,
    affine_budget,
    axes_from,
    but_channels,
    by_known,
    by_length,
    by_mean,
    by_saved,
    by_squares,
    column_sums,
    column_sums_budget,
    double,
    in_groups,
    input_gradient,
    input_gradient_budget,
    length_of,
    mean_of,
    of_channel,
    of_images,
    of_images_budget,
    or_zero,
    reshaped,
    single,
    wanted_of,
    with_other,
    with_sum,
)  # fmt: skip

__all__ = [
    "add_layer_norm", "add_rms_norm", "l2_norm", "l2_norm_backward",
    "layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward",
]  # fmt: skip


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis."""
    return affine(by_mean(double(x), LAST, eps).n, weight, bias)


def layer_norm_budget(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    return affine_budget(by_mean(double(x), LAST, eps), weight, bias)


def rms_norm(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return affine(by_squares(double(x), eps).n, weight, None)


def rms_norm_budget(x: Array, weight: Array | None = None, *, eps: float = 1e-6) -> Array:
    return affine_budget(by_squares(double(x), eps), weight, None)


def add_layer_norm(
    x: Array, residual: Array, weight: Array | None = None, bias: Array | None = None, *,
    eps: float = 1e-5,
) -> tuple[Array, Array]:  # fmt: skip
    """The sum of x and residual, and its layer_norm."""
    s = double(x) + double(residual)
    return s, layer_norm(s, weight, bias, eps=eps)


def add_layer_norm_budget(
    x: Array, residual: Array, weight: Array | None = None, bias: Array | None = None, *,
    eps: float = 1e-5,
) -> tuple[Array, Array]:  # fmt: skip
    found = by_mean(double(x) + double(residual), LAST, eps)
    return with_sum(x, residual, found, weight, affine_budget(found, weight, bias))


def add_rms_norm(
    x: Array, residual: Array, weight: Array | None = None, *, eps: float = 1e-6
) -> tuple[Array, Array]:
    """The sum of x and residual, and its rms_norm."""
    s = double(x) + double(residual)
    return s, rms_norm(s, weight, eps=eps)


def add_rms_norm_budget(
    x: Array, residual: Array, weight: Array | None = None, *, eps: float = 1e-6
) -> tuple[Array, Array]:
    found = by_squares(double(x) + double(residual), eps)
    return with_sum(x, residual, found, weight, affine_budget(found, weight, None))


def l2_norm(x: Array, *, eps: float = 1e-12) -> Array:
    """x / max(sqrt(sum(x^2)), eps) over the last axis."""
    return by_length(double(x), eps).n


def l2_norm_budget(x: Array, *, eps: float = 1e-12) -> Array:
    return by_length(double(x), eps).n_error + 2.0**-126


def layer_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then dweight and dbias, each only if its argument is not None."""
    found = by_mean(double(x), LAST, eps)
    dst = input_gradient(double(dy), found, weight, LAST, mean=True) + or_zero(ds)
    sums = column_sums(double(dy), found, LAST)
    return (dst, *[sums[i] for i in wanted_of(dweight, dbias)])


def layer_norm_backward_budget(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    found = by_mean(double(x), LAST, eps)
    bound = input_gradient_budget(double(dy), found, weight, LAST, mean=True)
    alone = input_gradient(double(dy), found, weight, LAST, mean=True)
    sums = column_sums_budget(double(dy), found, LAST)
    of_sums = [sums[i] for i in wanted_of(dweight, dbias)]
    return (bound + with_other(x, alone, ds), *of_sums)


def rms_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, *, eps: float = 1e-6,
) -> Any:  # fmt: skip
    """dst, and dweight if its argument is not None."""
    found = by_squares(double(x), eps)
    dst = input_gradient(double(dy), found, weight, LAST, mean=False) + or_zero(ds)
    sums = column_sums(double(dy), found, LAST)
    return (dst, *[sums[i] for i in wanted_of(dweight, None)])


def rms_norm_backward_budget(
    dy: Array, x: Array, weight: Array | None = None, ds: Array | None = None,
    dweight: object = None, *, eps: float = 1e-6,
) -> Any:  # fmt: skip
    found = by_squares(double(x), eps)
    bound = input_gradient_budget(double(dy), found, weight, LAST, mean=False)
    alone = input_gradient(double(dy), found, weight, LAST, mean=False)
    sums = column_sums_budget(double(dy), found, LAST)
    of_sums = [sums[i] for i in wanted_of(dweight, None)]
    return (bound + with_other(x, alone, ds), *of_sums)


def l2_norm_backward(dy: Array, x: Array, *, eps: float = 1e-12) -> Array:
    """(dy - n * sum(dy * n)) / length, or dy / eps if the length is below eps."""
    s, d = double(x), double(dy)
    found = by_length(s, eps)
    along = np.where(length_of(s) >= single(eps), (d * found.n).sum(-1, keepdims=True), 0.0)
    out: Array = (d - found.n * along) * found.factor
    return out


def l2_norm_backward_budget(dy: Array, x: Array, *, eps: float = 1e-12) -> Array:
    return input_gradient_budget(
        double(dy), by_length(double(x), eps), None, LAST, mean=False, summed=True
    )


# -- images ---------------------------------------------------------------------------------------


def group_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, groups: int = 1,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of an image and a
    group of channels."""
    g = in_groups(double(x), groups)
    n = by_mean(g, axes_from(2, g), eps).n.reshape(x.shape)
    return affine(n, of_channel(weight, x), of_channel(bias, x))


def group_norm_budget(
    x: Array, weight: Array | None = None, bias: Array | None = None, *, groups: int = 1,
    eps: float = 1e-5,
) -> Array:  # fmt: skip
    g = in_groups(double(x), groups)
    found = reshaped(by_mean(g, axes_from(2, g), eps), g, x.shape)
    return affine_budget(found, of_channel(weight, x), of_channel(bias, x))


def group_norm_backward(
    dy: Array, x: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, groups: int = 1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then dweight and dbias, each only if its argument is not None."""
    g = in_groups(double(x), groups)
    found = by_mean(g, axes_from(2, g), eps)
    return of_images(double(dy), x, found, g, weight, dweight, dbias)


def group_norm_backward_budget(
    dy: Array, x: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, groups: int = 1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    g = in_groups(double(x), groups)
    found = by_mean(g, axes_from(2, g), eps)
    return of_images_budget(double(dy), x, found, g, weight, dweight, dbias)


def batch_norm(
    x: Array, mean: Array, variance: Array, weight: Array | None = None,
    bias: Array | None = None, *, eps: float = 1e-5,
) -> Array:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, where each channel has its own mean,
    variance, weight and bias."""
    found = by_known(x, mean, variance, eps)
    return affine(found.n, of_channel(weight, x), of_channel(bias, x))


def batch_norm_budget(
    x: Array, mean: Array, variance: Array, weight: Array | None = None,
    bias: Array | None = None, *, eps: float = 1e-5,
) -> Array:  # fmt: skip
    found = by_known(x, mean, variance, eps)
    return affine_budget(found, of_channel(weight, x), of_channel(bias, x))


def batch_norm_training(
    x: Array, weight: Array | None = None, bias: Array | None = None,
    running_mean: Array | None = None, running_variance: Array | None = None,
    saved: object = None, *, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then the new running statistics and the saved statistics, if their arguments are given.

    The saved statistics of each channel are its rounded mean, the part of the mean that is lost by
    the rounding (0 here), and the sum of squared differences from the mean.
    """
    s = double(x)
    axes = but_channels(s)
    found = by_mean(s, axes, eps)
    mean, squares = mean_of(s, axes).ravel(), ((s - mean_of(s, axes)) ** 2).sum(axes)
    out = [affine(found.n, of_channel(weight, x), of_channel(bias, x))]
    if running_mean is not None and running_variance is not None:
        share = single(momentum)
        variance = squares / max(s.size // s.shape[1] - 1, 1)
        for before, now in ((running_mean, mean), (running_variance, variance)):
            out.append(double(before) * (1 - share) + now * share if s.size else before)
    if saved is not None:
        out.append(np.stack([mean, np.zeros_like(mean), squares]))
    return tuple(out)


def batch_norm_training_budget(
    x: Array, weight: Array | None = None, bias: Array | None = None,
    running_mean: Array | None = None, running_variance: Array | None = None,
    saved: object = None, *, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    s = double(x)
    axes = but_channels(s)
    found = by_mean(s, axes, eps)
    variance, offset = mean_of((s - mean_of(s, axes)) ** 2, axes).ravel(), found.offset.ravel()
    of_variance = DEPTH * U * (variance + 2 * offset**2) * 2
    out = [affine_budget(found, of_channel(weight, x), of_channel(bias, x))]
    if running_mean is not None and running_variance is not None:
        rounding = 4 * U * (np.abs(double(running_mean)) + np.abs(mean_of(s, axes)).ravel())
        out.append(rounding + offset)
        out.append(4 * U * np.abs(double(running_variance)) + of_variance + 2.0**-126)
    if saved is not None:
        count = max(s.size // max(s.shape[1], 1), 1)
        out.append(np.stack([offset, offset, of_variance * count + 2.0**-126]))
    return tuple(out)


def batch_norm_backward(
    dy: Array, x: Array, saved: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """dst, then dweight and dbias, each only if its argument is not None."""
    found = by_saved(double(x), saved, eps)
    return of_images(double(dy), x, found, double(x), weight, dweight, dbias)


def batch_norm_backward_budget(
    dy: Array, x: Array, saved: Array, weight: Array | None = None, dweight: object = None,
    dbias: object = None, *, eps: float = 1e-5,
) -> Any:  # fmt: skip
    found = by_saved(double(x), saved, eps)
    return of_images_budget(double(dy), x, found, double(x), weight, dweight, dbias)
