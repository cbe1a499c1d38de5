"""Norms and gradients of torch, in float64: `python -m tests.gradients.torch.make_norms` writes
norms.npz beside this file. Needs torch and numpy (2.15, on the CPU, made what is there)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.gradients.torch.norms import calls


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for i, (name, _, theirs, arrays) in enumerate(calls(None, torch)):
        inputs = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
        y = theirs(*inputs)
        dy = np.random.default_rng(i).normal(0, 1, tuple(y.shape)).astype(np.float32)
        gradients = torch.autograd.grad(y, inputs, torch.tensor(dy, dtype=torch.float64))
        found[f"{i} {name}"] = y.detach().numpy().astype(np.float32)
        for j, g in enumerate(gradients):
            found[f"{i} {name} {j}"] = g.numpy().astype(np.float32)
    np.savez_compressed(Path(__file__).with_name("norms.npz"), **found)


if __name__ == "__main__":
    main()
