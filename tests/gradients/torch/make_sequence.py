"""sequence.npz: what torch says of rope, embedding, linear, first weights, and of their gradients.

    python tests/gradients/torch/make_sequence.py    # torch 2 on a CPU; no test imports it

An array is named CASE.ARGUMENT, what torch gives in float64 CASE.y and CASE.d_ARGUMENT. It has no
rope: pairs are Llama's complex numbers and the rotated halves of GPT-NeoX, angles those of their
papers and of YaRN's.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.manual_seed(0)
found: dict[str, np.ndarray] = {}


def given(*shape: int) -> torch.Tensor:
    """Numbers that float32 holds."""
    return torch.randn(*shape).double().requires_grad_()


def keep(case: str, y: torch.Tensor, **inputs: torch.Tensor) -> None:
    """The result, and the gradients of a random one of it."""
    dy = torch.randn(y.shape).double()
    leaves = {n: t for n, t in inputs.items() if t.requires_grad}
    grads = torch.autograd.grad(y, list(leaves.values()), dy)
    for name, grad in zip(leaves, grads, strict=True):
        found[f"{case}.d_{name}"] = grad.numpy()
    for name, t in inputs.items():
        dtype = np.float32 if t.is_floating_point() else np.int32
        found[f"{case}.{name}"] = t.detach().numpy().astype(dtype)
    found[f"{case}.y"] = y.detach().numpy()
    found[f"{case}.dy"] = dy.numpy().astype(np.float32)


def complex_pairs(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[:, None]
    return torch.view_as_real(turned).flatten(-2)


def halves(x: torch.Tensor, angle: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    both = torch.cat([angle, angle], -1)
    a, b = x.chunk(2, -1)
    return (x * both.cos() + torch.cat([-b, a], -1) * both.sin()) * factor


def frequencies(dims: int, base: float) -> torch.Tensor:
    return 1.0 / base ** (torch.arange(0, dims, 2).double() / dims)


def yarn(dims: int, base: float, factor: float, trained: int) -> torch.Tensor:
    """Peng et al. 2023: angles are interpolated, but not of pairs that turn often in training."""

    def correction(turns: float) -> float:
        return dims * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(math.floor(correction(32)), 0)
    high = min(math.ceil(correction(1)), dims - 1)
    ramp = ((torch.arange(dims // 2).double() - low) / (high - low)).clamp(0, 1)
    own = frequencies(dims, base)
    return own / factor * ramp + own * (1 - ramp)


# rope: heads before tokens
x, places = given(2, 3, 4, 8), torch.tensor([[0, 1, 4095, 131071], [7, 70000, 2, 1048575]])
keep("rope_normal", complex_pairs(x, places[..., None] * frequencies(8, 10000.0)), x=x,
     positions=places)  # fmt: skip
x, factors = given(2, 3, 4, 10), torch.tensor([1.0, 2.5, 8.0]).double()
angle = places[..., None] * 0.5 * frequencies(6, 500000.0) / factors
y = torch.cat([halves(x[..., :6], angle[:, None]), x[..., 6:]], -1)
keep("rope_neox", y, x=x, positions=places, factors=factors)
x = given(2, 1, 4, 64)
angle = places[..., None] * yarn(64, 10000.0, 4.0, 4096)
keep("rope_yarn", halves(x, angle[:, None], 0.1 * math.log(4.0) + 1), x=x, positions=places)

# embedding: with and without padding, one index often
for case, shape, padding in (("plain", (2, 5), None), ("padded", (7,), 3), ("often", (90,), None)):
    w = given(6, 4)
    index = torch.randint(0, 2 if case == "often" else 6, shape)
    keep(f"embedding_{case}", F.embedding(index, w, padding), w=w, index=index)

# linear: with and without bias, a w of one axis
x, w, b = given(2, 3, 5), given(4, 5), given(4)
keep("linear_bias", F.linear(x, w, b), x=x, w=w, b=b)
x, w = given(7, 5), given(3, 5)
keep("linear_plain", F.linear(x, w), x=x, w=w)
x, w = given(2, 3, 5), given(5)
keep("linear_row", F.linear(x, w), x=x, w=w)

# dropout where it has one result: all or nothing
for case, p, training in (("all", 1.0, True), ("none", 0.0, True), ("evaluated", 0.7, False)):
    x = given(3, 4)
    keep(f"dropout_{case}", F.dropout(x, p, training), x=x)

# first weights: the deviation that torch draws with
init = torch.nn.init
for shape in ((40, 30), (6, 5, 3, 3)):
    fans = init._calculate_fan_in_and_fan_out(torch.empty(shape))
    for name in ("linear", "conv_transpose2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"):
        gain = init.calculate_gain(name, 0.3)
        size = "x".join(map(str, shape))
        for mode, fan in zip(("fan_in", "fan_out"), fans, strict=True):
            found[f"init.{size}.{name}.{mode}"] = np.float64(gain / math.sqrt(fan))
        found[f"init.{size}.{name}.both"] = np.float64(gain * math.sqrt(2.0 / sum(fans)))

np.savez_compressed(Path(__file__).with_name("sequence.npz"), **found)
