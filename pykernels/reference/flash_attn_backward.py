"""flash_attn_backward: the gradients of attention, see flash_attn, and what f32 may be off by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .flash_attn import attention, flash_attn_backward, over_groups
from .softmax import alibi_slopes

__all__ = ["budget", "flash_attn_backward", "problem"]

Array = np.ndarray[Any, Any]
Problem = dict[str, tuple[tuple[int, ...], str]]


def problem(
    shape: tuple[int, ...] = (8, 16, 16, 1024, 1024, 64),
    dtype: str = "float32",
    out: str = "float32",
) -> Problem:
    """Shapes and dtypes for (batch, heads, KV heads, queries, keys, head size)."""
    b, h, hkv, s, t, d = shape
    wide, narrow = (b, h, s, d), (b, hkv, t, d)
    given = {"q": wide, "k": narrow, "v": narrow, "o": wide}
    return {
        **{n: (size, dtype) for n, size in given.items()},
        "lse": ((b, h, s), "float32"), "do": (wide, dtype),
        "dq": (wide, out), "dk": (narrow, out), "dv": (narrow, out),
    }  # fmt: skip


def budget(
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
    """What f32 may be off by in each element of dq, dk and dv; of o and lse only o's dtype counts.

    With u = 2^-23 and sums of K products off by u (sqrt(K) + 4) sum|a||b|, as everywhere:
    a score is off by u (sqrt(D) + 4) scale sum|q||k|, its logit by that, 4 u |slope mask| and
    16 u softcap; the exponential adds u (8 + 2 |logit - lse|), the rounding of logit and lse
    u (|logit| + |lse|). So a weight P is off by P times the sum of these, `weight`. dP is off by
    u (sqrt(Dv) + 4) sum|do||v|, delta by the same with o (plus its rounding: u, or 2^-11); the
    derivative of the soft cap by 8 u and twice the error of score / softcap. Then for
    dS = P cap' (dP - delta) all of it adds up, weighted by |K| or |Q| in the sums.
    """
    # Values that are not finite stand where nothing can be seen: they must not count.
    q, k, v, do = (np.where(np.isfinite(a), a.astype(np.float64), 0.0) for a in (q, k, v, do))
    u = 2.0**-23
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, group, axis=1) for a in (k, v))
    f = attention(q, k, v, mask, sinks, **options)
    scale = options.get("scale")
    scale = abs(1.0 / math.sqrt(q.shape[3]) if scale is None else scale)
    turned = [np.swapaxes(np.abs(a), -1, -2) for a in (k, v)]
    score = (math.sqrt(q.shape[3]) + 4) * scale * (np.abs(q) @ turned[0])
    allowed = f.logits != -np.inf
    logits = np.where(allowed, f.logits, 0.0)
    lse = np.where(np.isfinite(f.lse), f.lse, 0.0)[..., None]
    softcap = float(options.get("softcap", 0.0))
    weight = score + 16 * softcap + 8 + 2 * np.abs(logits - lse) + np.abs(logits) + np.abs(lse)
    if mask is not None and mask.dtype != bool:
        slopes = alibi_slopes(q.shape[1], float(options.get("max_bias", 0.0)))[:, None, None]
        weight = weight + 4 * np.abs(slopes * np.where(np.isfinite(mask), mask, 0.0))
    products = (math.sqrt(v.shape[3]) + 4) * (np.abs(do) @ turned[1])
    rounding = 2.0**-11 / u if o.dtype == np.float16 else 1.0
    delta = (do * f.o).sum(-1, keepdims=True)
    sums = (math.sqrt(v.shape[3]) + 4 + rounding) * (np.abs(do) * np.abs(f.o)).sum(
        -1, keepdims=True
    )
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
