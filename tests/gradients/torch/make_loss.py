"""Losses of torch and their gradients, in float64: `python tests/gradients/torch/make_loss.py`
writes loss.json beside this file. Needs torch (2.15, on the CPU, made what is there)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

F = torch.nn.functional


def short(a: Any) -> list[Any]:
    """Numbers that a float32 holds, in few digits."""
    return np.asarray(np.round(a, 3), np.float32).astype(float).round(3).tolist()


def calls() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, tensors and options of each call."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> list[Any]:
        return short(rng.normal(0, 2, shape))

    def uniform(*shape: int) -> list[Any]:
        return short(rng.uniform(0.05, 1, shape))

    def classes(n: int, *shape: int) -> list[Any]:
        found: list[Any] = rng.integers(0, n, shape).tolist()
        return found

    for options in ({}, {"reduction": "sum", "label_smoothing": 0.2}, {"reduction": "none"}):
        yield "cross_entropy", {"input": normal(4, 5), "target": classes(5, 4)}, options
    weighted = {"input": normal(3, 4, 2), "target": classes(4, 3, 2), "weight": uniform(4)}
    yield "cross_entropy", weighted, {"ignore_index": 1}
    yield "cross_entropy", weighted, {"ignore_index": 2, "label_smoothing": 0.1}
    shares = {"input": normal(2, 3, 2), "target": uniform(2, 3, 2), "weight": uniform(3)}
    yield "cross_entropy", shares, {}
    yield "cross_entropy", shares, {"reduction": "none", "label_smoothing": 0.3}
    yield "cross_entropy", {"input": normal(4), "target": 2}, {}
    for options in ({}, {"reduction": "sum"}, {"reduction": "none", "ignore_index": 1}):
        yield "nll_loss", {**weighted, "input": normal(3, 4, 2)}, options
    yield "nll_loss", {"input": normal(4), "target": 2}, {}
    for name in ("mse_loss", "l1_loss"):
        for reduction in ("mean", "sum", "none"):
            pair = {"input": normal(3, 4), "target": normal(3, 4)}
            yield name, pair, {"reduction": reduction}
    for reduction, size in (("mean", 1.0), ("sum", 0.5), ("none", 2.5)):
        pair = {"input": normal(3, 4), "target": normal(3, 4)}
        yield "huber_loss", pair, {"reduction": reduction, "delta": size}
        yield "smooth_l1_loss", pair, {"reduction": reduction, "beta": size}
    yield "smooth_l1_loss", pair, {"beta": 0.0}
    name = "binary_cross_entropy_with_logits"
    for reduction in ("mean", "sum", "none"):
        pair = {"input": normal(3, 4), "target": uniform(3, 4)}
        yield name, pair, {"reduction": reduction}
        yield name, {**pair, "weight": uniform(3, 1)}, {"reduction": reduction}
        yield name, {**pair, "pos_weight": uniform(4)}, {"reduction": reduction}
    yield name, {**pair, "weight": uniform(4), "pos_weight": uniform(3, 4)}, {}
    for reduction in ("mean", "sum", "batchmean", "none"):
        pair = {"input": normal(3, 4), "target": uniform(3, 4)}
        yield "kl_div", pair, {"reduction": reduction}
        logs = {"input": normal(3, 4), "target": normal(3, 4)}
        yield "kl_div", logs, {"reduction": reduction, "log_target": True}


def found(name: str, tensors: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A call, its loss, and the gradients of the sum of the loss's squares."""
    given = {}
    for n, values in tensors.items():
        a = np.asarray(values)
        whole = a.dtype.kind == "i"
        t = torch.tensor(a if whole else a.astype(np.float32).astype(np.float64))
        given[n] = t if whole or "weight" in n else t.requires_grad_()
    loss = getattr(F, name)(**given, **options)
    (loss**2).sum().backward()
    gradients = {n: digits(t.grad) for n, t in given.items() if t.grad is not None}
    return {"name": name, "tensors": tensors, "options": options,
            "loss": digits(loss), "gradients": gradients}  # fmt: skip


def digits(t: torch.Tensor) -> Any:
    """The numbers of a tensor to ten digits."""
    flat = [float(f"{v:.10g}") for v in t.detach().flatten().tolist()]
    return np.array(flat).reshape(t.shape).tolist()


if __name__ == "__main__":
    made = [json.dumps(found(*call)) for call in calls()]
    file = Path(__file__).with_name("loss.json")
    file.write_text("[\n" + ",\n".join(made) + "\n]\n", encoding="utf-8")
    print(f"{len(made)} calls, {file.stat().st_size} bytes")
