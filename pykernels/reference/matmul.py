"""mul_mat, the batched matrix product with an epilogue; mul_mat_i8, the same for bytes; and
others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pykernels.plans.quant.types import TYPES

from .elementwise import OPS

__all__ = [
    "activate", "mul_mat", "mul_mat_budget", "mul_mat_i8", "mul_mat_i8_budget", "mul_mat_id",
    "mul_mat_id_budget", "mul_mat_quant", "mul_mat_quant_budget", "rms_norm_linear",
    "rms_norm_linear_budget",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def mul_mat(
    a: Array,
    b: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    scale: float = 1.0,
    activation: str | None = None,
    precision: str | None = None,
) -> Array:
    """act(scale * sum_k a[..., m, k] b[..., n, k] + bias + residual), (..., n, m), in float64.

    Batch axes of a repeat to the batch axes of b, as in ggml: each matrix of a multiplies
    neighbouring matrices of b. `precision` changes the allowed error of the kernel
    (`mul_mat_budget`), not the reference.
    """
    a64, b64 = _repeat(a, b).astype(np.float64), b.astype(np.float64)
    out = float(np.float32(scale)) * np.matmul(b64, np.swapaxes(a64, -1, -2))
    for extra in (bias, residual):
        if extra is not None:
            out = out + extra.astype(np.float64)
    return activate(out, activation)


def activate(x: Array, kind: str | None) -> Array:
    """The activation of an epilogue (kernels/elementwise/ops.toml) in float64."""
    return x if kind is None else OPS[kind].reference(x)


def mul_mat_budget(
    a: Array,
    b: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    scale: float = 1.0,
    activation: str | None = None,
    precision: str | None = None,
    dtype: Any = None,
) -> Array:
    """The largest error of f32 sums of K products: 2^-23 (sqrt(K) + 4) sum|a||b|, plus the
    error of the epilogue.

    `dtype` is the dtype of the result. For float16 results without a precision, matrix units may
    add all products of float16 in one sum; this adds 0.16 K 2^-23 sum|a||b|.

    Each term of the epilogue is rounded once or twice. The slope of the activations is at most
    1.13. Their own error is |x| times 1.5e-7 (erf), or some units in the last place of exp.

    Precision "fast" adds 2^-8 sum|a||b|. Precision "split" adds 2^-38 (max|a| sum|b| + max|b|
    sum|a|): planes of float16 lose this much of numbers that are small in their row.
    """
    repeated = np.abs(_repeat(a, b).astype(np.float64))
    size = np.matmul(np.abs(b.astype(np.float64)), np.swapaxes(repeated, -1, -2))
    factor = abs(float(np.float32(scale)))
    size = size * factor
    bound = size * (math.sqrt(a.shape[-1]) + 4 + (2.0**15 if precision == "fast" else 0.0))
    if precision is None and dtype == np.float16 and {a.dtype, b.dtype} == {np.dtype(np.float16)}:
        bound = bound + 0.16 * a.shape[-1] * size
    if precision == "split":
        bound = bound + 2.0**-15 * factor * _spread(repeated, np.abs(b.astype(np.float64)))
    for extra in (bias, residual):
        if extra is not None:
            size = size + np.abs(extra.astype(np.float64))
            bound = bound + 2 * size
    if activation is not None:
        bound = 1.2 * bound + 2 * size
        if activation != "relu":
            bound = bound + 16 * size
    return np.asarray(2.0**-23 * bound)


def mul_mat_i8(
    a: Array,
    b: Array,
    a_scale: Array | None = None,
    b_scale: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """sum_k a[..., m, k] b[..., n, k], (..., n, m), modulo 2^32 as int32. If a scale or the bias is
    given, the result is this sum in float64, times a_scale[..., m] b_scale[..., n], plus bias.

    Float64 holds the sums exactly for any K below 2^37.
    """
    wide = np.swapaxes(_repeat(a, b).astype(np.float64), -1, -2)
    sums: Array = np.matmul(b.astype(np.float64), wide).astype(np.int64).astype(np.int32)
    if a_scale is None and b_scale is None and bias is None:
        return sums
    out = sums.astype(np.float64)
    if a_scale is not None:
        out = out * np.atleast_1d(a_scale).astype(np.float64)[..., None, :]
    if b_scale is not None:
        out = out * np.atleast_1d(b_scale).astype(np.float64)[..., None]
    return np.asarray(out if bias is None else out + bias.astype(np.float64))


def mul_mat_i8_budget(
    a: Array,
    b: Array,
    a_scale: Array | None = None,
    b_scale: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """The rounding error of a scaled product: one unit in the last place of f32 for the conversion
    of the integer, and half a unit for each factor and for the sum with the bias. To this is added
    the error of values that are flushed to 0 before they are multiplied by a factor."""
    scaled = np.abs(mul_mat_i8(a, b, a_scale, b_scale, np.zeros(1)))
    bound = 2.0**-23 * 1.001 * (2 * scaled + (0 if bias is None else 0.5 * (scaled + np.abs(bias))))
    largest = max([float(np.abs(v).max(initial=0)) for v in (a_scale, b_scale) if v is not None],
                  default=0.0)  # fmt: skip
    return np.asarray(bound + 2.0**-126 * (1 + largest))


def mul_mat_quant(
    low: Array,
    scales: Array,
    b: Array,
    shape: tuple[int, ...],
    high: Array | None = None,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    quant: str = "q4_0",
    scale: float = 1.0,
    activation: str | None = None,
    precision: str | None = None,
) -> Array:
    """The product with the float32 numbers of the planes (M, K), in float64."""
    w = _weights(low, scales, (shape[-1], b.shape[-1]), high, quant)
    return mul_mat(w, b, bias, residual, scale=scale, activation=activation)


def mul_mat_quant_budget(
    low: Array,
    scales: Array,
    b: Array,
    shape: tuple[int, ...],
    high: Array | None = None,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    quant: str = "q4_0",
    scale: float = 1.0,
    activation: str | None = None,
    precision: str | None = None,
    rounded: bool = False,
) -> Array:
    """The budget of mul_mat, plus the errors of float16. For up to eight rows of float16, products
    are summed in packed float16. If matrix units multiply float16 (`rounded`, or "fast"), weights
    and a float32 b are rounded to 11 bits, and all products are added in one sum."""
    w = _weights(low, scales, (shape[-1], b.shape[-1]), high, quant)
    bound = mul_mat_budget(w, b, bias, residual, scale=scale, activation=activation)
    if b.dtype == np.float16 and b.shape[-2] <= 8 and TYPES[quant].halves:
        bound = bound + abs(scale) * 1.2 * _packed(low, scales, b, w.shape, high, quant)
    if not rounded and precision != "fast":
        return bound
    k, factor = b.shape[-1], 1.2 * abs(float(np.float32(scale)))
    wide = np.abs(b.astype(np.float64))
    size = wide @ np.abs(w.astype(np.float64)).T
    halves = 2 if b.dtype == np.float32 else 1
    tiny = 2.0**-25 * wide.sum(-1, keepdims=True)  # for weights below the smallest normal half
    if halves == 2:
        tiny = tiny + 2.0**-25 * np.abs(w.astype(np.float64)).sum(-1)
    bound = bound + factor * (size * (halves * 2.0**-11 + k * 2.0**-25) + tiny)
    if precision == "fast" and not rounded:  # a single row may be rounded to bytes
        groups = np.abs(w.astype(np.float64)).reshape(w.shape[0], -1, 32).sum(-1)
        most = wide.reshape(*wide.shape[:-1], -1, 32).max(-1)
        bound = bound + factor * 2.0**-7.9 * (most @ groups.T)
    return np.asarray(bound)


def mul_mat_id(
    ids: Array, b: Array, shape: tuple[int, ...], w: Array | None = None, low: Array | None = None,
    scales: Array | None = None, high: Array | None = None, bias: Array | None = None,
    residual: Array | None = None, *, quant: str | None = None, activation: str | None = None,
    gated: bool = False,
) -> Array:  # fmt: skip
    """Each row times the weights (M, K) of its expert, and the epilogue, in float64."""
    own = _numbers(w, low, scales, high, quant, shape[2] * (1 + gated), b.shape[2])
    found = [
        mul_mat(*terms, activation=act)
        for terms, act in _of_rows(ids, b, own, bias, residual, shape, activation, gated)
    ]
    return np.asarray(np.prod(found, axis=0).reshape(shape))


def mul_mat_id_budget(
    ids: Array, b: Array, shape: tuple[int, ...], w: Array | None = None, low: Array | None = None,
    scales: Array | None = None, high: Array | None = None, bias: Array | None = None,
    residual: Array | None = None, *, quant: str | None = None, activation: str | None = None,
    gated: bool = False, few: bool | None = None,
) -> Array:  # fmt: skip
    """The budget of mul_mat for each row; with `gated`, the error of the product of two results. If
    there are only a few rows of float16, their products may be summed in packed float16, as in
    mul_mat_quant. `few` says whether this is done; None decides it by the rule of the plan."""
    cols = shape[2] * (1 + gated)
    own = _numbers(w, low, scales, high, quant, cols, b.shape[2])
    if few is None:
        few = ids.size <= max(8, len(own) // 2) and residual is None
    packed = np.zeros((ids.size, 1, cols))
    if few and b.dtype == np.float16 and quant is not None and TYPES[quant].halves:
        assert low is not None and scales is not None
        rows = np.broadcast_to(b, (*shape[:2], b.shape[2])).reshape(-1, 1, b.shape[2])
        for i, expert in enumerate(np.clip(ids, 0, len(own) - 1).flat):
            one = slice(expert, expert + 1)
            above = None if high is None else high[one]
            packed[i] = 1.2 * _packed(low[one], scales[one], rows[i], own.shape[1:], above, quant)
    found = []
    pairs = _of_rows(ids, b, own, bias, residual, shape, activation, gated)
    for (terms, act), more in zip(pairs, np.split(packed, 1 + gated, 2), strict=True):
        bound = mul_mat_budget(*terms, activation=act) + more
        found.append((bound, np.abs(mul_mat(*terms, activation=act))))
    if not gated:
        return np.asarray(found[0][0].reshape(shape))
    (e, x), (f, y) = found
    return np.asarray((e * y + f * x + e * f + 2.0**-23 * x * y).reshape(shape))


def _numbers(
    w: Array | None, low: Array | None, scales: Array | None, high: Array | None,
    quant: str | None, m: int, k: int,
) -> Array:  # fmt: skip
    """The weights (experts, M, K) as numbers."""
    if quant is not None:
        assert low is not None and scales is not None
        w = _weights(low, scales, (low.shape[0], m, k), high, quant)
    assert w is not None
    return w


def _of_rows(
    ids: Array, b: Array, w: Array, bias: Array | None, residual: Array | None,
    shape: tuple[int, ...], activation: str | None, gated: bool,
) -> list[tuple[tuple[Any, ...], str | None]]:  # fmt: skip
    """The arguments of mul_mat, with each row as a batch, and the activation. A gated product gives
    two such pairs, one for the columns of gates, then one for the other columns."""
    experts = np.clip(ids, 0, len(w) - 1).ravel()
    rows = np.broadcast_to(b, (*shape[:2], b.shape[2])).reshape(-1, 1, b.shape[2])
    added, more = (
        None if v is None else np.broadcast_to(v, to)
        for v, to in ((bias, w.shape[:2]), (residual, shape))
    )
    if more is not None:
        more = more.reshape(-1, 1, shape[2])
    found = []
    for half in range(1 + gated):
        own = slice(half * shape[2], (half + 1) * shape[2])
        of_bias = None if added is None else added[experts, None, own]
        terms = w[experts, own], rows, of_bias, more
        found.append((terms, None if half else activation))
    return found


def rms_norm_linear(
    x: Array, gain: Array, w: Array, shape: tuple[int, ...], scales: Array | None = None,
    high: Array | None = None, bias: Array | None = None, eps: float = 1e-5, quant: str = "",
    activation: str | None = None, gated: bool = False,
) -> Array:  # fmt: skip
    """The product with a row that is divided by its root mean square, in float64."""
    numbers, row = _normed(x, gain, w, scales, high, shape[0] * (1 + gated), quant, eps)
    if not gated:
        return np.asarray(mul_mat(numbers, row, bias, activation=activation)[0])
    a, c = np.split(numbers, 2)
    own = (None, None) if bias is None else np.split(bias, 2)
    gate = mul_mat(a, row, own[0], activation=activation)
    return np.asarray((gate * mul_mat(c, row, own[1]))[0])


def rms_norm_linear_budget(
    x: Array, gain: Array, w: Array, shape: tuple[int, ...], scales: Array | None = None,
    high: Array | None = None, bias: Array | None = None, eps: float = 1e-5, quant: str = "",
    activation: str | None = None, gated: bool = False,
) -> Array:  # fmt: skip
    """The budget of mul_mat. The factor of the row may be wrong by sqrt(K) / 2 + 8 units; with
    `gated`, the product of two results has the errors of both. If products are summed in packed
    float16, as in mul_mat_quant, the normalised row is also rounded to float16."""
    numbers, row = _normed(x, gain, w, scales, high, shape[0] * (1 + gated), quant, eps)
    halves = np.split(numbers, 2) if gated else [numbers]
    own = [bias] if bias is None or not gated else np.split(bias, 2)
    acts = (activation, None)
    packed = np.zeros((1, len(numbers)))
    if scales is not None and x.dtype == np.float16 and TYPES[quant].halves:
        rounded = np.abs(row) @ np.abs(numbers.astype(np.float64)).T * 2.0**-11
        packed = 1.2 * (_packed(w, scales, row, numbers.shape, high, quant) + rounded)
    more_of = np.split(packed, len(halves), axis=1)
    found = []
    for i, part in enumerate(halves):
        extra = own[i % len(own)]
        size = np.abs(row) @ np.abs(part.astype(np.float64)).T
        more = 1.2 * 2.0**-23 * (math.sqrt(len(x)) / 2 + 8) * size + more_of[i]
        value = np.abs(mul_mat(part, row, extra, activation=acts[i]))
        found.append((mul_mat_budget(part, row, extra, activation=acts[i]) + more, value))
    if not gated:
        return np.asarray(found[0][0][0])
    (e, a), (f, c) = found
    return np.asarray((e * c + f * a + e * f + 2.0**-23 * a * c)[0])


def _normed(
    x: Array, gain: Array, w: Array, scales: Array | None, high: Array | None, rows: int,
    quant: str, eps: float,
) -> tuple[Array, Array]:  # fmt: skip
    """The weights as numbers, and the row (1, K) that they are multiplied with."""
    wide = x.astype(np.float64)
    row = wide / np.sqrt((wide**2).mean() + float(np.float32(eps))) * gain.astype(np.float64)
    if scales is not None:
        w = _weights(w, scales, (rows, len(x)), high, quant)
    return w, row[None]


def _packed(
    low: Array, scales: Array, b: Array, shape: tuple[int, int], high: Array | None, quant: str
) -> Array:
    """The error of sums in packed float16: a sum of eight products is rounded to 11 bits eight
    times, and subnormal float16 numbers may become 0."""
    from .quant import packed_sizes

    sizes, steps = packed_sizes(low, scales, shape, high, quant)
    found = 2.0**-8 * (np.abs(b.astype(np.float64)) @ sizes.T) + 2.0**-14 * steps.sum(-1)
    return np.asarray(found)


def _weights(
    low: Array, scales: Array, shape: tuple[int, ...], high: Array | None, quant: str
) -> Array:
    # imported here, so that a family is imported only when it is needed
    from .quant import dequantize

    return dequantize(low, scales, shape, np.float32, high, quant)


def _spread(a: Array, b: Array) -> Array:
    """For each row of b and each row of a, max|a| sum|b| + max|b| sum|a|; 0 if K is 0."""
    if a.shape[-1] == 0:
        return np.zeros(())
    top_a, top_b = (x.max(-1) for x in (a, b))
    sum_a, sum_b = (x.sum(-1) for x in (a, b))
    found = top_a[..., None, :] * sum_b[..., :, None] + top_b[..., :, None] * sum_a[..., None, :]
    return np.asarray(found)


def _repeat(a: Array, b: Array) -> Array:
    """a, repeated to the batch axes of b."""
    a = a.reshape((1,) * (b.ndim - a.ndim) + a.shape)
    for axis, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        if m != n:
            a = np.repeat(a, n // m, axis)
    return a
