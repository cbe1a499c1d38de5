"""A small transformer learns to write pykernels' documentation, character by character.

    pip install matplotlib
    python examples/transformer.py [--save FOLDER]

It trains on nine tenths of each page of docs/, until it predicts the other tenth better than a
bigram model. A bigram model counts how often each character follows each other character. At the
end it writes text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from training import Weights, plot_losses, rates, train

import pykernels as pk

Array = np.ndarray[Any, Any]

DOCS = Path(__file__).resolve().parents[1] / "docs"
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
CONTEXT, BATCH, STEPS = 16, 32, 200
RATE, WARM_UP = 1e-2, 20  # the learning rate rises for WARM_UP steps, and then falls to 0
ROPE_BASE = 100.0


class Size(NamedTuple):
    """The size of the network."""

    width: int
    heads: int
    hidden: int
    layers: int


SIZE = Size(width=32, heads=2, hidden=64, layers=1)


def encode(text: str) -> Array:
    """Positions in CHARACTERS, int32; other characters get the position of "?"."""
    codes = np.frombuffer(text.encode("ascii", "replace"), np.uint8).astype(np.int32)
    return np.where(codes == ord("\n"), 0, np.clip(codes - 31, 1, 95))


def read_docs() -> tuple[Array, Array]:
    """The text for training, and the text for testing."""
    learned, held_out = [], []
    for page in sorted(DOCS.glob("*/*.md")):
        text = encode(page.read_text(encoding="utf-8"))
        end = len(text) * 9 // 10
        learned.append(text[:end])
        held_out.append(text[end:])
    return np.concatenate(learned), np.concatenate(held_out)


def bigram_entropy(learned: Array, held_out: Array) -> float:
    """The cross entropy of the bigram model, whose counts start at 1."""
    counts = np.ones((len(CHARACTERS), len(CHARACTERS)))
    np.add.at(counts, (learned[:-1], learned[1:]), 1)
    chances = counts / counts.sum(1, keepdims=True)
    return float(-np.log(chances[held_out[:-1], held_out[1:]]).mean())


def initial_weights(size: Size = SIZE, seed: int = 0) -> dict[str, Array]:
    """Initial weights: normal weights that keep the variance from layer to layer; ones and zeros
    for layer norms."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}

    def normal(name: str, shape: tuple[int, int], deviation: float) -> None:
        weights[name] = (deviation * rng.standard_normal(shape)).astype(np.float32)

    def norm(name: str) -> None:
        weights[name] = np.ones(size.width, np.float32)
        weights[f"{name}.bias"] = np.zeros(size.width, np.float32)

    wide, hidden, letters = size.width, size.hidden, len(CHARACTERS)
    normal("characters", (letters, wide), 1)
    for n in range(size.layers):
        norm(f"{n}.norm1")
        normal(f"{n}.qkv", (3 * wide, wide), wide**-0.5)
        normal(f"{n}.out", (wide, wide), 0.5 * wide**-0.5)
        norm(f"{n}.norm2")
        normal(f"{n}.up", (hidden, wide), wide**-0.5)
        normal(f"{n}.down", (wide, hidden), 0.5 * hidden**-0.5)
    norm("norm")
    normal("head", (letters, wide), 0.1)
    return weights


def batches(text: Array, steps: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Yields pieces of the text, (BATCH, CONTEXT), and, for each of their characters, the next
    character."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        first = rng.integers(len(text) - CONTEXT, size=(BATCH, 1))
        pieces = text[first + np.arange(CONTEXT + 1)]
        yield pieces[:, :-1], pieces[:, 1:]


def logits(w: Weights, x: pk.Tensor, size: Size = SIZE) -> pk.Tensor:
    """Logits (N, T, all characters) of the next character after each character of x (N, T)."""
    n, context = x.shape
    places = pk.arange(context, dtype="int32", device=x.device)
    h = pk.embedding(w["characters"], x)
    for i in range(size.layers):
        y = pk.layer_norm(h, size.width, w[f"{i}.norm1"], w[f"{i}.norm1.bias"])
        qkv = pk.linear(y, w[f"{i}.qkv"]).reshape(n, context, 3, size.heads, -1)
        qkv = qkv.transpose(2, 0, 3, 1, 4)
        q, k = pk.rope(qkv[:2], places, base=ROPE_BASE, style="neox")
        y = pk.scaled_dot_product_attention(q, k, qkv[2], is_causal=True)
        h = h + pk.linear(y.transpose(0, 2, 1, 3).reshape(n, context, -1), w[f"{i}.out"])
        y = pk.layer_norm(h, size.width, w[f"{i}.norm2"], w[f"{i}.norm2.bias"])
        h = h + pk.linear(pk.gelu_tanh(pk.linear(y, w[f"{i}.up"])), w[f"{i}.down"])
    return pk.linear(pk.layer_norm(h, size.width, w["norm"], w["norm.bias"]), w["head"])


def loss(w: Weights, x: pk.Tensor, y: pk.Tensor, size: Size = SIZE) -> pk.Tensor:
    """The mean cross entropy."""
    return pk.cross_entropy(logits(w, x, size).reshape(-1, len(CHARACTERS)), y.reshape(-1))


def entropy(w: Weights, text: Array) -> float:
    """The mean cross entropy of a text, piece by piece."""
    device = w["head"].device
    each = BATCH * CONTEXT
    losses = []
    for n in range((len(text) - 1) // each):
        x, y = (text[n * each + i :][:each].reshape(BATCH, CONTEXT) for i in range(2))
        losses.append(loss(w, device.tensor(x), device.tensor(y)).item())
    return float(np.mean(losses))


def write(w: Weights, starts: Array, length: int, seed: int = 0) -> list[str]:
    """Writes texts that continue each start (BATCH, CONTEXT)."""
    rng = np.random.default_rng(seed)
    device = w["head"].device
    texts = starts
    for _ in range(length):
        last = logits(w, device.tensor(texts[:, -CONTEXT:]))[:, -1].numpy()
        # Random numbers are added so that the position of the largest element is a draw from the
        # softmax.
        drawn = last / 0.7 + rng.gumbel(size=last.shape)
        texts = np.concatenate([texts, drawn.argmax(-1).astype(np.int32)[:, None]], axis=1)
    return ["".join(CHARACTERS[c] for c in text[CONTEXT:]) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--save", type=Path, help="folder for loss.png")
    args = parser.parse_args()

    learned, held_out = read_docs()
    bigram = bigram_entropy(learned, held_out)
    steps = list(batches(learned, args.steps))
    weights, losses = train(initial_weights(), loss, steps, rates(args.steps, RATE, WARM_UP))
    found = entropy(weights, held_out)
    print(f"cross entropy of {len(held_out):,} characters: {found:.3f}, bigrams {bigram:.3f}")
    starts = held_out[: BATCH * CONTEXT].reshape(BATCH, CONTEXT)
    print("it writes:", *write(weights, starts, 80)[:3], sep="\n---\n")
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
        plot_losses(args.save / "loss.png", losses, {"bigrams": bigram})
    if found >= bigram:
        raise SystemExit("it is no better than bigrams")


if __name__ == "__main__":
    main()
