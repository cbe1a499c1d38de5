"""The networks of decoder.py in numpy, as a reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from checkpoints import Array, Weights
from decoder_families import Config, named, rope_factors

Rounded = Callable[[Array], Array]


def logits(config: Config, weights: Weights, tokens: Array, dtype: Any = np.float64) -> Array:
    """The logits after each of the tokens, (n, vocabulary), float64.

    Every result is rounded to `dtype`; for dtypes of 16 bits, sums are float32. So the logits in
    two dtypes show the effect of rounding on a network.
    """
    return Network(config, weights, dtype).logits(tokens)


class Network:
    """The weights as numbers, and the steps of a layer."""

    def __init__(self, config: Config, weights: Weights, dtype: Any) -> None:
        self.config, self.dtype = config, dtype
        self.wide = np.dtype(np.float32 if np.dtype(dtype).itemsize == 2 else dtype)
        self.w = {
            name: np.asarray(a, dtype).astype(self.wide, copy=False)
            for name, a in named(config, weights).items()
        }

    def rounded(self, a: Array) -> Array:
        found: Array = a.astype(self.dtype).astype(self.wide)
        return found

    def norm(self, h: Array, name: str) -> Array:
        mean = 0.0 if self.config.row.norm == "rms" else h.mean(-1, keepdims=True)
        size = np.sqrt(((h - mean) ** 2).mean(-1, keepdims=True) + self.config.eps)
        bias = self.w.get(f"{name}.bias", self.wide.type(0))
        return self.rounded((h - mean) / size * self.w[f"{name}.weight"] + bias)

    def product(self, x: Array, name: str, expert: Any = ...) -> Array:
        bias = self.w.get(f"{name}.bias", self.wide.type(0))
        return self.rounded(x @ self.w[f"{name}.weight"][expert].T + bias)

    def logits(self, tokens: Array) -> Array:
        c, row = self.config, self.config.row
        h = self.w["token_embd.weight"][tokens]
        if row.scaled:
            h = self.rounded(h * self.wide.type(math.sqrt(c.width)))
        if not row.rotary:
            h = self.rounded(h + self.w["position_embd.weight"][: len(tokens)])
        for i in range(c.layers):
            at = f"blk.{i}."
            y = self.attention(self.norm(h, f"{at}attn_norm"), i)
            if row.post_norms:
                y = self.norm(y, f"{at}post_attention_norm")
            h = self.rounded(h + y)
            y = self.norm(h, f"{at}ffn_norm")
            y = self.experts(y, at) if c.experts else self.forward(y, f"{at}ffn_", "")
            if row.post_norms:
                y = self.norm(y, f"{at}post_ffw_norm")
            h = self.rounded(h + y)
        head = self.w.get("output.weight", self.w["token_embd.weight"])
        found = self.rounded(self.norm(h, "output_norm") @ head.T)
        if c.final_cap:
            found = self.rounded(c.final_cap * np.tanh(found / c.final_cap))
        return found.astype(np.float64)

    def attention(self, y: Array, layer: int) -> Array:
        c, at = self.config, f"blk.{layer}."
        if c.family == "gpt2":
            q, k, v = np.split(self.product(y, f"{at}attn_qkv"), 3, axis=1)
        else:
            q, k, v = (self.product(y, f"{at}attn_{n}") for n in "qkv")
        q, k, v = (x.reshape(len(y), -1, c.depth) for x in (q, k, v))
        if c.row.qk_norm:
            q, k = self.norm(q, f"{at}attn_q_norm"), self.norm(k, f"{at}attn_k_norm")
        if c.row.rotary:
            q, k = (self.rounded(self.turned(x)) for x in (q, k))
        return self.product(
            attended(c, q, k, v, self.rounded, c.window_of(layer)), f"{at}attn_output"
        )

    def turned(self, x: Array) -> Array:
        """All heads (n, heads, depth), rotated by their positions."""
        c, pairs = self.config, self.config.depth // 2
        factors = self.w.get("rope_freqs.weight", rope_factors(c))
        w = c.rope_base ** (-2.0 * np.arange(pairs) / c.depth)
        angles = (np.arange(len(x))[:, None] * (w if factors is None else w / factors))[:, None]
        cosine, sine = (f(angles).astype(x.dtype) for f in (np.cos, np.sin))
        a, b = (x[..., ::2], x[..., 1::2]) if c.style == "normal" else np.split(x, 2, axis=-1)
        found = a * cosine - b * sine, a * sine + b * cosine
        if c.style == "normal":
            return np.stack(found, -1).reshape(x.shape)
        return np.concatenate(found, axis=-1)

    def forward(self, y: Array, at: str, suffix: str, expert: Any = ...) -> Array:
        """The feed-forward layer, or one expert of it."""
        gate, up, down = (f"{at}{n}{suffix}" for n in ("gate", "up", "down"))
        if not self.config.row.gate:
            return self.product(self.gelu(self.product(y, up)), down)
        g = self.product(y, gate, expert)
        g = self.gelu(g) if self.config.row.gate == "gelu_tanh" else g / (1 + np.exp(-g))
        return self.product(self.rounded(g * self.product(y, up, expert)), down, expert)

    def gelu(self, y: Array) -> Array:
        return self.rounded(0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))))

    def experts(self, y: Array, at: str) -> Array:
        """The sum of the experts with the largest scores, weighted by these scores' softmax."""
        scores = self.product(y, f"{at}ffn_gate_inp")
        order = np.argsort(-scores, axis=-1)[:, : self.config.used]
        own = np.exp(np.take_along_axis(scores, order, -1) - scores.max(-1, keepdims=True))
        share = own / own.sum(-1, keepdims=True)
        found = np.zeros_like(y)
        for n in range(len(y)):
            for e, part in zip(order[n], share[n], strict=True):
                found[n] += part * self.forward(y[n : n + 1], f"{at}ffn_", "_exps", e)[0]
        return self.rounded(found)


def attended(c: Config, q: Array, k: Array, v: Array, rounded: Rounded, window: int) -> Array:
    """Causal attention; several heads of queries use the same head of keys and values."""
    n = len(q)
    q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
    k, v = (np.repeat(x, c.heads // c.kv_heads, axis=0) for x in (k, v))
    scores = q @ k.swapaxes(1, 2) * q.dtype.type(c.depth**-0.5)
    if c.attention_cap:
        scores = c.attention_cap * np.tanh(scores / c.attention_cap)
    seen = np.tri(n, dtype=bool)
    if window:
        seen &= ~np.tri(n, k=-window, dtype=bool)
    scores = np.where(seen, scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = rounded(((e / e.sum(-1, keepdims=True)) @ v).swapaxes(0, 1).reshape(n, -1))
    return found
