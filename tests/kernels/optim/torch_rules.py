"""Steps of optimisers in numpy's float64, as torch.optim (Lion: optax) has them published.

Each rule is a generator that takes a gradient and gives the parameter after the step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import numpy as np

Array = np.ndarray[Any, Any]
Rule: TypeAlias = "Generator[Array, Array, None]"

__all__ = ["RULES", "run"]


def rmsprop(
    w: Array, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
    momentum: float = 0, centered: bool = False,
) -> Rule:  # fmt: skip
    square, mean, buffer = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    while True:
        g = (yield w) + weight_decay * w
        square = alpha * square + (1 - alpha) * g * g
        mean = mean + (1 - alpha) * (g - mean)
        step = g / (np.sqrt(square - mean * mean if centered else square) + eps)
        buffer = momentum * buffer + step
        w = w - lr * buffer


def adagrad(
    w: Array, lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
    initial_accumulator_value: float = 0, eps: float = 1e-10,
) -> Rule:  # fmt: skip
    total, t = np.full_like(w, initial_accumulator_value), 0
    while True:
        g = (yield w) + weight_decay * w
        t += 1
        total = total + g * g
        w = w - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(total) + eps)


def amsgrad(
    w: Array, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, decoupled: bool = False,
) -> Rule:  # fmt: skip
    m, v, most, t = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w), 0
    while True:
        g = yield w
        t += 1
        if decoupled:
            w = w * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * w
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        most = np.maximum(most, v)
        below = np.sqrt(most) / np.sqrt(1 - betas[1] ** t) + eps
        w = w - lr / (1 - betas[0] ** t) * m / below


def nadam(
    w: Array, lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False,
) -> Rule:  # fmt: skip
    m, v, product, t = np.zeros_like(w), np.zeros_like(w), 1.0, 0
    while True:
        g = yield w
        t += 1
        if decoupled_weight_decay:
            w = w * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * w
        mu = betas[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay))
        following = betas[0] * (1 - 0.5 * 0.96 ** ((t + 1) * momentum_decay))
        product *= mu
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        below = np.sqrt(v / (1 - betas[1] ** t)) + eps
        w = w - lr * (1 - mu) / (1 - product) * g / below
        w = w - lr * following / (1 - product * following) * m / below


def lion(
    w: Array, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 1e-3,
) -> Rule:  # fmt: skip
    m = np.zeros_like(w)
    while True:
        g = yield w
        w = w - lr * (np.sign((1 - betas[0]) * g + betas[0] * m) + weight_decay * w)
        m = (1 - betas[1]) * g + betas[1] * m


RULES: dict[str, Callable[..., Rule]] = {
    "RMSprop": rmsprop, "Adagrad": adagrad, "Adam": amsgrad, "AdamW": amsgrad, "NAdam": nadam,
    "Lion": lion,
}  # fmt: skip


def run(kind: str, w: Array, grads: list[Array], args: dict[str, Any]) -> list[Array]:
    """The parameter before the first step and after each."""
    named = {n: v for n, v in args.items() if n != "amsgrad"}
    if kind == "AdamW":
        named["decoupled"] = True
        named.setdefault("weight_decay", 1e-2)
    rule = RULES[kind](w.astype(np.float64), **named)
    return [next(rule), *[rule.send(g.astype(np.float64)) for g in grads]]
