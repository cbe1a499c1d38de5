"""Linear recurrences in float64, and the largest error of f32."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["linear_recurrence", "linear_recurrence_budget"]

Array = np.ndarray[Any, Any]


def linear_recurrence(
    q: Array, k: Array, v: Array, decay: Array, state: Array, pair: Array | None = None,
    rate: Array | None = None, every: int = 0, before: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """The result (B, T, H, V) and the stored states (B, ceil(T / every), H, K, V)."""
    length = q.shape[1]
    s = state.astype(np.float64)
    rows, kept = np.zeros(v.shape), []
    for t in range(length):
        f = decay[:, t].astype(np.float64)
        if rate is not None:
            f = np.exp(f * rate.astype(np.float64))
        following = f[..., None] * s + k[:, t, :, :, None].astype(np.float64) * v[:, t, :, None]
        if pair is not None:
            a, b = (pair[:, t, :, i].astype(np.float64) for i in range(2))
            following += b[..., None] * np.einsum("bhk,bhkv->bhv", a, s)[..., None, :]
        rows[:, t] = np.einsum("bhk,bhkv->bhv", q[:, t].astype(np.float64),
                               s if before else following)  # fmt: skip
        s = following
        if (every and (t + 1) % every == 0) or t + 1 == length:
            kept.append(s)
    shape = (state.shape[0], 0, *state.shape[1:])
    return rows, np.stack(kept, 1) if kept else np.zeros(shape)


def linear_recurrence_budget(
    q: Array, k: Array, v: Array, decay: Array, state: Array, pair: Array | None = None,
    rate: Array | None = None, every: int = 0, before: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """Each term takes part in at most n roundings: some in each step, as many as there are rows in
    a sum over rows, and some in the exponential of a factor. With absolute values as inputs, the
    recurrence gives the sum of the magnitudes of all terms, and the error is at most n units of
    this sum (Higham, section 3.1)."""
    length, depth = q.shape[1], q.shape[3]
    factors = decay.astype(np.float64)
    each = 5.0 + (0 if pair is None else depth + 3)
    if rate is not None:
        factors = factors * rate.astype(np.float64)
        each += 4 + 2 * float(np.abs(factors).max(initial=0))
        factors = np.exp(factors)
    y, states = linear_recurrence(
        np.abs(q), np.abs(k), np.abs(v), np.abs(factors), np.abs(state),
        None if pair is None else np.abs(pair), None, every, before,
    )  # fmt: skip
    unit = (length * each + depth + 4) * 2.0**-24
    return unit * y, unit * states
