"""Parts of norms and their gradients: means, errors of f32, sums of columns.

Terms and units are as in `norm`. Functions with `budget` in their names give errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "DEPTH",
    "LAST",
    "Array",
    "Normed",
    "U",
    "affine",
    "affine_budget",
    "axes_from",
    "but_channels",
    "by_known",
    "by_length",
    "by_mean",
    "by_saved",
    "by_squares",
    "column_sums",
    "column_sums_budget",
    "double",
    "in_groups",
    "input_gradient",
    "input_gradient_budget",
    "length_of",
    "mean_of",
    "of_channel",
    "of_images",
    "of_images_budget",
    "or_zero",
    "reshaped",
    "single",
    "wanted_of",
    "with_other",
    "with_sum",
]

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]
LAST: Axes = (-1,)
U = 2.0**-24  # relative error of a rounding to f32
# Sums are trees and short runs, so no term takes part in more roundings than this.
DEPTH = 32
# The error that WGSL allows for a division and a square root, or for an inverse square root, in
# roundings.
ROOT = 16


class Normed(NamedTuple):
    """n, the factor, the error of n, the relative error of the factor, and the rounding error of a
    mean that is subtracted."""

    n: Array
    factor: Array
    n_error: Array
    factor_error: Array
    offset: Array


def in_groups(x: Array, groups: int) -> Array:
    """(N, groups, C / groups, ...)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def axes_from(axis: int, x: Array) -> Axes:
    return tuple(range(axis, x.ndim))


def but_channels(x: Array) -> Axes:
    return (0, *range(2, x.ndim))


def of_channel(param: Array | None, x: Array) -> Array | None:
    return None if param is None else param.reshape(-1, *[1] * (x.ndim - 2))


def by_statistics(s: Array, mean: Array, variance: Array, eps: float) -> Normed:
    """n and its errors for statistics that are given, so only x, the differences and the factor are
    rounded."""
    shape = (-1, *[1] * (s.ndim - 2))
    difference = s - mean.reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = 1.0 / np.sqrt(variance.reshape(shape) + single(eps))
    factor = factor[None]
    error = np.full_like(factor, ROOT * U)
    n = difference * factor
    return Normed(n, factor, 4 * U * np.abs(n) + np.abs(n) * error, error, 0 * factor)


def by_known(x: Array, mean: Array, variance: Array, eps: float) -> Normed:
    return by_statistics(double(x), double(mean), double(variance), eps)


def by_saved(s: Array, saved: Array, eps: float) -> Normed:
    pivot, offset, squares = double(saved)
    count = max(s.size // max(s.shape[1], 1), 1)
    return by_statistics(s, pivot + offset, squares / count, eps)


def reshaped(found: Normed, g: Array, shape: tuple[int, ...]) -> Normed:
    """Reshape values from the shape of groups to the shape of x."""
    return Normed(*[np.broadcast_to(part, g.shape).reshape(shape) for part in found])


def of_images(
    d: Array, x: Array, found: Normed, g: Array, weight: Array | None, dweight: object,
    dbias: object,
) -> Any:  # fmt: skip
    """The gradient of x, then the gradients of weight and bias, each only if it is asked for. `g`
    is x in the shape of `found`, (N, groups, ...); for batch_norm, `g` is x itself."""
    flat = reshaped(found, g, x.shape)
    sums = column_sums(d, flat, (1,))
    scaled = affine(d, of_channel(weight, x), None).reshape(g.shape)
    axes = but_channels(x) if g.ndim == x.ndim else axes_from(2, g)
    dst = input_gradient(scaled, found, None, axes, mean=True).reshape(x.shape)
    return (dst, *[sums[i] for i in wanted_of(dweight, dbias)])


def of_images_budget(
    d: Array, x: Array, found: Normed, g: Array, weight: Array | None, dweight: object,
    dbias: object,
) -> Any:  # fmt: skip
    flat = reshaped(found, g, x.shape)
    sums = column_sums_budget(d, flat, (1,))
    scaled = affine(d, of_channel(weight, x), None).reshape(g.shape)
    axes = but_channels(x) if g.ndim == x.ndim else axes_from(2, g)
    bound = input_gradient_budget(scaled, found, None, axes, mean=True)
    return (bound.reshape(x.shape), *[sums[i] for i in wanted_of(dweight, dbias)])


# -- parts ----------------------------------------------------------------------------------------


def double(x: Array) -> Array:
    return np.asarray(x, np.float64)


def single(eps: float) -> float:
    """eps rounded to float32, as the kernel gets it."""
    return float(np.float32(eps))


def or_zero(ds: Array | None) -> Array | float:
    return 0.0 if ds is None else double(ds)


def wanted_of(dweight: object, dbias: object) -> list[int]:
    return [i for i, given in enumerate((dweight, dbias)) if given is not None]


def mean_of(x: Array, axes: Axes) -> Array:
    """The mean; for no elements it is 0, but that value is not used."""
    if x.ndim == 0:
        return x
    count = max(int(np.prod([x.shape[a] for a in axes])), 1)
    found: Array = x.sum(axes, keepdims=True) / count
    return found


def length_of(s: Array) -> Array:
    out: Array = np.sqrt((s * s).sum(-1, keepdims=True) if s.ndim else s * s)
    return out


def by_mean(s: Array, axes: Axes, eps: float) -> Normed:
    mean = mean_of(s, axes)
    difference = s - mean
    variance = mean_of(difference**2, axes)
    offset = DEPTH * U * mean_of(np.abs(s), axes)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = 1.0 / np.sqrt(variance + single(eps))
        share = DEPTH * U * (variance + 2.0 * offset**2) / (variance + single(eps))
    size = np.abs(difference)
    n_error = factor * U * (2.0 * (size + offset) + DEPTH * (mean_of(size, axes) + offset))
    n = difference * factor
    factor_error = share + ROOT * U
    return Normed(n, factor, n_error + np.abs(n) * factor_error, factor_error, offset)


def by_squares(s: Array, eps: float) -> Normed:
    factor = 1.0 / np.sqrt(mean_of(s * s, LAST) + single(eps))
    error = np.full_like(factor, (DEPTH + ROOT) * U)
    return Normed(s * factor, factor, np.abs(s * factor) * error, error, np.zeros_like(factor))


def by_length(s: Array, eps: float) -> Normed:
    factor = 1.0 / np.maximum(length_of(s), single(eps))
    error = np.full_like(factor, (DEPTH + ROOT) * U)
    return Normed(s * factor, factor, np.abs(s * factor) * error, error, np.zeros_like(factor))


def affine(n: Array, weight: Array | None, bias: Array | None) -> Array:
    scaled = n if weight is None else n * double(weight)
    return scaled if bias is None else scaled + double(bias)


def affine_budget(found: Normed, weight: Array | None, bias: Array | None) -> Array:
    w = 1.0 if weight is None else np.abs(double(weight))
    b = 0.0 if bias is None else np.abs(double(bias))
    return w * found.n_error + 2 * U * (w * np.abs(found.n) + b) + 2.0**-126


def with_sum(
    x: Array, residual: Array, found: Normed, weight: Array | None, bound: Array
) -> tuple[Array, Array]:
    """The errors of a sum and of its norm. The sum may be rounded before it is normalised: to
    halves if x is float16."""
    rounding = 2.0**-11 if x.dtype == np.float16 else U
    w = 1.0 if weight is None else np.abs(double(weight))
    off = rounding * np.abs(double(x) + double(residual))
    return off, bound + w * found.factor * (1.0 + np.abs(found.n)) * (off + mean_of(off, LAST))


def with_other(x: Array, alone: Array, ds: Array | None) -> Array | float:
    """The error of the sum of a gradient and ds. The gradient of a long row is also rounded before
    the sum."""
    if ds is None:
        return 0.0
    return (2.0**-11 if x.dtype == np.float16 else U) * np.abs(alone) + U * np.abs(double(ds))


def input_gradient(d: Array, found: Normed, weight: Array | None, axes: Axes, mean: bool) -> Array:
    g = affine(d, weight, None)
    level = mean_of(g, axes) if mean else 0.0
    out: Array = (g - level - found.n * mean_of(g * found.n, axes)) * found.factor
    return out


def input_gradient_budget(
    d: Array, found: Normed, weight: Array | None, axes: Axes, mean: bool, summed: bool = False
) -> Array:
    """The error of a gradient, from the errors of g, n, the factor, the mean of g and the mean of
    g * n.

    `summed`: the sum of g * n is used in place of its mean."""
    g, n = affine(d, weight, None), found.n
    size = np.abs(g)
    count = max(int(np.prod([n.shape[a] for a in axes])), 1) if summed and n.ndim else 1
    along = np.abs(count * mean_of(g * n, axes))
    along_error = (
        count
        * (
            mean_of(
                size * (DEPTH * U * (np.abs(n) + found.offset * found.factor) + found.n_error), axes
            )
        )
        + along * found.factor_error
    )
    level, level_error = mean * np.abs(mean_of(g, axes)), mean * DEPTH * U * mean_of(size, axes)
    inner = size + level + np.abs(n) * along
    error = 4 * U * inner + level_error + np.abs(n) * along_error + found.n_error * along
    bound: Array = found.factor * (error + inner * found.factor_error) + 2.0**-126
    return bound


def column_sums(d: Array, found: Normed, kept: Axes) -> tuple[Array, Array]:
    """The gradients of weight and bias: sums over all axes but `kept`."""
    axes = others(d, kept)
    return (d * found.n).sum(axes), d.sum(axes)


def column_sums_budget(d: Array, found: Normed, kept: Axes) -> tuple[Array, Array]:
    axes = others(d, kept)
    count = max(int(np.prod([d.shape[a] for a in axes])), 1)
    share = 2 * U * (np.sqrt(count) + 8)
    of_weight = np.abs(d) * (found.n_error + share * np.abs(found.n))
    return of_weight.sum(axes) + 2.0**-126, share * np.abs(d).sum(axes) + 2.0**-126


def others(d: Array, kept: Axes) -> Axes:
    return tuple(a for a in range(d.ndim) if a - d.ndim not in kept and a not in kept)
