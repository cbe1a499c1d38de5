"""Steps of optimisers in numpy's float64, as torch.optim (Lion: optax) has them published.

Each rule is a generator that takes a gradient and gives the parameter after the step. With torch
installed, `python -m tests.kernels.optim.torch_rules` compares them with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import numpy as np

Array = np.ndarray[Any, Any]
Rule: TypeAlias = "Generator[Array, Array, None]"

__all__ = ["CASES", "RULES", "compare", "data", "run"]

STEPS = 50
# Class, rule of the kernel, arguments.
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("RMSprop", "rmsprop", {}),
    ("RMSprop", "rmsprop_momentum", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", "rmsprop_centered", {"alpha": 0.9, "centered": True, "eps": 0.1}),
    ("RMSprop", "rmsprop_centered_momentum",
     {"alpha": 0.4, "centered": True, "momentum": 0.5, "eps": 0.1}),
    ("Adagrad", "adagrad", {}),
    ("Adagrad", "adagrad", {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1,
                            "initial_accumulator_value": 0.5, "eps": 1e-3}),
    ("Adam", "amsgrad", {"amsgrad": True}),
    ("Adam", "amsgrad", {"amsgrad": True, "lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("AdamW", "amsgrad", {"amsgrad": True, "lr": 0.02, "betas": (0.4, 0.99)}),
    ("NAdam", "nadam", {}),
    ("NAdam", "nadam", {"lr": 0.02, "betas": (0.8, 0.99), "weight_decay": 0.1,
                        "momentum_decay": 0.1}),
    ("NAdam", "nadam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Lion", "lion", {}),
    ("Lion", "lion", {"lr": 0.01, "betas": (0.95, 0.4), "weight_decay": 0.1}),
]  # fmt: skip


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


def data(steps: int = STEPS) -> tuple[np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(4)
    param = rng.normal(0, 1, (3, 8)).astype(np.float32)
    scales = 10.0 ** rng.integers(-2, 2, (steps, 3, 8))
    return param, list((rng.normal(0, 1, (steps, 3, 8)) * scales).astype(np.float32))


def compare(torch: Any, kind: str, args: dict[str, Any]) -> float:
    """The largest difference from torch in float64, relative to the largest parameter."""
    param, grads = data()
    w = torch.tensor(param.astype(np.float64), requires_grad=True)
    optimizer = getattr(torch.optim, kind)([w], **args)
    for g in grads:
        w.grad = torch.tensor(g.astype(np.float64))
        optimizer.step()
    want = w.detach().numpy()
    return float(np.max(np.abs(run(kind, param, grads, args)[-1] - want)) / np.max(np.abs(want)))


def main() -> None:
    import torch

    print("torch", torch.__version__)
    for kind, _, args in CASES:
        if kind != "Lion":  # torch has none
            print(f"{compare(torch, kind, args):.1e} {kind} {args}")


if __name__ == "__main__":
    main()
