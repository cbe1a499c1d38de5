"""Steps of optimisers in float64, and the largest error of float32."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .optim_rules import Near, advance, numbers, take

__all__ = [
    "adam_step",
    "adam_step_budget",
    "adam_step_errors",
    "adamw_step",
    "adamw_step_budget",
    "clip_by_norm",
    "clip_by_norm_budget",
    "optimizer_count",
    "optimizer_count_budget",
    "optimizer_step",
    "optimizer_step_budget",
    "schedule_step",
    "schedule_step_budget",
    "sgd_step",
    "sgd_step_budget",
    "sgd_step_errors",
    "some_segments",
    "some_settings",
    "some_steps",
    "squares",
    "step_advance",
]  # fmt: skip

Array = np.ndarray[Any, Any]
U = 2.0**-24  # half a unit in the last place of f32, as a relative error
TINY = 2.0**-126  # results below this may become 0
# Errors in units of U; a unit in the last place is 2 U. The error of a quotient is up to 2.5 units
# in the last place; the error of an inverse square root is up to 2. A square root is a quotient by
# an inverse square root, so it has both errors. The error of expm1 is up to 2.5 units in the last
# place, and the error of its argument up to 2 U.
QUOTIENT, INVERSE_ROOT, ROOT, EXPM1 = 5, 4, 9, 7


def adam_step(
    grad: Array, exp_avg: Array, exp_avg_sq: Array, param: Array, count: Array | None = None,
    rate: Array | None = None, settings: Array | None = None, skip: Array | None = None,
    step: int = 1, lr: float = 0.001, eps: float = 1e-8, weight_decay: float = 0.0,
    beta1: float = 0.9, beta2: float = 0.999, *,
    decoupled: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The moments and the parameter after a step."""
    if settings is not None:
        beta1, beta2, lr, eps, weight_decay = _adam_settings(settings)
    g, m, v, w = (np.asarray(a, np.float64) for a in (grad, exp_avg, exp_avg_sq, param))
    if _skipped(skip):
        return m, v, w
    t = step if count is None else int(count.item()) + 1
    rate_of = _single(lr) if rate is None else float(rate.item())
    eps, weight_decay = _single(eps), _single(weight_decay)
    if not decoupled:
        g = g + weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    shrink = rate_of * weight_decay if decoupled else 0.0
    root = np.sqrt(v / (1 - beta2**t))
    return m, v, w - shrink * w - rate_of * m / (1 - beta1**t) / (root + eps)


adamw_step = functools.partial(adam_step, decoupled=True)


def adam_step_errors(
    grad: Array, exp_avg: Array, exp_avg_sq: Array, param: Array, count: Array | None = None,
    rate: Array | None = None, settings: Array | None = None, skip: Array | None = None,
    step: int = 1, lr: float = 0.001, eps: float = 1e-8, weight_decay: float = 0.0,
    beta1: float = 0.9, beta2: float = 0.999, *,
    decoupled: bool = False,
    before: tuple[Any, Any, Any] = (0.0, 0.0, 0.0),
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The largest error of the results in f32, from the errors of moments and parameter before the
    step.

    The bound is of first order and counts each rounding, whether products and sums are fused or
    not.
    """
    if settings is not None:
        beta1, beta2, lr, eps, weight_decay = _adam_settings(settings)
    g, m, w = (np.abs(np.asarray(a, np.float64)) for a in (grad, exp_avg, param))
    off_m, off_v, off_w = before
    t = step if count is None else int(count.item()) + 1
    rate_of = _single(lr) if rate is None else float(rate.item())
    off_g: Any = 0.0
    if not decoupled and weight_decay:
        g = g + weight_decay * w
        off_g = weight_decay * off_w + 2 * U * g
    new_m, new_v, new_w = adam_step(
        grad, exp_avg, exp_avg_sq, param, count, rate, None, None, step, lr, eps, weight_decay,
        beta1, beta2, decoupled=decoupled,
    )  # fmt: skip
    rest1, rest2 = 1 - beta1, 1 - beta2
    spans = rest1 * 3 * (g + m) if rest1 < 0.5 else 2 * (beta1 * m + rest1 * g)
    off_m = beta1 * off_m + rest1 * off_g + U * (spans + np.abs(new_m)) + TINY
    off_v = beta2 * off_v + rest2 * 2 * g * off_g + 4 * U * new_v + 3 * TINY
    # The error of `spread` is half the error of its argument, plus its own rounding.
    spread = 1 / math.sqrt(1 - beta2**t)
    root = np.sqrt(new_v)
    off_root = np.maximum(
        np.sqrt(new_v + off_v) - root, root - np.sqrt(np.maximum(new_v - off_v, 0.0))
    )
    off_root = off_root + ROOT * U * root + math.sqrt(TINY)
    below = root * spread + eps
    off_below = off_root * spread + (EXPM1 / 2 + INVERSE_ROOT + 2) * U * below
    size = rate_of / (1 - beta1**t)
    least = np.maximum(below - off_below, eps)
    share = np.abs(new_m) / below
    off_share = (off_m + share * off_below) / least + QUOTIENT * U * share
    off = size * (off_share + (EXPM1 + QUOTIENT + 1) * U * share)
    shrink = rate_of * weight_decay if decoupled else 0.0
    off = off + shrink * (off_w + 3 * U * w) + U * size * share
    return off_m, off_v, off_w + off + U * np.abs(new_w) + TINY


adam_step_budget = adam_step_errors
adamw_step_budget = functools.partial(adam_step_errors, decoupled=True)


def sgd_step(
    grad: Array, param: Array, momentum_buffer: Array | None = None, rate: Array | None = None,
    settings: Array | None = None, skip: Array | None = None, lr: float = 0.001,
    momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """The parameter after a step, and the momentum_buffer if there is one."""
    if settings is not None:
        lr, momentum, weight_decay = settings.tolist()
    g, w = np.asarray(grad, np.float64), np.asarray(param, np.float64)
    if _skipped(skip):
        return (w,) if momentum_buffer is None else (w, momentum_buffer.astype(np.float64))
    rate_of = _single(lr) if rate is None else float(rate.item())
    momentum, weight_decay = _single(momentum), _single(weight_decay)
    g = g + weight_decay * w
    if momentum_buffer is None:
        return (w - rate_of * g,)
    v = momentum * momentum_buffer.astype(np.float64) + g
    return w - rate_of * (g + momentum * v if nesterov else v), v


def sgd_step_errors(
    grad: Array, param: Array, momentum_buffer: Array | None = None, rate: Array | None = None,
    settings: Array | None = None, skip: Array | None = None, lr: float = 0.001,
    momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False, *,
    before: tuple[Any, ...] = (0.0, 0.0),
) -> tuple[Array, ...]:  # fmt: skip
    """The largest error of the results in f32, from the errors before the step."""
    if settings is not None:
        lr, momentum, weight_decay = settings.tolist()
    g, w = (np.abs(np.asarray(a, np.float64)) for a in (grad, param))
    rate_of = abs(lr if rate is None else float(rate.item()))
    given = lr, momentum, weight_decay, nesterov
    found = sgd_step(grad, param, momentum_buffer, rate, None, None, *given)
    off_w = before[0]
    g, off = g + weight_decay * w, weight_decay * off_w
    off = off + 2 * U * g + TINY
    off_v = off
    if momentum_buffer is not None:
        v = momentum * np.abs(momentum_buffer.astype(np.float64)) + g
        off_v = momentum * before[1] + off + 2 * U * v
        g, off = (g + momentum * v, off + momentum * off_v) if nesterov else (v, off_v)
        off = off + 2 * U * g
    off_w = off_w + rate_of * (off + U * g) + U * np.abs(found[0]) + TINY
    return (off_w,) if momentum_buffer is None else (off_w, off_v)


sgd_step_budget = sgd_step_errors


def clip_by_norm(norm: Array, x: Array, max_norm: float = 1.0) -> Array:
    """x, scaled down if the norm is too large."""
    limit, total = _single(max_norm), float(norm.item()) + 1e-6
    out: Array = x.astype(np.float64) * (limit / total if total > limit else 1.0)
    return out


def clip_by_norm_budget(norm: Array, x: Array, max_norm: float = 1.0) -> Array:
    """The largest error: two roundings and a quotient."""
    out: Array = (QUOTIENT + 2) * U * np.abs(clip_by_norm(norm, x, max_norm)) + TINY
    return out


def step_advance(count: Array, skip: Array | None = None) -> Array:
    """The count plus one, unless the step is skipped."""
    return np.asarray(count + (not _skipped(skip)), np.int32)


def optimizer_step(
    grad: Array, settings: Array, param: Array, rate: Array | None = None,
    skip: Array | None = None, first: Array | None = None, second: Array | None = None,
    third: Array | None = None, rule: str = "ema",
) -> tuple[Array, ...]:  # fmt: skip
    """The parameter and the states after a step."""
    found = _taken(grad, settings, param, rate, skip, first, second, third, rule)
    return tuple(np.asarray(n.value) for n in found)


def optimizer_step_budget(
    grad: Array, settings: Array, param: Array, rate: Array | None = None,
    skip: Array | None = None, first: Array | None = None, second: Array | None = None,
    third: Array | None = None, rule: str = "ema",
) -> tuple[Array, ...]:  # fmt: skip
    """The largest error of f32, rounding by rounding."""
    found = _taken(grad, settings, param, rate, skip, first, second, third, rule)
    return tuple(np.broadcast_to(n.off, param.shape) for n in found)


def _taken(
    grad: Array, settings: Array, param: Array, rate: Array | None, skip: Array | None,
    first: Array | None, second: Array | None, third: Array | None, rule: str,
) -> tuple[Near, ...]:  # fmt: skip
    given = [Near(a.astype(np.float64)) for a in (first, second, third) if a is not None]
    w = Near(param.astype(np.float64))
    if _skipped(skip):
        return w, *given
    of = None if rate is None else Near(float(rate.item()))
    return take(rule, Near(grad.astype(np.float64)), w, given, numbers(settings), of)


def optimizer_count(
    count: Array, settings: Array, skip: Array | None = None, rule: str = "amsgrad"
) -> tuple[Array, Array]:
    """The count plus one, and the settings with the numbers that depend on the step, computed for
    this new count. Both are unchanged if the step is skipped."""
    if _skipped(skip):
        return count, settings
    after = advance(rule, int(count.item()) + 1, numbers(settings))
    return np.asarray(count + 1, np.int32), np.array([n.value for n in after])


def optimizer_count_budget(
    count: Array, settings: Array, skip: Array | None = None, rule: str = "amsgrad"
) -> tuple[Array, Array]:
    """The largest error of f32."""
    after = advance(rule, int(count.item()) + 1, numbers(settings))
    return np.zeros(count.shape), np.array([n.off for n in after])


def schedule_step(table: Array, count: Array, advance: bool = True) -> tuple[Array, Array]:
    """The count and the value of the next step."""
    t = int(count.item()) + bool(advance)
    rows = table.astype(np.float64)
    start, kind, first, last, length, log = rows[
        max(i for i in range(len(rows)) if i == 0 or rows[i, 0] <= t)
    ]
    share = min(max((t - start) / length, 0.0), 1.0)
    value = first + (last - first) * share
    if kind == 1:
        value = last + (first - last) * (1 + math.cos(math.pi * share)) / 2
    elif kind == 2:
        value = first * math.exp(log * (t - start))
    return np.full(count.shape, t, np.int32), np.float64(value).reshape(1)


def schedule_step_budget(table: Array, count: Array, advance: bool = True) -> tuple[Array, Array]:
    """The largest error: some roundings of the largest number in the table, and for an exponential
    also roundings of its argument."""
    t, value = schedule_step(table, count, advance)
    scale = float(np.max(np.abs(table[:, 2:4])))
    off = 24 * U * scale + (4 + float(np.max(np.abs(table[:, 5]))) * int(t.item())) * 2 * U * abs(
        float(value.item())
    )
    return np.zeros(count.shape), np.full(1, off)


def some_segments() -> Array:
    """A table of phases, for cases of export: a straight line, half a cosine, an exponential."""
    rows = [(0, 0, 0, 1, 2, 0), (2, 1, 1, 0.5, 7, 0), (9, 2, 0.5, 0, 1, -0.1)]
    return np.array(rows, np.float32)


def some_settings() -> Array:
    """Settings that fit any rule, for cases of export."""
    logs = [math.log(b) for b in (0.9, 0.99)]
    return np.array(
        [0.9, 0.1, logs[0], 0.99, 0.01, logs[1], 0.01, 1e-3, 0.1, 0.5, 1, 0.8, 1.5, 0.7, 0.3],
        np.float32,
    )


def squares(grad: Array) -> Array:
    """Second moments, which are not negative, for cases of export."""
    return np.square(grad.astype(np.float64))


def some_steps() -> Array:
    """A number of steps, for cases of export."""
    return np.array([3], np.int32)


def _skipped(skip: Array | None) -> bool:
    return skip is not None and bool(skip.item() != 0)


def _adam_settings(settings: Array) -> tuple[float, ...]:
    """Both betas, lr, eps and weight_decay."""
    return tuple(float(settings[i]) for i in (0, 3, 6, 7, 8))


def _single(x: float) -> float:
    """A number rounded to float32, as the kernel gets it."""
    return float(np.float32(x))
