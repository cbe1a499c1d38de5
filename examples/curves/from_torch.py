"""Writes lenet.json and transformer.json: torch's losses, from the examples' weights and batches.

    PYTHONPATH=. python examples/curves/from_torch.py    # needs torch; pykernels does not

`losses` are torch's losses in float64. `spread` shows the effect of rounding alone. For each step,
it is the largest difference so far between these losses and the losses of eight runs in float32,
whose initial weights are changed by up to one part in 2^23. The transformer's text is a copy from
docs/, stored with its losses because docs/ changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import start
import torch
import torch.nn.functional as F
import transformer

RUNS = 8
TEXT = 8000  # number of characters of the text for the transformer's curve
Weights = dict[str, torch.Tensor]
Logits = Callable[[Weights, torch.Tensor], torch.Tensor]


def lenet_logits(w: Weights, x: torch.Tensor) -> torch.Tensor:
    x = F.max_pool2d(F.relu(F.conv2d(x, w["conv1"], w["conv1.bias"])), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w["conv2"], w["conv2.bias"])), 2)
    x = F.relu(F.linear(x.flatten(1), w["hidden"], w["hidden.bias"]))
    return F.linear(x, w["out"], w["out.bias"])


def rope(x: torch.Tensor) -> torch.Tensor:
    """Pairs of the columns i and width / 2 + i, rotated by the angle place * base^(-2 i /
    width)."""
    half = x.shape[-1] // 2
    place, pair = (torch.arange(n, dtype=x.dtype, device=x.device) for n in (x.shape[-2], half))
    angle = place[:, None] * transformer.ROPE_BASE ** (-pair / half)
    a, b = x[..., :half], x[..., half:]
    c, s = angle.cos(), angle.sin()
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def transformer_logits(
    w: Weights, x: torch.Tensor, size: transformer.Size = transformer.SIZE
) -> torch.Tensor:
    n, context = x.shape
    wide = (size.width,)
    h = F.embedding(x, w["characters"])
    for i in range(size.layers):
        y = F.layer_norm(h, wide, w[f"{i}.norm1"], w[f"{i}.norm1.bias"])
        qkv = F.linear(y, w[f"{i}.qkv"]).reshape(n, context, 3, size.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        h = h + F.linear(y.transpose(1, 2).reshape(n, context, -1), w[f"{i}.out"])
        y = F.layer_norm(h, wide, w[f"{i}.norm2"], w[f"{i}.norm2.bias"])
        h = h + F.linear(F.gelu(F.linear(y, w[f"{i}.up"]), approximate="tanh"), w[f"{i}.down"])
    return F.linear(F.layer_norm(h, wide, w["norm"], w["norm.bias"]), w["head"])


def train(logits: Logits, weights: dict[str, Any], run: start.Start, dtype: Any) -> list[float]:
    """The loss of each step of Adam."""
    w = {name: torch.tensor(a, dtype=dtype, requires_grad=True) for name, a in weights.items()}
    optimizer = torch.optim.Adam(w.values())
    losses = []
    for (x, y), rate in zip(run.batches, run.rates, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        x = torch.tensor(x)
        found = logits(w, x.to(dtype) if x.is_floating_point() else x)
        loss = F.cross_entropy(found.reshape(-1, found.shape[-1]), torch.tensor(y).long().ravel())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def curve(logits: Logits, run: start.Start) -> dict[str, Any]:
    """The contents of a file of losses."""
    rng = np.random.default_rng(0)
    exact = np.array(train(logits, run.weights, run, torch.float64))
    spread = np.zeros(len(exact))
    for _ in range(RUNS):
        near = {n: a * (1 + rng.uniform(-1, 1, a.shape) * 2.0**-23) for n, a in run.weights.items()}
        found = train(logits, near, run, torch.float32)
        spread = np.maximum(spread, np.maximum.accumulate(np.abs(found - exact)))
    return run.sums | {
        "torch": torch.__version__,
        "losses": exact.tolist(),
        "spread": [float(f"{s:.3g}") for s in spread],
    }


def main() -> None:
    torch.set_num_threads(1)
    found = curve(lenet_logits, start.of_lenet())
    (start.HERE / "lenet.json").write_text(json.dumps(found))
    pages = sorted(transformer.DOCS.glob("guide/*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)[:TEXT]
    found = curve(transformer_logits, start.of_transformer(text))
    (start.HERE / "transformer.json").write_text(json.dumps({"text": text} | found))


if __name__ == "__main__":
    main()
