"""softmax over the last axis, with mask, ALiBi and sinks; its logarithm and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["alibi_slopes", "log_softmax", "softmax", "softmax_backward"]

Array = np.ndarray[Any, Any]


def softmax(
    x: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    *,
    scale: float = 1.0,
    max_bias: float = 0.0,
    log: bool = False,
) -> Array:
    """softmax(x * scale + slope * mask) over the last axis, in float64.

    `mask` repeats to the shape of x by numpy's rules, or by modulo along a leading axis whose size
    is a multiple of the mask's. A key whose mask is -inf is skipped, whatever its x is. `sinks`
    holds one more logit for each head (axis -3; with fewer than three axes there is one head). It
    counts in the maximum and the sum, and has no output.

    An array without axes is a row of one element. A row without an allowed key is 0 (its logarithm
    is -inf). Otherwise the row is NaN if an allowed logit or the sink is NaN or +inf, or if all
    allowed logits and the sink are -inf. With a finite sink, a row whose allowed logits are all
    -inf is 0 (its logarithm -inf), not NaN.
    """
    if x.ndim == 0:
        row = softmax(x[None], mask, sinks, scale=scale, max_bias=max_bias, log=log)
        return row.reshape(())
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        logits = x * float(np.float32(scale))
        allowed = np.ones(x.shape, bool)
        if mask is not None:
            mask = _repeat(mask.astype(np.float64), x.shape)
            allowed = mask != -np.inf
            logits = np.where(allowed, logits + _per_head(x, max_bias) * mask, -np.inf)
        lead = (*x.shape[:-1], 1)
        sink = np.full(lead, -np.inf)
        if sinks is not None:
            sink = np.broadcast_to(_heads_last(sinks.astype(np.float64), x), lead)
        bad = (allowed & (np.isnan(logits) | (logits == np.inf))).any(-1, keepdims=True)
        bad |= np.isnan(sink) | (sink == np.inf)
        top = np.maximum(logits.max(-1, keepdims=True, initial=-np.inf), sink)
        top = np.where(np.isfinite(top), top, 0.0)
        weights = np.exp(logits - top)
        total = weights.sum(-1, keepdims=True) + np.exp(sink - top)
        some = allowed.any(-1, keepdims=True)
        out = logits - top - np.log(total) if log else weights / total
    out = np.where(some, out, -np.inf if log else 0.0)
    return np.where(bad | (some & (total == 0.0)), np.nan, out)


def log_softmax(
    x: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    *,
    scale: float = 1.0,
    max_bias: float = 0.0,
) -> Array:
    """log(softmax(x * scale + slope * mask)) in float64; -inf for skipped keys."""
    return softmax(x, mask, sinks, scale=scale, max_bias=max_bias, log=True)


def softmax_backward(y: Array, dy: Array, *, scale: float = 1.0) -> Array:
    """scale * y * (dy - sum(dy * y)) over the last axis, in float64."""
    y, dy = np.asarray(y, np.float64), np.asarray(dy, np.float64)
    total = np.sum(dy * y, -1 if y.ndim else None, keepdims=True)
    out: Array = float(np.float32(scale)) * y * (dy - total)
    return out


def alibi_slopes(heads: int, max_bias: float) -> Array:
    """The slope of each head (Press et al. 2021, as in ggml), 1 if max_bias is 0."""
    if max_bias == 0.0:
        return np.ones(heads)
    n2 = 1 << (heads.bit_length() - 1)
    m0 = 2.0 ** (-max_bias / n2)
    m1 = 2.0 ** (-max_bias / 2 / n2)
    return np.array([m0 ** (h + 1) if h < n2 else m1 ** (2 * (h - n2) + 1) for h in range(heads)])


def _per_head(x: Array, max_bias: float) -> Array:
    heads = x.shape[-3] if x.ndim >= 3 else 1
    return _heads_last(alibi_slopes(heads, float(np.float32(max_bias))), x)


def _heads_last(values: Array, x: Array) -> Array:
    """An array of one value for each head, in a shape that broadcasts against x."""
    return values.reshape(-1, 1, 1) if x.ndim >= 3 else values.reshape((1,) * x.ndim)


def _repeat(mask: Array, shape: tuple[int, ...]) -> Array:
    mask = mask.reshape((1,) * (len(shape) - mask.ndim) + mask.shape)
    times = tuple(n // m if m not in (1, n) else 1 for n, m in zip(shape, mask.shape, strict=True))
    return np.broadcast_to(np.tile(mask, times), shape)
