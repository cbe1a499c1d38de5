"""The networks of decoder.py in numpy, as a reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from checkpoints import Array, Config, Weights, rope_factors


def logits(config: Config, weights: Weights, tokens: Array, dtype: Any = np.float64) -> Array:
    """The logits after each token, (n, vocabulary), float64.

    Every result is rounded to `dtype`; sums are float32 for float16. So the difference between two
    dtypes shows how sensitive a network is to rounding.
    """
    wide = np.dtype(np.float32 if dtype == np.float16 else dtype)
    w = {name: np.asarray(a, dtype).astype(wide, copy=False) for name, a in weights.items()}

    def rounded(a: Array) -> Array:
        return a.astype(dtype).astype(wide)

    def norm(h: Array, name: str) -> Array:
        mean = 0.0 if config.family == "llama" else h.mean(-1, keepdims=True)
        scaled = (h - mean) / np.sqrt(((h - mean) ** 2).mean(-1, keepdims=True) + config.eps)
        return rounded(scaled * w[f"{name}.weight"] + w.get(f"{name}.bias", wide.type(0)))

    def product(x: Array, name: str) -> Array:
        own = w[f"{name}.weight"]
        own = own if config.family == "gpt2" else own.T
        return rounded(x @ own + w.get(f"{name}.bias", wide.type(0)))

    if config.family == "gpt2":
        h = rounded(w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)])
        for i in range(config.layers):
            y = norm(h, f"h.{i}.ln_1")
            q, k, v = np.split(product(y, f"h.{i}.attn.c_attn"), 3, axis=1)
            h = rounded(h + product(attended(config, q, k, v, rounded), f"h.{i}.attn.c_proj"))
            y = product(norm(h, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
            y = rounded(0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))))
            h = rounded(h + product(y, f"h.{i}.mlp.c_proj"))
        return rounded(norm(h, "ln_f") @ w["wte.weight"].T).astype(np.float64)
    h = w["model.embed_tokens.weight"][tokens]
    for i in range(config.layers):
        at = f"model.layers.{i}"
        y = norm(h, f"{at}.input_layernorm")
        q, k, v = (product(y, f"{at}.self_attn.{n}_proj") for n in "qkv")
        q, k = (rounded(turned(config, x)) for x in (q, k))
        h = rounded(h + product(attended(config, q, k, v, rounded), f"{at}.self_attn.o_proj"))
        y = norm(h, f"{at}.post_attention_layernorm")
        gate, up = product(y, f"{at}.mlp.gate_proj"), product(y, f"{at}.mlp.up_proj")
        y = rounded(gate / (1 + np.exp(-gate)) * up)
        h = rounded(h + product(y, f"{at}.mlp.down_proj"))
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return rounded(norm(h, "model.norm") @ head.T).astype(np.float64)


def turned(config: Config, x: Array) -> Array:
    """All heads rotated by their positions; a pair is an element of the first half of a head and
    one of the second."""
    n, pairs = len(x), config.depth // 2
    factors = rope_factors(config)
    w = config.rope_base ** (-2.0 * np.arange(pairs) / config.depth)
    angles = (np.arange(n)[:, None] * (w if factors is None else w / factors))[:, None]
    cosine, sine = (f(angles).astype(x.dtype) for f in (np.cos, np.sin))
    a, b = np.split(x.reshape(n, -1, 2 * pairs), 2, axis=-1)
    found = np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)
    return found.reshape(x.shape)


def attended(config: Config, q: Array, k: Array, v: Array, rounded: Any) -> Array:
    """Causal attention; several query heads share each head of keys and values."""
    n = len(q)
    q, k, v = (x.reshape(n, -1, config.depth).swapaxes(0, 1) for x in (q, k, v))
    k, v = (np.repeat(x, config.heads // config.kv_heads, axis=0) for x in (k, v))
    scores = q @ k.swapaxes(1, 2) * q.dtype.type(config.depth**-0.5)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = rounded(((e / e.sum(-1, keepdims=True)) @ v).swapaxes(0, 1).reshape(n, -1))
    return found
