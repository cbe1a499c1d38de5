"""The layers of decoder.py: weights on a device, joined if one product can replace several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from decoder_families import Config

import pykernels as pk

Weight: TypeAlias = "pk.Tensor | pk.QTensor"


class Norm(NamedTuple):
    """A norm's weight, and its bias (None if it has none)."""

    weight: pk.Tensor
    bias: pk.Tensor | None

    def of(self, h: pk.Tensor, eps: float, out: pk.Tensor | None = None) -> pk.Tensor:
        """The norm of h over its last axis."""
        if self.bias is None:
            return pk.rms_norm(h, self.weight.shape[0], self.weight, eps, out=out)
        return pk.layer_norm(h, self.weight.shape[0], *self, eps, out=out)


class Product:
    """Products of the same input, joined into one product if their weights have the same type. The
    results lie side by side."""

    def __init__(self, parts: Sequence[tuple[Weight, pk.Tensor | None]]) -> None:
        self.parts = parts
        self.width = sum(w.shape[0] for w, _ in parts)

    def __call__(
        self, x: pk.Tensor, activation: Any = None, residual: pk.Tensor | None = None
    ) -> pk.Tensor:
        """x @ weights.T + bias, with an activation or a residual."""
        if len(self.parts) == 1:
            (w, bias) = self.parts[0]
            if residual is not None:
                return pk.matmul(x, w.T, bias=bias, residual=residual)
            return pk.linear(x, w, bias, activation=activation)
        assert residual is None
        found, at = x.device.empty((x.shape[0], self.width), x.dtype), 0
        for w, bias in self.parts:
            pk.linear(x, w, bias, activation=activation, out=found[:, at : at + w.shape[0]])
            at += w.shape[0]
        return found

    def behind(
        self, h: pk.Tensor, norm: Norm, eps: float, y: pk.Tensor | None = None,
        activation: Any = None, gated: bool = False,
    ) -> pk.Tensor:  # fmt: skip
        """The products of the norm of h; `y` is this norm if it is known already. With one row, an
        RMS norm and a product are one dispatch where possible. If gated, the result is the
        activation of the first half of the columns, times the second half."""
        one = y is None and norm.bias is None and h.shape[0] == 1
        if one and len(self.parts) == 1:
            (w, bias) = self.parts[0]
            return pk.rms_norm_linear(
                h, norm.weight, w, bias, eps, activation=activation, gated=gated
            )
        if one and not gated:
            found, at = h.device.empty((1, self.width), h.dtype), 0
            for w, bias in self.parts:
                own = found[:, at : at + w.shape[0]]
                pk.rms_norm_linear(h, norm.weight, w, bias, eps, activation=activation, out=own)
                at += w.shape[0]
            return found
        y = norm.of(h, eps) if y is None else y
        return self.gated(y, activation) if gated else self(y, activation)

    def gated(self, y: pk.Tensor, activation: Any) -> pk.Tensor:
        """The activation of the first half of the columns, times the second half."""
        if activation == "silu":
            return pk.swiglu(self(y))
        a, b = pk.split(self(y), 2, axis=-1)
        return pk.multiply(pk.gelu(a, "tanh"), b)


class Experts(NamedTuple):
    """The product that computes the scores of experts, and the weights of all experts: `up` has
    gate and up (joined if they have the same type), `down` has down."""

    scores: Product
    up: list[Weight]
    down: Weight

    def of(self, y: pk.Tensor, used: int, activation: Any) -> pk.Tensor:
        """The sum of the experts with the largest scores, weighted by these scores' softmax."""
        best, chosen = pk.top_k(self.scores(y), used)
        act = activation or "silu"
        if len(self.up) == 1:
            z = pk.expert_linear(y, self.up[0], chosen, activation=act, gated=True)
        else:
            gate, up = self.up
            z = pk.expert_linear(y, gate, chosen, activation=act)
            z *= pk.expert_linear(y, up, chosen)
        z = pk.expert_linear(z, self.down, chosen)
        return pk.reduction("share * z", "sum", axis=1, share=pk.softmax(best)[..., None], z=z)


class Layer(NamedTuple):
    """A layer, with one product for queries, keys and values, and one product for gate and up."""

    qkv: Product
    out: Product
    before: Norm
    between: Norm
    feed: tuple[Product, Product] | Experts
    heads: tuple[Norm, Norm] | None  # norms for the heads of queries and of keys
    # norms for the outputs of attention and of the feed-forward layer
    after: tuple[Norm, Norm] | None
    window: int


class Loader:
    """Makes layers on a device from named weights, which are numpy arrays or blocks of a GGUF
    file."""

    def __init__(
        self, dev: pk.Device, config: Config, weights: Mapping[str, Any],
        dtype: Literal["float32", "float16", "bfloat16"],
    ) -> None:  # fmt: skip
        self.dev, self.config, self.weights, self.dtype = dev, config, weights, dtype

    def upload(self, given: Sequence[Any]) -> list[Weight]:
        """Weights (..., n, k) on the device; if all have the same type, they are joined along n."""
        kinds = {getattr(w, "type", "") for w in given}
        if len(kinds) > 1:
            return [own for w in given for own in self.upload([w])]
        if kinds == {""}:
            joined = np.concatenate(given, -2) if len(given) > 1 else given[0]
            return [self.dev.tensor(np.ascontiguousarray(joined, self.dtype))]
        data = np.concatenate(
            [np.ascontiguousarray(w.data).reshape(*w.shape[:-1], -1) for w in given], -2
        )
        lead, depth = given[0].shape[:-2], given[0].shape[-1]
        shape = *lead, sum(w.shape[-2] for w in given), depth
        return [pk.QTensor.from_bytes(data.reshape(-1), shape, given[0].type, self.dev)]

    def _product(self, *names: str) -> Product:
        given = [self.weights[f"{name}.weight"] for name in names]
        biases = [self.weights.get(f"{name}.bias") for name in names]
        parts = self.upload(given)
        if biases[0] is None:
            return Product([(w, None) for w in parts])
        if len(parts) == 1:
            biases = [np.concatenate(biases)]
        return Product([(w, self._plain(b)) for w, b in zip(parts, biases, strict=True)])

    def _plain(self, w: Any) -> pk.Tensor:
        return self.dev.tensor(np.ascontiguousarray(w, self.dtype))

    def norm(self, name: str) -> Norm:
        bias = self.weights.get(f"{name}.bias")
        weight = self._plain(self.weights[f"{name}.weight"])
        return Norm(weight, None if bias is None else self._plain(bias))

    def layer(self, i: int) -> Layer:
        row, at = self.config.row, f"blk.{i}."
        joined = [f"{at}attn_{n}" for n in ("q", "k", "v")]
        if self.config.family == "gpt2":
            joined = [f"{at}attn_qkv"]
        names = ("attn_q_norm", "attn_k_norm"), ("post_attention_norm", "post_ffw_norm")
        heads, after = (tuple(f"{at}{n}" for n in pair) for pair in names)
        feed: tuple[Product, Product] | Experts
        if self.config.experts:
            feed = self._experts(at)
        else:
            gates = [f"{at}ffn_gate"] if row.gate else []
            feed = self._product(*gates, f"{at}ffn_up"), self._product(f"{at}ffn_down")
        return Layer(
            self._product(*joined), self._product(f"{at}attn_output"),
            self.norm(f"{at}attn_norm"), self.norm(f"{at}ffn_norm"), feed,
            (self.norm(heads[0]), self.norm(heads[1])) if row.qk_norm else None,
            (self.norm(after[0]), self.norm(after[1])) if row.post_norms else None,
            self.config.window_of(i),
        )  # fmt: skip

    def _experts(self, at: str) -> Experts:
        gate, up, down = (self.weights[f"{at}ffn_{n}_exps.weight"] for n in ("gate", "up", "down"))
        scores = self._product(f"{at}ffn_gate_inp")
        return Experts(scores, self.upload([gate, up]), *self.upload([down]))
