"""Language models generate tokens on the device: GPT-2, Llama, Mistral, Mixtral, Qwen, Gemma 2.

    python examples/decoder.py --gguf model.gguf --text "Once upon a time" [--cache q8_0] [--half]
    python examples/decoder.py [--shape tiny-llama] [--weights model.safetensors ...] [--half]
                               [--prompt 1,2,3] [--tokens 16] [--temperature 0.8] [--top-k 50]
    python examples/decoder.py --shape small-gemma2 --write model.gguf --type q8_0

A step (from a token to the next token) is captured once and runs at every position: the position is
a tensor on the device that the step increments. Without files, weights are random. Quantised
weights of a GGUF file stay quantised. The file's tokenizer converts between text and tokens, if the
package `tokenizers` is installed; without that package, prompts are numbers. At the end the steps
are compared with one pass over all tokens.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from checkpoints import read
from decoder_families import SHAPES, Config, named, random_weights, rope_factors
from decoder_layers import Experts, Layer, Loader, Norm, Product
from gguf_models import Model, text_of, write

import pykernels as pk


class Sampling(NamedTuple):
    """How the next token is drawn; see `pk.categorical`. Temperature 0 takes the most likely
    token."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0


class Decoder:
    """A network on a device, with room for the keys and values of `room` tokens.

    `cache` is the type of keys and values, "q8_0" or "q4_0"; with None they have the dtype `dtype`.
    """

    def __init__(
        self, dev: pk.Device, config: Config, weights: Mapping[str, Any], room: int,
        dtype: Literal["float32", "float16", "bfloat16"] = "float32",
        sampling: Sampling | None = None, seed: int = 0, cache: str | None = None,
    ) -> None:  # fmt: skip
        if not config.row.rotary and room > config.context:
            raise ValueError(f"room must be up to {config.context} tokens but is {room}")
        self.dev, self.config, self.room, self.dtype = dev, config, room, dtype
        self.sampling = sampling or Sampling()
        self.length = 0  # number of tokens whose keys and values are kept
        weights = named(config, weights)
        load = Loader(dev, config, weights, dtype)
        places, head = (weights.get(f"{n}.weight") for n in ("position_embd", "output"))
        (self.embedding,) = load.upload([weights["token_embd.weight"]])
        self.positions = None if places is None else load.upload([places])[0]
        own = self.embedding if head is None else load.upload([head])[0]
        self.head = Product([(own, None)])
        self.layers = [load.layer(i) for i in range(config.layers)]
        self.last = load.norm("output_norm")
        # A cache has the keys, then the values of all heads of a layer: one dispatch appends both.
        shape = (2 * config.kv_heads, room, config.depth)
        self.caches: list[Any] = [
            dev.zeros(shape, dtype) if cache is None else pk.QTensor.zeros(shape, cache, dev)
            for _ in self.layers
        ]
        self.table = None
        if config.row.rotary:
            factors = weights.get("rope_freqs.weight", rope_factors(config))
            self.table = pk.rope_table(
                config.depth, base=config.rope_base, freq_factors=factors, device=dev
            )
        # Each step reads and updates `token`, the next token, and `counts`. `counts` holds the
        # position of this token and the number of keys up to this position.
        self.token = dev.zeros(1, "int32")
        self.counts = dev.tensor(np.int32([0, 1]))
        self.state = pk.random_state(seed, device=dev)
        with dev.capture() as self.step:
            self.logits = self.advance()

    # -- the network ------------------------------------------------------------------------------

    def forward(
        self, tokens: pk.Tensor, positions: pk.Tensor, lengths: pk.Tensor | None = None
    ) -> pk.Tensor:
        """Logits (1, vocabulary) after the last token. `tokens` and `positions` have the shape
        (n,); the keys and values of the tokens are appended to the caches.

        `lengths`, on the device, holds the number of keys, including the keys of `tokens`; if it is
        None, the number is `self.length` + n.
        """
        eps, gate = self.config.eps, self.config.row.gate
        h, y = self._begin(tokens, positions)  # y is the norm of h if it is known, else None
        for layer, cache in zip(self.layers, self.caches, strict=True):
            qkv = layer.qkv.behind(h, layer.before, eps, y)
            y = self._attend(layer, qkv, cache, positions, lengths)
            h = self._add(layer.out, y, h, layer.after and layer.after[0])
            if isinstance(layer.feed, Experts):
                h = h + layer.feed.of(layer.between.of(h, eps), self.config.used, gate)
            else:
                up, down = layer.feed
                act = gate or "gelu_tanh"
                y = up.behind(h, layer.between, eps, activation=act, gated=bool(gate))
                h = self._add(down, y, h, layer.after and layer.after[1])
            y = None
        logits = self.head.behind(h[-1:], self.last, eps)
        cap = self.config.final_cap
        return pk.elementwise("cap * tanh(x / cap)", x=logits, cap=cap) if cap else logits

    def _begin(self, tokens: pk.Tensor, positions: pk.Tensor) -> tuple[pk.Tensor, pk.Tensor | None]:
        """Embeddings, and their norm if the same kernel computes it, else None."""
        c, first = self.config, self.layers[0].before
        h = self._rows(self.embedding, tokens)
        if c.row.scaled:
            h = pk.multiply(h, c.width**0.5)
        if self.positions is None:
            return h, None
        places = self._rows(self.positions, positions)
        y, h = pk.add_layer_norm(h, places, c.width, *first, c.eps)
        return h, y

    def _rows(self, table: Any, index: pk.Tensor) -> pk.Tensor:
        found = self.dev.empty((index.shape[0], table.shape[1]), self.dtype)
        return pk.embedding(table, index, out=found)

    def _add(self, product: Product, y: pk.Tensor, h: pk.Tensor, after: Norm | None) -> pk.Tensor:
        """The sum of h and the product; the product is normalised first if `after` is given."""
        if after is None:
            return product(y, residual=h)
        return h + after.of(product(y), self.config.eps)

    def _attend(
        self, layer: Layer, qkv: pk.Tensor, cache: Any, positions: pk.Tensor,
        lengths: pk.Tensor | None,
    ) -> pk.Tensor:  # fmt: skip
        """Attention, (n, width), from rows of `qkv` with queries, keys and values side by side."""
        c = self.config
        n = qkv.shape[0]
        own = qkv.reshape(n, -1, c.depth)
        if layer.heads is not None:
            for norm, heads in zip(
                layer.heads, (slice(c.heads), slice(c.heads, c.heads + c.kv_heads)), strict=True
            ):
                norm.of(own[:, heads], c.eps, out=own[:, heads])
        if self.table is not None:
            q = pk.rope_append(own, positions, cache, style=c.style, axis=-3, table=self.table)
        else:
            q = own[:, : c.heads]
            pk.set_rows(own[:, c.heads :].swapaxes(0, 1), positions, cache)
        # a quantised cache has no view of its first rows, so attention needs the number of keys
        if isinstance(cache, pk.QTensor) and lengths is None:
            lengths = self.dev.tensor(np.int32([self.length + n]))
        kept = cache if lengths is not None else cache[:, : self.length + n]
        found = self.dev.empty((n, c.heads, c.depth), self.dtype)
        pk.flash_attn(
            q.swapaxes(0, 1)[None], kept[None, : c.kv_heads], kept[None, c.kv_heads :],
            lengths=lengths, causal=n > 1, softcap=c.attention_cap,
            window=(layer.window - 1, 0) if layer.window else None,
            out=found.swapaxes(0, 1)[None],
        )  # fmt: skip
        return found.reshape(n, -1)

    def sample(self, logits: pk.Tensor) -> None:
        """Draw the next token."""
        pk.categorical(logits, **self.sampling._asdict(), state=self.state, out=self.token)

    def advance(self) -> pk.Tensor:
        """A step replaces `token` by the next token, and returns the logits (1, vocabulary)."""
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
        """Yields the token that was drawn last, and the tokens of the steps after it.

        Steps are launched one token ahead: a token is read while the device computes the next one.
        """
        drawn = ahead = self.token.numpy_later()
        for n in range(tokens):
            full = self.length == self.room
            if n + 1 < tokens and not full:
                self.step()
                self.length += 1
                ahead = self.token.numpy_later()
            yield int(drawn.result()[0])
            if n + 1 < tokens and full:
                raise ValueError(f"the caches have room for {self.room} tokens")
            drawn = ahead


def difference(decoder: Decoder, tokens: Sequence[int]) -> float:
    """The distance between the logits of the last step and the logits of one pass over all tokens,
    as a share of the length of the logits of the pass."""
    stepped = decoder.logits.numpy().astype(np.float64)
    decoder.length = 0
    want = decoder.prefill(tokens).numpy().astype(np.float64)
    return float(np.linalg.norm(stepped - want) / np.linalg.norm(want))


def main() -> None:
    args = arguments()
    if args.write:
        config = SHAPES[args.shape]
        write(args.write, config, random_weights(config, args.seed), args.type)
        return
    config, weights, text = SHAPES[args.shape], None, None
    if args.gguf:
        weights = Model(args.gguf)
        config, text = weights.config, text_of(weights.metadata)
    elif args.weights:
        weights = read(args.weights, config)
    if args.text is None:
        prompt = [int(n) for n in args.prompt.split(",")]
    elif text is None:
        raise SystemExit("--text takes a GGUF file with a tokenizer, and the package tokenizers")
    else:
        prompt = text.tokens(args.text)
    decoder = Decoder(
        pk.default_device(), config, random_weights(config) if weights is None else weights,
        len(prompt) + args.tokens, "float16" if args.half else "float32",
        Sampling(args.temperature, args.top_k, args.top_p), args.seed, args.cache,
    )  # fmt: skip
    decoder.prefill(prompt)  # compiles its pipelines
    decoder.token.item()
    decoder.length, start = 0, time.perf_counter()
    decoder.prefill(prompt)
    decoder.token.item()
    prompt_seconds = time.perf_counter() - start
    tokens, start = [], time.perf_counter()
    for token in decoder.generate(args.tokens):
        tokens.append(token)
        if text is None:
            print(token, end=" ", flush=True)
    seconds = time.perf_counter() - start
    if text is not None:
        print(text.text(prompt + tokens), end="")
    steps = max(args.tokens - 1, 1)
    print(f"\nprompt: {len(prompt) / prompt_seconds:.1f} tokens a second")
    print(
        f"steps: {steps / seconds:.1f} tokens a second, {1e3 * seconds / steps:.2f} ms and "
        f"{len(decoder.step)} dispatches each"
    )
    if args.tokens > 1:
        compare(decoder, prompt + tokens[:-1], args)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="tiny-llama")
    parser.add_argument("--weights", type=Path, nargs="+", help="safetensors files")
    parser.add_argument("--gguf", type=Path, help="a GGUF file, in place of shape and weights")
    parser.add_argument("--write", type=Path, help="write random weights as a GGUF file, and end")
    parser.add_argument("--type", default="q8_0", help="of matrices that --write writes")
    parser.add_argument("--cache", choices=["q8_0", "q4_0"], help="of keys and values; else floats")
    parser.add_argument("--half", action="store_true", help="float16")
    parser.add_argument("--prompt", default="1,2,3,4,5", help="numbers of tokens")
    parser.add_argument("--text", help="a prompt in words")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def compare(decoder: Decoder, tokens: Sequence[int], args: argparse.Namespace) -> None:
    """Exit if the last step and one pass over all tokens differ by more than rounding explains."""
    found = difference(decoder, tokens)
    # In a quantised cache, a rounding error may move a number to the next step of quantisation.
    allowed = {"q8_0": 2.0**-4, "q4_0": 0.5, None: 2.0 ** (-5 if args.half else -17)}[args.cache]
    print(f"steps and one pass over all tokens differ by {found:.1e} of the logits")
    if found > allowed:
        raise SystemExit(f"more than {allowed:.1e}")


if __name__ == "__main__":
    main()
