"""Language models of the shapes of GPT-2 and Llama write tokens, all on the device.

    python examples/decoder.py [--shape tiny-llama] [--weights model.safetensors ...] [--half]
                               [--prompt 1,2,3] [--tokens 16] [--temperature 0.8] [--top-k 50]

A step (a token in, the next one out) is captured once and serves every position: the position is
a tensor on the device that the step counts on. Weights are random ones where no files are given;
there is no tokenizer: prompts are numbers. At the end the steps are compared with one pass over all
tokens.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from checkpoints import SHAPES, Array, Config, Weights, random_weights, read, rope_factors

import pykernels as pk


class Sampling(NamedTuple):
    """How the next token is drawn: see `pk.categorical`. Temperature 0 takes the likeliest."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0


Pair = tuple[pk.Tensor, pk.Tensor | None]  # a weight, and a bias where there is one


class Layer(NamedTuple):
    """Weights as (outputs, inputs): of queries, keys and values in one, of gate and up in one; and
    the norm between attention and the rest."""

    qkv: pk.Tensor
    qkv_bias: pk.Tensor | None
    out: pk.Tensor
    out_bias: pk.Tensor | None
    norm: Pair
    up: pk.Tensor
    up_bias: pk.Tensor | None
    down: pk.Tensor
    down_bias: pk.Tensor | None


# Names of the fields in checkpoints; several are joined.
GPT2 = {
    "qkv": ["attn.c_attn"], "out": ["attn.c_proj"], "up": ["mlp.c_fc"], "down": ["mlp.c_proj"],
}  # fmt: skip
LLAMA = {
    "qkv": [f"self_attn.{n}_proj" for n in "qkv"], "out": ["self_attn.o_proj"],
    "up": ["mlp.gate_proj", "mlp.up_proj"], "down": ["mlp.down_proj"],
}  # fmt: skip


class Decoder:
    """A network on a device, with room for the keys and values of so many tokens."""

    def __init__(
        self, dev: pk.Device, config: Config, weights: Weights, room: int,
        dtype: Literal["float32", "float16"] = "float32", sampling: Sampling | None = None,
        seed: int = 0,
    ) -> None:  # fmt: skip
        if config.family == "gpt2" and room > config.context:
            raise ValueError(f"room must be up to {config.context} tokens but is {room}")
        self.dev, self.config, self.room, self.dtype = dev, config, room, dtype
        self.sampling = sampling or Sampling()
        self.length = 0  # tokens whose keys and values are kept
        llama = config.family == "llama"
        self.embedding = self._upload(
            weights["model.embed_tokens.weight" if llama else "wte.weight"]
        )
        self.positions = None if llama else self._upload(weights["wpe.weight"])
        head = weights.get("lm_head.weight")
        self.head = self.embedding if head is None else self._upload(head)
        self.layers: list[Layer] = []
        self.norms: list[Pair] = []  # before each layer, and behind the last one
        first, second = (
            ("input_layernorm", "post_attention_layernorm") if llama else ("ln_1", "ln_2")
        )
        for i in range(config.layers):
            at = f"model.layers.{i}" if llama else f"h.{i}"
            own: dict[str, Any] = {"norm": self._pair(weights, [f"{at}.{second}"])}
            for field, names in (LLAMA if llama else GPT2).items():
                pair = self._pair(weights, [f"{at}.{name}" for name in names])
                own[field], own[f"{field}_bias"] = pair
            self.layers.append(Layer(**own))
            self.norms.append(self._pair(weights, [f"{at}.{first}"]))
        self.norms.append(self._pair(weights, ["model.norm" if llama else "ln_f"]))
        # Keys, then values, of all heads of a layer: one dispatch appends both.
        heads = 2 * config.kv_heads
        self.caches = [dev.zeros((heads, room, config.depth), dtype) for _ in self.layers]
        self.table = None
        if llama:
            self.table = pk.rope_table(
                config.depth, base=config.rope_base, freq_factors=rope_factors(config), device=dev
            )
        # What a step reads and leaves: the token that comes next, its position, and how many keys
        # there are with it.
        self.token = dev.zeros(1, "int32")
        self.counts = dev.tensor(np.int32([0, 1]))
        self.state = pk.random_state(seed, device=dev)
        with dev.capture() as self.step:
            self.logits = self.advance()

    def _upload(self, w: Array) -> pk.Tensor:
        return self.dev.tensor(np.ascontiguousarray(w, self.dtype))

    def _pair(self, weights: Weights, names: Sequence[str]) -> Pair:
        """Weights joined along their outputs, and the biases where there are some."""
        found = [weights[f"{name}.weight"] for name in names]
        if self.config.family == "gpt2":  # of products (inputs, outputs)
            found = [w.T for w in found]
        biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
        return (
            self._upload(np.concatenate(found)),
            self._upload(np.concatenate(biases)) if biases else None,
        )

    # -- the network ------------------------------------------------------------------------------

    def forward(
        self, tokens: pk.Tensor, positions: pk.Tensor, lengths: pk.Tensor | None = None
    ) -> pk.Tensor:
        """Logits (1, vocabulary) behind the last token; (n,) tokens join the caches.

        With lengths the device knows how many keys there are, without them `self.length` does.
        """
        y, h = self._begin(tokens, positions)
        for layer, cache, following in zip(self.layers, self.caches, self.norms[1:], strict=True):
            y = self._attend(pk.linear(y, layer.qkv, layer.qkv_bias), cache, positions, lengths)
            h = pk.matmul(y, layer.out.T, bias=layer.out_bias, residual=h)
            y = self._norm(h, *layer.norm)
            if self.config.family == "gpt2":
                y = pk.linear(y, layer.up, layer.up_bias, activation="gelu_tanh")
            else:
                y = pk.swiglu(pk.linear(y, layer.up))
            h = pk.matmul(y, layer.down.T, bias=layer.down_bias, residual=h)
            y = self._norm(h, *following)
        return pk.linear(y[-1:], self.head)

    def _begin(self, tokens: pk.Tensor, positions: pk.Tensor) -> tuple[pk.Tensor, pk.Tensor]:
        """The first norm, and what is normalised."""
        h = pk.embedding(self.embedding, tokens)
        if self.positions is None:
            return self._norm(h, *self.norms[0]), h
        places = pk.embedding(self.positions, positions)
        return pk.add_layer_norm(h, places, self.config.width, *self.norms[0], self.config.eps)

    def _norm(self, h: pk.Tensor, weight: pk.Tensor, bias: pk.Tensor | None) -> pk.Tensor:
        if bias is None:
            return pk.rms_norm(h, self.config.width, weight, self.config.eps)
        return pk.layer_norm(h, self.config.width, weight, bias, self.config.eps)

    def _attend(
        self, qkv: pk.Tensor, cache: pk.Tensor, positions: pk.Tensor, lengths: pk.Tensor | None
    ) -> pk.Tensor:
        """Queries, keys and values (n, heads of all), to what comes of the values, (n, width)."""
        c = self.config
        n = qkv.shape[0]
        own = qkv.reshape(n, -1, c.depth)
        if self.table is not None:
            q = pk.rope_append(own, positions, cache, style="neox", axis=-3, table=self.table)
        else:
            q = own[:, : c.heads]
            pk.set_rows(own[:, c.heads :].swapaxes(0, 1), positions, cache)
        kept = cache if lengths is not None else cache[:, : self.length + n]
        found = self.dev.empty((n, c.heads, c.depth), self.dtype)
        pk.flash_attn(
            q.swapaxes(0, 1)[None], kept[None, : c.kv_heads], kept[None, c.kv_heads :],
            lengths=lengths, causal=n > 1, out=found.swapaxes(0, 1)[None],
        )  # fmt: skip
        return found.reshape(n, -1)

    def sample(self, logits: pk.Tensor) -> None:
        """Draw the next token."""
        pk.categorical(logits, **self.sampling._asdict(), state=self.state, out=self.token)

    def advance(self) -> pk.Tensor:
        """What a step is: from `token` to the next one; the logits (1, vocabulary) between them."""
        logits = self.forward(self.token, self.counts[:1], self.counts[1:])
        self.sample(logits)
        pk.add(self.counts, 1, out=self.counts)
        return logits

    # -- tokens -----------------------------------------------------------------------------------

    def prefill(self, tokens: Sequence[int]) -> pk.Tensor:
        """Append tokens to the sequence. Returns the logits (1, vocabulary) for the next token.

        `token` is then a draw from these logits.
        """
        end = self.length + len(tokens)
        if not 0 < len(tokens) or end > self.room:
            raise ValueError(
                f"there is room for {self.room - self.length} tokens, not {len(tokens)}"
            )
        places = np.arange(self.length, end, dtype=np.int32)
        given = self.dev.tensor(np.asarray(tokens, np.int32))
        logits = self.forward(given, self.dev.tensor(places))
        self.sample(logits)
        self.length = end
        self.counts[:] = np.int32([end, end + 1])
        return logits

    def generate(self, tokens: int) -> Iterator[int]:
        """The token that was drawn last, and those that steps draw behind it."""
        for n in range(tokens):
            yield self.token.item()
            if n + 1 < tokens:
                if self.length == self.room:
                    raise ValueError(f"the caches have room for {self.room} tokens")
                self.step()
                self.length += 1


def difference(decoder: Decoder, tokens: Sequence[int]) -> float:
    """How far the logits of the last step are from those of one pass over all of its tokens, as a
    share of their length."""
    stepped = decoder.logits.numpy().astype(np.float64)
    decoder.length = 0
    want = decoder.prefill(tokens).numpy().astype(np.float64)
    return float(np.linalg.norm(stepped - want) / np.linalg.norm(want))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="tiny-llama")
    parser.add_argument("--weights", type=Path, nargs="+", help="safetensors files")
    parser.add_argument("--half", action="store_true", help="float16")
    parser.add_argument("--prompt", default="1,2,3,4,5", help="numbers of tokens")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    config = SHAPES[args.shape]
    weights = read(args.weights, config) if args.weights else random_weights(config)
    prompt = [int(n) for n in args.prompt.split(",")]
    decoder = Decoder(
        pk.default_device(), config, weights, len(prompt) + args.tokens,
        "float16" if args.half else "float32",
        Sampling(args.temperature, args.top_k, args.top_p), args.seed,
    )  # fmt: skip
    decoder.prefill(prompt)
    tokens, start = [], time.perf_counter()
    for token in decoder.generate(args.tokens):
        tokens.append(token)
        print(token, end=" ", flush=True)
    each = 1e3 * (time.perf_counter() - start) / args.tokens
    print(f"\n{each:.2f} ms a token, {len(decoder.step)} dispatches a step")
    if args.tokens > 1:
        found, allowed = (
            difference(decoder, prompt + tokens[:-1]),
            2.0 ** (-5 if args.half else -17),
        )
        print(f"steps and one pass over all tokens differ by {found:.1e} of the logits")
        if found > allowed:
            raise SystemExit(f"more than {allowed:.1e}")


if __name__ == "__main__":
    main()
