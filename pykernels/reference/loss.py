"""Losses in float64."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

__all__ = [
    "binary_cross_entropy_with_logits", "cross_entropy", "cross_entropy_backward",
    "cross_entropy_stats", "huber_loss", "kl_div", "l1_loss", "mse_loss", "nll_loss",
    "nll_loss_backward", "smooth_l1_loss", "total_weight",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Reduction = Literal["none", "mean", "sum"]


def cross_entropy(
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """-sum_c t_c log(softmax(x)_c) over the last axis; `_targets` defines t.

    A row that counts is NaN if a logit is NaN or +inf, or if all logits are -inf.
    """
    t, counted, weights = _targets(x, target, weight, ignore_index, label_smoothing)
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        top = x.max(-1, keepdims=True)
        logs = x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))
        # If the target is a class, the other classes add nothing, even if their logit is -inf. If
        # it is a weight for each class, weight 0 with a logit of -inf makes the loss NaN.
        losses = -(t * logs).sum(-1, where=t != 0 if target.dtype.kind != "f" else True)
        return _reduced(np.where(counted, losses, 0.0), weights, reduction)


def cross_entropy_backward(
    x: Array,
    target: Array,
    stats: Array | None,
    dy: Array,
    total: Array | None = None,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """The gradient of x, from the gradient of the loss and, if the loss is a mean, its divisor.

    The kernel reads `stats` instead of all logits of a row.
    """
    t, counted, _ = _targets(x, target, weight, ignore_index, label_smoothing)
    with np.errstate(all="ignore"):
        found = _softmax(x) * t.sum(-1, keepdims=True) - t
        return np.where(counted[..., None], _factor(dy, total) * found, 0.0)


def cross_entropy_stats(
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """The numbers that the gradient reads: the largest logit of each row, and sum_c t_c / sum_c
    exp(x_c - largest)."""
    t, counted, _ = _targets(x, target, weight, ignore_index, label_smoothing)
    x = x.astype(np.float64)
    top = x.max(-1)
    with np.errstate(all="ignore"):
        share = t.sum(-1) / np.exp(x - top[..., None]).sum(-1)
    return np.stack([np.where(counted, top, 0.0), np.where(counted, share, 0.0)], -1)


def nll_loss(
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Array:
    """-weight[class] * x[..., class] of each row."""
    _, counted, weights = _targets(x, target, weight, ignore_index, 0.0)
    own = np.clip(target, 0, x.shape[-1] - 1)[..., None].astype(np.int64)
    picked = np.take_along_axis(np.asarray(x, np.float64), own, -1)[..., 0]
    with np.errstate(all="ignore"):
        return _reduced(np.where(counted, -weights * picked, 0.0), weights, reduction)


def nll_loss_backward(
    target: Array,
    dy: Array,
    total: Array | None = None,
    weight: Array | None = None,
    *,
    shape: tuple[int, ...],
    ignore_index: int = -100,
) -> Array:
    """The gradient of x, which has the shape `shape`, from the gradient of the loss and, if the
    loss is a mean, its divisor."""
    t, counted, _ = _targets(np.zeros(shape), target, weight, ignore_index, 0.0)
    with np.errstate(all="ignore"):
        return np.where(counted[..., None], -_factor(dy, total) * t, 0.0)


def mse_loss(x: Array, target: Array) -> Array:
    """(x - target)^2 of each element."""
    return _error(x, target) ** 2


def l1_loss(x: Array, target: Array) -> Array:
    """|x - target| of each element."""
    return np.abs(_error(x, target))


def huber_loss(x: Array, target: Array, delta: float = 1.0) -> Array:
    """For each element, half the squared error up to delta, and linear beyond."""
    size, error = float(np.float32(delta)), np.abs(_error(x, target))
    return np.where(error <= size, 0.5 * error**2, size * (error - 0.5 * size))


def smooth_l1_loss(x: Array, target: Array, beta: float = 1.0) -> Array:
    """huber_loss / beta."""
    return huber_loss(x, target, beta) / float(np.float32(beta))


def binary_cross_entropy_with_logits(
    x: Array, target: Array, weight: Array | float = 1.0, pos_weight: Array | float = 1.0
) -> Array:
    """The negative log-likelihood of each element, times its weights."""
    x, t, w, p = (np.asarray(a, np.float64) for a in (x, target, weight, pos_weight))
    found: Array = w * (p * t * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x))
    return found


def kl_div(x: Array, target: Array, log_target: bool = False) -> Array:
    """target * (log(target) - x) of each element; 0 where the target is 0."""
    x, t = np.asarray(x, np.float64), np.asarray(target, np.float64)
    if log_target:
        found: Array = np.exp(t) * (t - x)
        return found
    with np.errstate(all="ignore"):
        return np.where(t == 0, 0.0, t * (np.log(t) - x))


def _error(x: Array, target: Array) -> Array:
    return np.asarray(x, np.float64) - np.asarray(target, np.float64)


def total_weight(
    x: Array, target: Array, weight: Array | None = None, *, ignore_index: int = -100
) -> Array:
    """The divisor of the mean."""
    return np.asarray(_targets(x, target, weight, ignore_index, 0.0)[2].sum())


def _factor(dy: Array, total: Array | None) -> Array:
    """The gradient of the loss of each row, as a column."""
    with np.errstate(all="ignore"):
        k: Array = np.asarray(dy, np.float64) / (1.0 if total is None else total.astype(np.float64))
    return k[..., None]


def _softmax(x: Array) -> Array:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    out: Array = e / e.sum(-1, keepdims=True)
    return out


def _targets(
    x: Array, target: Array, weight: Array | None, ignore_index: int, smoothing: float
) -> tuple[Array, Array, Array]:
    """The targets t (..., classes), True for rows that count, and the weights of rows in a mean.

    t_c is weight[c] * ((1 - smoothing) * target_c + smoothing / classes). If the target is a
    class, target_c is 1 for this class, else 0. A row whose target is `ignore_index`, or is
    no class, does not count.
    """
    classes = x.shape[-1]
    w = np.ones(classes) if weight is None else np.asarray(weight, np.float64)
    hard, smooth = np.float32(1 - smoothing), np.float32(smoothing / classes)
    if target.dtype.kind == "f":
        ones = np.ones(x.shape[:-1])
        return w * (np.float64(hard) * target.astype(np.float64) + smooth), ones > 0, ones
    counted = (target != ignore_index) & (target >= 0) & (target < classes)
    own = np.where(counted, target, 0).astype(np.int64)
    t = w * (np.float64(hard) * (np.arange(classes) == own[..., None]) + smooth)
    return t, counted, np.where(counted, w[own], 0.0)


def _reduced(losses: Array, weights: Array, reduction: Reduction) -> Array:
    if reduction == "none":
        return losses
    return np.asarray(losses.sum() / (weights.sum() if reduction == "mean" else 1.0))
