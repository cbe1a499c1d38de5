"""Writes torch_steps.json beside itself: steps of torch.optim in float64 on the CPU.

python tests/kernels/optim/torch_steps.py, with torch installed. Parameter and gradients are float32
numbers, so that the device has the same ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

STEPS, SIZE = 8, 12
STATES = {"SGD": ("momentum_buffer",), "Adam": ("exp_avg", "exp_avg_sq")}
STATES["AdamW"] = STATES["Adam"]
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("SGD", "sgd_step", {"lr": 0.1}),
    ("SGD", "sgd_step", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", "sgd_step", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", "adam_step", {"lr": 0.001}),
    ("Adam", "adam_step", {"lr": 0.02, "betas": [0.8, 0.99], "weight_decay": 0.1}),
    ("Adam", "adam_step", {"lr": 0.02, "betas": [0.0, 0.9], "eps": 0.01}),
    ("AdamW", "adamw_step", {"lr": 0.001}),
    ("AdamW", "adamw_step", {"lr": 0.02, "betas": [0.8, 0.99], "weight_decay": 0.1}),
    ("AdamW", "adamw_step", {"lr": 0.02, "betas": [0.9, 0.9999], "weight_decay": 0.0}),
]


def after(kind: str, args: dict[str, Any], param: Any, grads: list[Any]) -> list[list[float]]:
    """Parameter and state after all steps."""
    w = torch.tensor(param, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(torch.optim, kind)([w], **args)
    for g in grads:
        w.grad = torch.tensor(g, dtype=torch.float64)
        optimizer.step()
    state = optimizer.state[w]
    found = [w.detach(), *[state[n] for n in STATES[kind] if state.get(n) is not None]]
    return [t.tolist() for t in found]


def main() -> None:
    rng = np.random.default_rng(0)
    param = rng.normal(0, 1, SIZE).astype(np.float32).tolist()
    scales = 10.0 ** rng.integers(-3, 2, (STEPS, SIZE))
    grads = (rng.normal(0, 1, (STEPS, SIZE)) * scales).astype(np.float32).tolist()
    cases = [
        {"class": kind, "name": name, "args": args, "after": after(kind, args, param, grads)}
        for kind, name, args in CASES
    ]
    data = {"torch": torch.__version__, "param": param, "grads": grads, "cases": cases}
    file = Path(__file__).with_suffix(".json")
    file.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
