"""Families of language models as rows of a table, their shapes, and the names of their weights.

Names are those of GGUF files: `blk.3.attn_q.weight`. A weight of a product is (outputs, inputs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Family(NamedTuple):
    """How a family differs from llama, the plain family."""

    arch: str = "llama"  # the name in GGUF files
    norm: Literal["rms", "layer"] = "rms"
    # the activation of the gate; "" means no gate, and gelu_tanh between two products
    gate: Literal["silu", "gelu_tanh", ""] = "silu"
    rotary: bool = True  # True for rotary positions; False for learned positions
    style: Literal["normal", "neox"] = "neox"  # the style of rotary pairs in a GGUF file
    biases: bool = False  # True if all products have biases
    qkv_bias: bool = False
    qk_norm: bool = False  # True if there are norms of each head of queries and keys
    # True if there are norms of the outputs of attention and of feed-forward layers
    post_norms: bool = False
    scaled: bool = False  # True if embeddings are multiplied by sqrt(width)
    every: int = 1  # if there is a window, the layers 0, every, 2 every, ... have it


FAMILIES = {
    "gpt2": Family("gpt2", norm="layer", gate="", rotary=False, biases=True, qkv_bias=True),
    # this row also serves Mistral (with a window) and Mixtral (with experts)
    "llama": Family(style="normal"),
    "qwen2": Family("qwen2", qkv_bias=True),
    "qwen3": Family("qwen3", qk_norm=True),
    "qwen3moe": Family("qwen3moe", qk_norm=True),
    "gemma2": Family("gemma2", gate="gelu_tanh", post_norms=True, scaled=True, every=2),
}


class Config(NamedTuple):
    """A network. `rope_factor` lengthens the waves of rotary positions for contexts beyond
    `trained` positions (from Llama 3.1 on; see `rope_factors`). `style` is the style of rotary
    pairs; "" means the style of the family's GGUF files."""

    family: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    context: int
    eps: float = 1e-5
    rope_base: float = 10000.0
    rope_factor: float = 1.0
    trained: int = 8192
    head: int = 0  # columns of a head; 0 means width / heads
    # number of keys that a query sees, including its own; 0 means its own key and all keys before
    # it
    window: int = 0
    experts: int = 0
    used: int = 0  # number of experts that a token uses
    attention_cap: float = 0.0  # soft cap of attention scores; 0 means none
    final_cap: float = 0.0  # soft cap of logits; 0 means none
    style: str = "neox"

    @property
    def depth(self) -> int:
        """The number of columns of a head."""
        return self.head or self.width // self.heads

    @property
    def row(self) -> Family:
        """The settings of the family."""
        return FAMILIES[self.family]

    def window_of(self, layer: int) -> int:
        """The window of a layer."""
        return self.window if layer % self.row.every == 0 else 0


SHAPES = {
    "gpt2": Config("gpt2", 12, 768, 12, 12, 3072, 50257, 1024),
    "llama-3.2-1b": Config(
        "llama", 16, 2048, 32, 8, 8192, 128256, 131072, rope_base=500000.0, rope_factor=32.0
    ),
    "llama-3.1-8b": Config(
        "llama", 32, 4096, 32, 8, 14336, 128256, 131072, rope_base=500000.0, rope_factor=8.0
    ),
    "tiny-gpt2": Config("gpt2", 2, 32, 4, 4, 64, 97, 64),
    "tiny-llama": Config("llama", 2, 32, 4, 2, 48, 97, 4096, rope_base=100.0, rope_factor=4.0,
                         trained=16),
    "wide-llama": Config("llama", 2, 256, 8, 4, 512, 97, 4096, style="normal"),
    "small-gpt2": Config("gpt2", 2, 64, 2, 2, 96, 97, 64),
    "small-llama": Config("llama", 2, 64, 4, 2, 96, 97, 4096, rope_base=100.0, rope_factor=4.0,
                          trained=16, head=32, style="normal"),
    "small-mistral": Config("llama", 2, 64, 2, 2, 96, 97, 4096, window=4, style="normal"),
    "small-mixtral": Config("llama", 2, 64, 2, 1, 96, 97, 4096, experts=4, used=2, style="normal"),
    "small-qwen2": Config("qwen2", 2, 64, 4, 2, 96, 97, 4096, head=32, eps=1e-6),
    "small-qwen3": Config("qwen3", 2, 64, 4, 2, 96, 97, 4096, head=32, eps=1e-6),
    "small-qwen3moe": Config("qwen3moe", 2, 64, 4, 2, 32, 97, 4096, head=32, experts=4, used=2),
    "small-gemma2": Config("gemma2", 3, 64, 4, 2, 96, 97, 4096, head=32, eps=1e-6, window=4,
                           attention_cap=5.0, final_cap=3.0),
}  # fmt: skip


def shapes_of(config: Config) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by name. Without output.weight, the output layer uses the
    embeddings."""
    c, row = config, config.row
    wide, hidden, q, kv = c.width, c.hidden, c.heads * c.depth, c.kv_heads * c.depth
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (c.vocabulary, wide)}
    if not row.rotary:
        found["position_embd.weight"] = (c.context, wide)

    def norm(name: str, size: int = wide) -> None:
        found[f"{name}.weight"] = (size,)
        if row.norm == "layer":
            found[f"{name}.bias"] = (size,)

    def product(name: str, outputs: int, inputs: int, bias: bool = row.biases) -> None:
        found[f"{name}.weight"] = (outputs, inputs)
        if bias:
            found[f"{name}.bias"] = (outputs,)

    for i in range(c.layers):
        at = f"blk.{i}."
        norm(f"{at}attn_norm")
        if c.family == "gpt2":
            product(f"{at}attn_qkv", q + 2 * kv, wide)
        else:
            for name, size in (("q", q), ("k", kv), ("v", kv)):
                product(f"{at}attn_{name}", size, wide, row.qkv_bias)
        if row.qk_norm:
            norm(f"{at}attn_q_norm", c.depth)
            norm(f"{at}attn_k_norm", c.depth)
        product(f"{at}attn_output", wide, q)
        norm(f"{at}ffn_norm")
        if row.post_norms:
            norm(f"{at}post_attention_norm")
            norm(f"{at}post_ffw_norm")
        if c.experts:
            product(f"{at}ffn_gate_inp", c.experts, wide)
            for name in ("gate", "up"):
                found[f"{at}ffn_{name}_exps.weight"] = (c.experts, hidden, wide)
            found[f"{at}ffn_down_exps.weight"] = (c.experts, wide, hidden)
        else:
            for name in ("gate", "up") if row.gate else ("up",):
                product(f"{at}ffn_{name}", hidden, wide)
            product(f"{at}ffn_down", wide, hidden)
    norm("output_norm")
    return found


def random_weights(config: Config, seed: int = 0) -> dict[str, Array]:
    """Random float32 weights, under the names that GGUF files use."""
    return drawn({name: (shape, -1) for name, shape in shapes_of(config).items()}, seed)


def drawn(shapes: Mapping[str, tuple[tuple[int, ...], int]], seed: int = 0) -> dict[str, Array]:
    """Normal weights, float32, by name. `shapes` has the shape of each weight, and its axis of
    inputs. Products keep the variance of their inputs; weights of norms are near 1, biases near
    0."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Array] = {}
    for name, (shape, inputs) in shapes.items():
        w = rng.standard_normal(shape, np.float32)
        if len(shape) == 1:
            w *= 0.1
            if name.endswith("weight"):
                w += 1.0
        elif not name.startswith(("position", "wpe")):
            w *= shape[inputs] ** -0.5
        weights[name] = w
    return weights


def rope_factors(config: Config) -> Array | None:
    """The divisor of the frequency of each pair; None if all are 1. In Llama 3.1 it is
    `rope_factor` for long waves, 1 for short waves, and a number in between for other waves."""
    if config.rope_factor == 1.0:
        return None
    w = config.rope_base ** (-2.0 * np.arange(config.depth // 2) / config.depth)
    # number of rotations of each pair over the positions with which the model was trained
    turns = config.trained * w / (2 * math.pi)
    kept = np.clip((turns - 1) / (4 - 1), 0, 1)
    found: Array = 1 / ((1 - kept) / config.rope_factor + kept)
    return found


# For each name in GGUF files, the name in Hugging Face's checkpoints of gpt2 and llama.
_GPT2 = {
    "attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
}  # fmt: skip
_LLAMA = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    **{f"attn_{n}": f"self_attn.{n}_proj" for n in "qkv"}, "attn_output": "self_attn.o_proj",
    **{f"ffn_{n}": f"mlp.{n}_proj" for n in ("gate", "up", "down")},
}  # fmt: skip


def named(config: Config, weights: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weights by the names of GGUF files; names of Hugging Face's checkpoints are converted."""
    if "token_embd.weight" in weights:
        return weights
    gpt2 = config.family == "gpt2"
    found: dict[str, Any] = {}
    tops = (
        {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}
        if gpt2
        else {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
    )
    tops["output"] = "lm_head"
    names = {ours: theirs for ours, theirs in tops.items()}
    for i in range(config.layers):
        at = f"h.{i}" if gpt2 else f"model.layers.{i}"
        names |= {f"blk.{i}.{a}": f"{at}.{b}" for a, b in (_GPT2 if gpt2 else _LLAMA).items()}
    for ours, theirs in names.items():
        for part in ("weight", "bias"):
            w = weights.get(f"{theirs}.{part}")
            if w is not None:
                # The products of gpt2 have transposed weights, (inputs, outputs).
                turned = gpt2 and ours.startswith("blk") and w.ndim == 2
                found[f"{ours}.{part}"] = w.T if turned else w
    return found
