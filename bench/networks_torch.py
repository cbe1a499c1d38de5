"""The networks of bench/networks.py in torch, written in the usual way of torch users, with as few
calls as ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import checkpoints
import numpy as np
import torch
import torch.nn.functional as F
from checkpoints import Config, Weights

from bench import resnet

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def prepare() -> None:
    """Turn TF32 off, and let cuDNN search for the fastest convolution."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)


def sync() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def tensor(a: Any, dtype: str) -> Any:
    return torch.tensor(np.asarray(a), device=DEVICE, dtype=getattr(torch, dtype))


class Decoder:
    """The decoder of decoder.py, with one product for queries, keys and values, and one product for
    gate and up."""

    def __init__(self, config: Config, weights: Weights, room: int, dtype: str) -> None:
        self.config, self.llama = config, config.family == "llama"
        self.w = {name: tensor(w, dtype) for name, w in weights.items()}
        for i in range(config.layers if self.llama else 0):
            at = f"model.layers.{i}"
            parts = {"qkv": [f"self_attn.{n}_proj" for n in "qkv"],
                     "gate_up": ["mlp.gate_proj", "mlp.up_proj"]}  # fmt: skip
            for name, names in parts.items():
                joined = torch.cat([self.w.pop(f"{at}.{n}.weight") for n in names])
                self.w[f"{at}.{name}.weight"] = joined
        shape = (config.layers, 2, 1, config.kv_heads, room, config.depth)
        self.caches = torch.zeros(shape, device=DEVICE, dtype=getattr(torch, dtype))
        factors = checkpoints.rope_factors(config)
        w = config.rope_base ** (-2.0 * np.arange(config.depth // 2) / config.depth)
        angles = np.arange(room)[:, None] * (w if factors is None else w / factors)
        both = np.concatenate([angles, angles], 1)
        self.cosine, self.sine = tensor(np.cos(both), dtype), tensor(np.sin(both), dtype)

    def logits(self, tokens: Any, positions: Any, end: int) -> Any:
        """Logits (1, vocabulary) after the last of `tokens`; attention reads the keys of the
        first `end` tokens."""
        if self.llama:
            h = F.embedding(tokens, self.w["model.embed_tokens.weight"])
        else:
            h = F.embedding(tokens, self.w["wte.weight"])
            h = h + F.embedding(positions, self.w["wpe.weight"])
        for i in range(self.config.layers):
            h = (
                self._llama(h, i, positions, end)
                if self.llama
                else self._gpt2(h, i, positions, end)
            )
        head = "model.embed_tokens" if self.llama else "wte"
        head = self.w.get("lm_head.weight", self.w[f"{head}.weight"])
        return F.linear(self._norm(h[-1:], "model.norm" if self.llama else "ln_f"), head)

    def _norm(self, h: Any, name: str) -> Any:
        w, wide = self.w[f"{name}.weight"], (self.config.width,)
        if self.llama:
            return F.rms_norm(h, wide, w, self.config.eps)
        return F.layer_norm(h, wide, w, self.w[f"{name}.bias"], self.config.eps)

    def _gpt2(self, h: Any, i: int, positions: Any, end: int) -> Any:
        def product(x: Any, name: str) -> Any:
            return torch.addmm(self.w[f"h.{i}.{name}.bias"], x, self.w[f"h.{i}.{name}.weight"])

        own = product(self._norm(h, f"h.{i}.ln_1"), "attn.c_attn")
        q, k, v = own.view(len(h), 3, self.config.heads, -1).permute(1, 2, 0, 3)
        h = h + product(self._attend(q, k, v, i, positions, end), "attn.c_proj")
        y = F.gelu(product(self._norm(h, f"h.{i}.ln_2"), "mlp.c_fc"), approximate="tanh")
        return h + product(y, "mlp.c_proj")

    def _llama(self, h: Any, i: int, positions: Any, end: int) -> Any:
        c, at = self.config, f"model.layers.{i}"
        own = F.linear(self._norm(h, f"{at}.input_layernorm"), self.w[f"{at}.qkv.weight"])
        own = own.view(len(h), -1, c.depth).transpose(0, 1)
        turned = c.heads + c.kv_heads
        x = own[:turned]
        a, b = x.chunk(2, -1)
        x = x * self.cosine[positions] + torch.cat([-b, a], -1) * self.sine[positions]
        y = self._attend(x[: c.heads], x[c.heads :], own[turned:], i, positions, end)
        h = h + F.linear(y, self.w[f"{at}.self_attn.o_proj.weight"])
        y = F.linear(
            self._norm(h, f"{at}.post_attention_layernorm"), self.w[f"{at}.gate_up.weight"]
        )
        gate, up = y.chunk(2, -1)
        return h + F.linear(F.silu(gate) * up, self.w[f"{at}.mlp.down_proj.weight"])

    def _attend(self, q: Any, k: Any, v: Any, i: int, positions: Any, end: int) -> Any:
        """Attention on (heads, n, depth); keys and values are appended to the caches."""
        keys, values = self.caches[i]
        keys.index_copy_(2, positions, k[None])
        values.index_copy_(2, positions, v[None])
        found = F.scaled_dot_product_attention(
            q[None], keys[:, :, :end], values[:, :, :end], is_causal=q.shape[1] > 1,
            enable_gqa=self.llama,
        )  # fmt: skip
        return found[0].transpose(0, 1).reshape(q.shape[1], -1)


class ResNet:
    """The operations that bench/resnet.py calls, in PyTorch."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.w = {name: tensor(w, "float32") for name, w in weights.items()}

    def conv(
        self, x: Any, name: str, stride: int = 1, relu: bool = True, residual: Any = None
    ) -> Any:
        w = self.w[name]
        y = F.conv2d(x, w, self.w[f"{name}.bias"], stride, w.shape[-1] // 2)
        if residual is not None:
            y = y + residual
        return F.relu_(y) if relu else y

    def pool(self, x: Any) -> Any:
        return F.max_pool2d(x, 3, 2, 1)

    def classify(self, x: Any) -> Any:
        return F.linear(x.mean((2, 3)), self.w["classes"], self.w["classes.bias"])


def graphed(call: Any) -> Any:
    """The call as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # the calls create torch's caches; a graph may not do so
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


# -- loops of calls, checked first ---------------------------------------------------------------


def check(name: str, found: Any, want: Any, allowed: float) -> None:
    """Raise SystemExit unless torch computes the same network. Small differences are allowed,
    because sums in another order round differently."""
    found = found.double().cpu().numpy()
    error = np.linalg.norm(found.ravel() - want.ravel()) / np.linalg.norm(want)
    if not error <= 4 * allowed:
        raise SystemExit(f"{name}: torch's is off by {error:.1e}")


def timed(call: Any) -> Any:
    """A function of n: the seconds of n calls and the sync after them, by the host's clock."""

    def loop(n: int) -> float:
        sync()
        started = time.perf_counter()
        for _ in range(n):
            call()
        sync()
        return time.perf_counter() - started

    return loop


def loops_of(call: Any) -> dict[str, Any]:
    """The loops of eager calls and, if there is a GPU, the loops of a CUDA graph."""
    found = {"torch": timed(call)}
    if DEVICE == "cuda":
        found["CUDA graph"] = timed(graphed(call))
    return found


class Behind:
    """Reads tokens one step behind, so that the device does not wait for the host."""

    def __init__(self) -> None:
        self.copies: list[tuple[Any, Any]] = []
        self.pinned = [torch.empty(1, dtype=torch.int64, pin_memory=DEVICE == "cuda") for _ in "ab"]

    def read(self, token: Any) -> None:
        """Starts the copy of this token, and waits for the copy of the token before it."""
        if DEVICE != "cuda":
            token.item()
            return
        self.pinned.reverse()
        self.pinned[0].copy_(token, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.copies.append((self.pinned[0], event))
        if len(self.copies) > 1:
            self._take()

    def end(self) -> None:
        while self.copies:
            self._take()

    def _take(self) -> None:
        copy, event = self.copies.pop(0)
        event.synchronize()
        copy.item()


def decode_loops(net: Decoder, tokens: Any, want: Any, row: Any) -> dict[str, Any]:
    """The loops of decoder steps whose tokens are read; the CUDA graph is for one position."""
    keys = len(tokens)
    given = torch.tensor(tokens, device=DEVICE)
    places = torch.arange(keys, device=DEVICE)
    net.logits(given[:-1], places[:-1], keys - 1)
    last, place = given[-1:].clone(), places[-1:].clone()
    check(row.name, net.logits(last, place, keys), want, row.allowed)

    def eager(n: int) -> float:
        token, position = last, place.clone()
        sync()
        behind = Behind()
        started = time.perf_counter()
        for i in range(n):
            token = net.logits(token, position, keys + i).argmax(-1)
            position += 1
            behind.read(token)
        behind.end()
        return time.perf_counter() - started

    found = {"torch": eager}
    if DEVICE == "cuda":
        token = last.clone()

        def step() -> None:
            token.copy_(net.logits(token, place, keys).argmax(-1))

        replay = graphed(step)

        def steps(n: int) -> float:
            sync()
            behind = Behind()
            started = time.perf_counter()
            for _ in range(n):
                replay()
                behind.read(token)
            behind.end()
            return time.perf_counter() - started

        found["CUDA graph"] = steps
    return found


def prefill_loops(net: Decoder, tokens: Any, want: Any, row: Any) -> dict[str, Any]:
    """The loops of a prefill, which computes all tokens in one call."""
    given = torch.tensor(tokens, device=DEVICE)
    places = torch.arange(len(tokens), device=DEVICE)

    def call() -> Any:
        return net.logits(given, places, len(tokens))

    check(row.name, call(), want, row.allowed)
    return loops_of(call)


def resnet_loops(weights: Any, size: Any, x: Any, want: Any, row: Any) -> dict[str, Any]:
    """The loops of calls from pictures to logits."""
    net, pictures = ResNet(weights), tensor(x, "float32")

    def call() -> Any:
        return resnet.logits(net, size, pictures)

    check(row.name, call(), want, row.allowed)
    return loops_of(call)
