"""flash_attn and its gradients: attention written out, with the S x T matrix, in float64.

The budgets say how large the error of a computation in f32 may be.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .quant import dequantize
from .softmax import alibi_slopes

__all__ = [
    "Attention",
    "attention",
    "flash_attn",
    "flash_attn_backward",
    "flash_attn_backward_budget",
    "flash_attn_budget",
    "flash_attn_quant",
    "flash_attn_quant_budget",
    "lse_budget",
    "over_groups",
]

Array = np.ndarray[Any, Any]


class Attention(NamedTuple):
    """The results of attention and its weights, all float64."""

    o: Array  # (B, H, S, Dv)
    # (B, H, S): log of the sum of exp(logit), including the sink; -inf if there is no key
    lse: Array
    weights: Array  # (B, H, S, T)
    logits: Array  # (B, H, S, T): -inf where the key is masked
    slopes: Array  # (B, H, S, T): d logit / d (scale * q.k), 1 without softcap, 0 where masked


def flash_attn(
    q: Array, k: Array, v: Array, mask: Array | None = None, sinks: Array | None = None,
    lengths: Array | None = None, **options: Any,
) -> Array:  # fmt: skip
    """The output of `attention`, (B, H, S, Dv)."""
    return attention(q, k, v, mask, sinks, lengths, **options).o


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    lengths: Array | None = None,
    *,
    scale: float | None = None,
    causal: bool | str = False,
    window: tuple[int | None, int | None] | None = None,
    max_bias: float = 0.0,
    softcap: float = 0.0,
    precision: str | None = None,
) -> Attention:
    """softmax(cap(scale * q k^T) + slope * mask) v, in float64.

    The shapes are q (B, H, S, D), k (B, Hkv, T, D) and v (B, Hkv, T, Dv); each KV head serves H /
    Hkv neighbouring query heads. `mask` (float: added; bool: True may be seen) broadcasts to (B, H,
    S, T). Query i stands at key p = i + T - S: `causal` hides the keys behind p ("top-left": behind
    i), and `window` (left, right) hides the keys outside p - left .. p + right. cap(s) is softcap *
    tanh(s / softcap). `sinks` (H,) is one more logit per head, without a value. `lengths` (B,):
    batch b has only lengths[b] keys (clamped to the range from 0 to T); later keys are hidden.

    A key is masked if it is hidden, or if its logit is -inf. The contents of a masked key and of
    its value have no effect. A row without a key is 0 and its lse is -inf, with or without a sink.
    A logit of NaN or +inf makes its row NaN. `precision` changes the allowed error of the kernel,
    not the reference.
    """
    heads, group = q.shape[1], q.shape[1] // max(k.shape[1], 1)
    q64 = q.astype(np.float64)
    k64, v64 = (np.repeat(a.astype(np.float64), group, axis=1) for a in (k, v))
    factor = float(np.float32(1.0 / math.sqrt(q.shape[3]) if scale is None else scale))
    with np.errstate(all="ignore"):
        logits = factor * (q64 @ np.swapaxes(k64, -1, -2))
        slopes = np.ones_like(logits)
        if softcap:
            bent = np.tanh(logits / float(np.float32(softcap)))
            logits, slopes = float(np.float32(softcap)) * bent, 1.0 - bent**2
        allowed = np.zeros(logits.shape, bool)
        for b, keys in enumerate(_counts(q.shape[0], k.shape[2], lengths)):
            allowed[b, ..., :keys] = _near(q.shape[2], keys, causal, window)
        if mask is not None and mask.dtype == bool:
            allowed = allowed & mask
        elif mask is not None:
            slope = alibi_slopes(heads, float(np.float32(max_bias)))[:, None, None]
            added = mask.astype(np.float64)
            allowed = allowed & (added != -np.inf)
            logits = logits + slope * added
        logits = np.where(allowed, logits, -np.inf)
        allowed = logits != -np.inf
        lse, weights = _weights(logits, sinks)
        weights = np.where(allowed, weights, 0.0)
        o = _product(weights, v64, allowed)
    return Attention(o, lse, weights, logits, np.where(allowed, slopes, 0.0))


def flash_attn_quant(
    q: Array, k_low: Array, k_scales: Array, v_low: Array, v_scales: Array,
    mask: Array | None = None, sinks: Array | None = None, lengths: Array | None = None,
    quant: str = "q8_0", keys: int = 0, **options: Any,
) -> Array:  # fmt: skip
    """The output of `attention` over keys and values in quantised blocks."""
    k, v = (
        _numbers(q, low, scales, quant, keys)
        for low, scales in ((k_low, k_scales), (v_low, v_scales))
    )
    return attention(q, k, v, mask, sinks, lengths, **options).o


def flash_attn_quant_budget(
    q: Array, k_low: Array, k_scales: Array, v_low: Array, v_scales: Array,
    mask: Array | None = None, sinks: Array | None = None, lengths: Array | None = None,
    quant: str = "q8_0", keys: int = 0, **options: Any,
) -> Array:  # fmt: skip
    """The budget of flash_attn, for bodies that do not round the dequantised numbers."""
    k, v = (
        _numbers(q, low, scales, quant, keys)
        for low, scales in ((k_low, k_scales), (v_low, v_scales))
    )
    return flash_attn_budget(q, k, v, mask, sinks, lengths, **options)


def _numbers(q: Array, low: Array, scales: Array, quant: str, keys: int) -> Array:
    """The keys or values (B, Hkv, T, depth) that planes (B * Hkv, ...) hold."""
    shape = (len(q), low.shape[0] // len(q), keys, low.shape[1] * 32)
    return dequantize(low, scales, shape, np.float32, quant=quant)


def flash_attn_backward(
    q: Array,
    k: Array,
    v: Array,
    o: Array,
    lse: Array,
    do: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    **options: Any,
) -> tuple[Array, Array, Array]:
    """dq, dk, dv of sum(do * flash_attn(q, k, v, mask, sinks, **options)), in float64.

    `o` and `lse` are not used: they are computed again. A row with NaN makes every result that uses
    it NaN.
    """
    f = attention(q, k, v, mask, sinks, **options)
    kv_heads = k.shape[1]
    group = q.shape[1] // max(kv_heads, 1)
    scale = options.get("scale")
    factor = float(np.float32(1.0 / math.sqrt(q.shape[3]) if scale is None else scale))
    allowed = f.logits != -np.inf
    k64, v64 = (np.repeat(a.astype(np.float64), group, axis=1) for a in (k, v))
    with np.errstate(all="ignore"):
        do64 = do.astype(np.float64)
        delta = (do64 * f.o).sum(-1, keepdims=True)
        dp = np.where(allowed, do64 @ np.swapaxes(v64, -1, -2), 0.0)
        ds = np.where(allowed, f.weights * (dp - delta) * f.slopes, 0.0)
        transposed = np.swapaxes(allowed, -1, -2)
        dq = factor * _product(ds, k64, allowed)
        dk = factor * _product(np.swapaxes(ds, -1, -2), q.astype(np.float64), transposed)
        dv = _product(np.swapaxes(f.weights, -1, -2), do64, transposed)
    return dq, over_groups(dk, group), over_groups(dv, group)


def flash_attn_budget(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    lengths: Array | None = None,
    *,
    result: Attention | None = None,
    rounded: bool = False,
    **options: Any,
) -> Array:
    """The largest error of f32 in each element of o.

    It is u (sqrt(T) + 4 + 2 e) sum p|v|, with u = 2^-23 and the weights p of the row. Here e is the
    error of the row's logits in units of u: the largest (sqrt(D) + 4) scale sum|q||k| + 4 |slope *
    mask| of a key with a weight, plus 16 softcap (tanh is accurate to 2^-20 of the cap).

    `rounded`: weights are rounded to float16 before they are multiplied with values. This adds
    2^-11 sum p|v|, and, for weights that are too small for float16, 2^-21 of the largest weight
    times sum|v|. With precision "fast" matrix units may lose another 0.16 T 2^-23 sum p|v|.
    """
    found = result or attention(q, k, v, mask, sinks, lengths, **options)
    v64 = np.abs(np.repeat(v.astype(np.float64), q.shape[1] // k.shape[1], axis=1))
    allowed = found.logits != -np.inf
    size = _product(found.weights, v64, allowed)
    units = math.sqrt(k.shape[2]) + 4 + 2 * _logit_units(q, k, mask, found, options)
    if options.get("precision") == "fast":
        units = units + 0.16 * k.shape[2]
    bound = 2.0**-23 * units * size + 2.0**-126
    if rounded:
        bound += _rounding(found, v64)
    return np.asarray(bound)


def _rounding(found: Attention, v: Array) -> Array:
    """The error of o if weights are rounded to float16; v is |v| of each head."""
    allowed = found.logits != -np.inf
    top = np.where(allowed, np.max(found.weights, -1, keepdims=True, initial=0.0), 0.0)
    halves = 2.0**-11 * _product(found.weights, v, allowed)
    return np.asarray(halves + 2.0**-21 * _product(top, v, allowed))


def lse_budget(
    q: Array, k: Array, mask: Array | None, found: Attention, **options: Any
) -> Array:  # fmt: skip
    """The largest error of f32 in lse: the errors of the logits, of the sum, and of its
    logarithm."""
    units = math.sqrt(k.shape[2]) + 8 + _logit_units(q, k, mask, found, options)[..., 0]
    size = np.where(np.isfinite(found.lse), np.abs(found.lse), 0.0)
    return np.asarray(2.0**-23 * (units + 2 * size))


def flash_attn_backward_budget(
    q: Array,
    k: Array,
    v: Array,
    o: Array,
    lse: Array,
    do: Array,
    mask: Array | None = None,
    sinks: Array | None = None,
    *,
    rounded: bool = False,
    **options: Any,
) -> tuple[Array, Array, Array]:
    """The largest error of f32 in each element of dq, dk and dv. Of the arguments o and lse, only
    the dtype of o matters.

    With u = 2^-23, a sum of K products is off by u (sqrt(K) + 4) sum|a||b|. So a score is off by u
    (sqrt(D) + 4) scale sum|q||k|, and its logit by this plus 4 u |slope mask| plus 16 u softcap.
    The exponential adds u (8 + 2 |logit - lse|), and the rounding of logit and lse adds u (|logit|
    + |lse|). A weight P is off by P times the sum of these errors, `weight`. dP is off by u
    (sqrt(Dv) + 4) sum|do||v|. delta = sum(do o) is off by u (sqrt(Dv) + 4) sum|do||o|, plus the
    rounding of o (u, 2^-11 or 2^-8). The derivative of the soft cap is off by 8 u plus twice the
    error of score / softcap. For dS = P cap' (dP - delta) all these errors add up; in the sums of
    dq and dk they are multiplied by |K| and |Q|. `rounded`: matrix units have computed o from
    rounded weights, so this error of o, times |do|, adds to the error of delta.
    """
    # Values that are not finite belong to hidden keys, so they must not count.
    q, k, v, do = (np.where(np.isfinite(a), a.astype(np.float64), 0.0) for a in (q, k, v, do))
    u = 2.0**-23
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, group, axis=1) for a in (k, v))
    f = attention(q, k, v, mask, sinks, **options)
    scale = options.get("scale")
    scale = abs(1.0 / math.sqrt(q.shape[3]) if scale is None else scale)
    transposed = [np.swapaxes(np.abs(a), -1, -2) for a in (k, v)]
    score = (math.sqrt(q.shape[3]) + 4) * scale * (np.abs(q) @ transposed[0])
    allowed = f.logits != -np.inf
    logits = np.where(allowed, f.logits, 0.0)
    lse = np.where(np.isfinite(f.lse), f.lse, 0.0)[..., None]
    softcap = float(options.get("softcap", 0.0))
    weight = score + 16 * softcap + 8 + 2 * np.abs(logits - lse) + np.abs(logits) + np.abs(lse)
    if mask is not None and mask.dtype != bool:
        slopes = alibi_slopes(q.shape[1], float(options.get("max_bias", 0.0)))[:, None, None]
        weight = weight + 4 * np.abs(slopes * np.where(np.isfinite(mask), mask, 0.0))
    products = (math.sqrt(v.shape[3]) + 4) * (np.abs(do) @ transposed[1])
    rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(o.dtype.name, u) / u
    delta = (do * f.o).sum(-1, keepdims=True)
    sums = (math.sqrt(v.shape[3]) + 4 + rounding) * (np.abs(do) * np.abs(f.o)).sum(
        -1, keepdims=True
    )
    if rounded:
        sums = sums + (np.abs(do) * _rounding(f, np.abs(v))).sum(-1, keepdims=True) / u
    spread = np.where(allowed, np.abs(do @ np.swapaxes(v, -1, -2) - delta), 0.0)
    bend = 8 + 2 * score / softcap if softcap else 2.0
    ds = f.weights * f.slopes * spread
    off = ds * (weight + bend) + f.weights * f.slopes * (products + sums + 2 * spread)
    terms, rows = math.sqrt(k.shape[2]) + 4, math.sqrt(q.shape[2] * group) + 4
    over = np.swapaxes(off + rows * ds, -1, -2)
    shares = np.swapaxes(f.weights * (weight + rows), -1, -2)
    dq = scale * (off + terms * ds) @ np.abs(k)
    dk = over_groups(scale * over @ np.abs(q), group)
    dv = over_groups(shares @ np.abs(do), group)
    return u * dq + 2.0**-120, u * dk + 2.0**-120, u * dv + 2.0**-120


def _logit_units(
    q: Array, k: Array, mask: Array | None, found: Attention, options: dict[str, Any]
) -> Array:
    """The error of a row's logits in units of 2^-23, (B, H, S, 1)."""
    scale = options.get("scale")
    factor = abs(1.0 / math.sqrt(q.shape[3]) if scale is None else scale)
    group = q.shape[1] // k.shape[1]
    with np.errstate(all="ignore"):
        k64 = np.swapaxes(np.abs(k.astype(np.float64)), -1, -2)
        q64 = np.abs(q.astype(np.float64)).reshape(*k64.shape[:2], group * q.shape[2], q.shape[3])
        size = factor * (q64 @ k64).reshape(*q.shape[:3], k64.shape[3])
        units = (math.sqrt(q.shape[3]) + 4) * size
        if mask is not None and mask.dtype != bool:
            slope = alibi_slopes(q.shape[1], float(options.get("max_bias", 0.0)))[:, None, None]
            units = units + 4 * np.abs(slope * mask.astype(np.float64))
        units = np.where((found.weights > 2.0**-40) & np.isfinite(units), units, 0.0)
    top = np.max(units, -1, keepdims=True, initial=0.0)
    return np.asarray(top + 16 * float(options.get("softcap", 0.0)))


def _counts(batch: int, keys: int, lengths: Array | None) -> list[int]:
    """The number of keys of each batch."""
    return [keys] * batch if lengths is None else np.clip(lengths, 0, keys).tolist()


def _near(
    queries: int, keys: int, causal: bool | str, window: tuple[int | None, int | None] | None
) -> Array:
    """(S, T): True for the keys that `causal` and `window` allow each query."""
    i, j = np.arange(queries)[:, None], np.arange(keys)
    at = i + keys - queries
    near = np.ones((queries, keys), bool)
    if causal:
        near &= j <= (i if causal == "top-left" else at)
    left, right = window or (None, None)
    if left is not None:
        near &= j >= at - left
    if right is not None:
        near &= j <= at + right
    return near


def _weights(logits: Array, sinks: Array | None) -> tuple[Array, Array]:
    """lse and softmax of the logits, with the sink as one more logit."""
    sink = np.full((1, 1, 1, 1), -np.inf)
    if sinks is not None:
        sink = sinks.astype(np.float64)[None, :, None, None]
    some = (logits != -np.inf).any(-1, keepdims=True)
    bad = (np.isnan(logits) | (logits == np.inf)).any(-1, keepdims=True)
    bad |= some & (np.isnan(sink) | (sink == np.inf))
    top = np.maximum(np.max(logits, -1, keepdims=True, initial=-np.inf), sink)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(logits - top)
    total = weights.sum(-1, keepdims=True) + np.exp(sink - top)
    lse = np.where(bad, np.nan, np.where(some, top + np.log(total), -np.inf))
    weights = np.where(bad, np.nan, weights / np.where(some, total, 1.0))
    return lse[..., 0], weights


def _product(weights: Array, rows: Array, allowed: Array) -> Array:
    """weights @ rows, without the terms that are not allowed: their rows may even hold NaN."""
    if np.isfinite(rows).all():
        return np.asarray(weights @ rows)
    weights = np.where(allowed, weights, 0.0)
    rows = np.where(np.asarray(allowed.any(-2))[..., None], rows, 0.0)
    with np.errstate(all="ignore"):
        if np.isfinite(rows).all():  # False for the keys after `lengths`, which no query may see
            return np.asarray(weights @ rows)
        terms = weights[..., :, :, None] * rows[..., None, :, :]
        return np.asarray(np.where(allowed[..., None], terms, 0.0).sum(-2))


def over_groups(grads: Array, group: int) -> Array:
    """The sum over the query heads of each KV head."""
    b, h, *rest = grads.shape
    return np.asarray(grads.reshape(b, h // group, group, *rest).sum(2))
