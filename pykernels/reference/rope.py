"""rope in float64, and the tables of its angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = [
    "angles", "magnitude", "rope", "rope_append", "rope_append_budget", "rope_budget", "rope_table",
    "turn",
]  # fmt: skip

Array = np.ndarray[Any, Any]
ROWS = 1024  # rows in each half of a table


def angles(
    dims: int, base: float = 10000.0, freq_scale: float = 1.0, ext_factor: float = 0.0,
    beta_fast: float = 32.0, beta_slow: float = 1.0, n_ctx_orig: int = 0,
    freq_factors: Array | None = None,
) -> Array:  # fmt: skip
    """The angle of each pair at position 1, in radians, float64 (dims // 2,).

    The angle of pair i is base^(-2 i / dims) * freq_scale / freq_factors[i]. With an ext_factor
    (YaRN), pairs that turn often within n_ctx_orig positions keep their unscaled angle: completely
    with more than beta_fast turns, not at all with fewer than beta_slow turns, and in proportion
    between these numbers.
    """
    i = np.arange(dims // 2)
    own = base ** (-2.0 * i / dims)
    if freq_factors is not None:
        own = own / np.asarray(freq_factors, np.float64)
    if ext_factor == 0.0:
        return freq_scale * own

    def pair(turns: float) -> float:
        with np.errstate(divide="ignore"):  # infinite if n_ctx_orig is 0, as in ggml
            there = np.log(n_ctx_orig / (turns * 2 * np.pi))
        return float(dims * there / (2 * math.log(base)))

    low = max(0.0, np.floor(pair(beta_fast)))
    high = min(dims - 1.0, np.ceil(pair(beta_slow)))
    ramp = 1 - np.clip((i - low) / max(0.001, high - low), 0, 1)
    share = ramp * ext_factor
    found: Array = freq_scale * own * (1 - share) + own * share
    return found


def magnitude(freq_scale: float = 1.0, ext_factor: float = 0.0, attn_factor: float = 1.0) -> float:
    """The factor by which YaRN scales the result, in addition to the rotation."""
    if ext_factor == 0.0:
        return attn_factor
    return attn_factor * (1 + 0.1 * math.log(1 / freq_scale))


def rope_table(angle: Array, scale: float = 1.0) -> Array:
    """A table for angles (pairs,), float32 (2, 1024, 2, pairs): cosine and sine of 1024 j times
    each angle, multiplied by `scale`, then cosine and sine of j times each angle, for j < 1024."""
    rows = np.arange(ROWS, dtype=np.float64)[:, None]
    found = np.empty((2, ROWS, 2, len(angle)))
    for half, step, factor in ((0, ROWS, scale), (1, 1, 1.0)):
        turned = rows * step * angle
        found[half, :, 0], found[half, :, 1] = factor * np.cos(turned), factor * np.sin(turned)
    return found.astype(np.float32)


def turn(x: Array, cosine: Array, sine: Array, style: str) -> Array:
    """x with the pairs of its last axis rotated by the angles that have this cosine and sine (...,
    pairs). Columns after the pairs do not change."""
    out = x.astype(np.float64)
    pairs = cosine.shape[-1]
    turned = out[..., : 2 * pairs]
    if style == "neox":
        first, second = turned[..., :pairs], turned[..., pairs:]
    else:
        first, second = turned[..., ::2], turned[..., 1::2]
    a, b = first.copy(), second.copy()
    first[...], second[...] = a * cosine - b * sine, a * sine + b * cosine
    return out


def _halves(x: Array, positions: Array, table: Array) -> tuple[Array, Array, Array, Array]:
    """Cosine and sine of the coarse part of each position's angles, then of the fine part."""
    q = np.broadcast_to(positions, (*x.shape[:-3], x.shape[-2])).astype(np.int64)
    q = np.where((q >= 0) & (q < ROWS * ROWS), q, 0)
    t = table.astype(np.float64)
    found = [t[0, q // ROWS, 0], t[0, q // ROWS, 1], t[1, q % ROWS, 0], t[1, q % ROWS, 1]]
    cc, sc, cf, sf = (v[..., None, :, :] for v in found)
    return cc, sc, cf, sf


def rope(
    x: Array, positions: Array, table: Array, style: str = "normal", backward: bool = False
) -> Array:
    """x (..., heads, tokens, width) rotated by the angles of positions (..., tokens); a position
    outside [0, 1048576) counts as 0."""
    cc, sc, cf, sf = _halves(x, positions, table)
    sine = sc * cf + cc * sf
    return turn(x, cc * cf - sc * sf, -sine if backward else sine, style)


def rope_budget(
    x: Array, positions: Array, table: Array, style: str = "normal", backward: bool = False
) -> Array:
    """The error of f32, with roundings of 2^-24 each. Cosine and sine take two products and their
    sum, and the rotation takes two products and their sum again; each rounding is relative to the
    terms. Subnormal results may become 0."""
    cc, sc, cf, sf = (np.abs(v) for v in _halves(x, positions, table))
    c, s = cc * cf + sc * sf, sc * cf + cc * sf
    size = np.abs(np.where(np.isfinite(x), x, 0).astype(np.float64))
    # The sums of the magnitudes of the terms are |a| c + |b| s for one result, and |a| s + |b| c
    # for the other.
    most = np.maximum(turn(size, c, s, style), turn(size, c, -s, style))
    found: Array = most * 4.001 * 2.0**-24 + 2.0**-124
    return found


def rope_append(
    x: Array, positions: Array, table: Array, cache: Array, style: str = "normal"
) -> tuple[Array, Array]:
    """The cache after the keys and values of x are written to it; and the rotated queries. For a
    position outside of the cache (or of the table) nothing is written, and the queries are rotated
    as at position 0."""
    limit = min(cache.shape[-2], ROWS * ROWS)
    q = np.broadcast_to(positions, (*x.shape[:-3], x.shape[-2])).astype(np.int64)
    inside = (q >= 0) & (q < limit)
    turned = rope(x, np.where(inside, q, 0), table, style)
    return _appended(x, turned, np.where(inside, q, -1), cache.astype(np.float64))


def rope_append_budget(
    x: Array, positions: Array, table: Array, cache: Array, style: str = "normal"
) -> tuple[Array, Array]:
    """The budget of `rope` for queries and keys; values and the rest of the cache are copied."""
    limit = min(cache.shape[-2], ROWS * ROWS)
    q = np.broadcast_to(positions, (*x.shape[:-3], x.shape[-2])).astype(np.int64)
    inside = (q >= 0) & (q < limit)
    own = rope_budget(x, np.where(inside, q, 0), table, style)
    zeros = np.zeros(cache.shape)
    return _appended(np.zeros(x.shape), own, np.where(inside, q, -1), zeros)


def _appended(x: Array, turned: Array, rows: Array, cache: Array) -> tuple[Array, Array]:
    """The cache with the heads of x in its rows, keys rotated; and the rotated queries."""
    heads = cache.shape[-3]
    queries = x.shape[-3] - heads
    new = np.concatenate(
        [turned[..., queries : queries + heads // 2, :, :], x[..., queries + heads // 2 :, :, :]],
        axis=-3,
    )
    for at in np.ndindex(rows.shape):
        if rows[at] >= 0:
            cache[(*at[:-1], slice(None), rows[at])] = new[(*at[:-1], slice(None), at[-1])]
    return cache, turned[..., :queries, :, :]
