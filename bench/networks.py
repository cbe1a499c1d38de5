"""Compares the times of whole networks with torch's times: decoder steps, prefills and ResNet-50,
by the host's clock.

    python -m bench.networks [--engine ENGINE] [--adapter NAME] [--small] [--only TEXT]
                             [--rounds N] [--save FILE]

Outputs are checked first, against the same network in numpy's float64. The allowed error is a few
times the effect of rounding every result once. Times are milliseconds of a call: the median over
rounds that measure all columns in turn, each as a loop of calls. The token of each step is read,
because users need it. Both libraries read it while the device computes the next step. If torch has
a GPU, it runs eagerly and as a CUDA graph (for decoder steps, the graph of one position), with TF32
off. GPU time is measured by timestamps, on captured calls. Rows are written into FILE, by default
bench/results/networks/<adapter>.json (<adapter>-<engine>.json for other engines than wgpu); rows of
that file that were not measured stay. Small networks (`--small`, software drivers) are saved only
if --save names a file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import pykernels as pk
from bench import resnet
from bench.rows import ROOT, Loop, Row, Table, arguments, run
from pykernels.bench.case import CheckFailed
from pykernels.bench.clock import GpuSample, HostSample

sys.path.insert(0, str(ROOT / "examples"))

import checkpoints
import decoder_numpy
import gguf_models
from decoder import Decoder

Array = np.ndarray[Any, Any]
# A network may be off by this many times the effect of rounding each result once: sums of products,
# norms and attention round more than once.
ROUNDINGS = 8.0
STEPS = 32  # number of decoder steps in a loop; each step adds a key
COLUMNS = ("uncaptured", "captured", "GPU", "torch", "CUDA graph")
TABLE = Table("python -m bench.networks", COLUMNS, "torch")


class Bench:
    """The rows of a table for one device."""

    def __init__(self, dev: pk.Device, small: bool, rounds: int) -> None:
        self.dev, self.small, self.rounds = dev, small, rounds
        self.torch, self.no_torch = _torch()

    def run(self, only: str = "") -> Iterator[Row]:
        """Measure the networks whose names contain `only`."""
        keys = 12 if self.small else 512
        prefix = "tiny-" if self.small else ""
        for shape in (f"{prefix}gpt2", f"{prefix}llama" if self.small else "llama-3.2-1b"):
            for dtype in ("float32", "float16"):
                names = [f"{shape} {what} {dtype}" for what in ("decode", "prefill")]
                if any(only in name for name in names):
                    yield from self._decoder(shape, dtype, keys, names)
        for shape, mix in (("llama-3.2-1b", "q4_0"), ("llama-3.1-8b", "q4_k_m")):
            own = "wide-llama" if self.small else shape
            names = [f"{own} {mix} {what} float16" for what in ("decode", "prefill")]
            if any(only in name for name in names):
                yield from self._quantised(own, mix, keys, names)
        for batch in (2, 1) if self.small else (8, 1):
            name = f"resnet-50 batch {batch} float32"
            if only in name:
                yield self._resnet(name, batch)
            if only in f"{name} fast":
                yield self._resnet(f"{name} fast", batch, fast=True)

    # -- decoders ---------------------------------------------------------------------------------

    def _decoder(self, shape: str, dtype: Any, keys: int, names: list[str]) -> Iterator[Row]:
        config = checkpoints.SHAPES[shape]
        weights = {n: w.astype(dtype) for n, w in checkpoints.random_weights(config).items()}
        tokens = np.random.default_rng(1).integers(config.vocabulary, size=keys)
        want, once = (
            decoder_numpy.logits(config, weights, tokens, d)[-1]
            for d in (np.float64, np.dtype(dtype).type)
        )
        model = Decoder(self.dev, config, weights, keys + STEPS, dtype)
        theirs = None
        if self.torch:
            theirs = self.torch.Decoder(config, weights, keys + STEPS, dtype)
        for name, made in zip(names, (self._decode, self._prefill), strict=True):
            row = Row(name, allowed=ROUNDINGS * distance(once, want))
            loops = made(row, model, theirs, tokens, want)
            most = STEPS if made == self._decode else 1 << 16
            yield row.measure(loops, self.rounds, self.small, most)

    def _quantised(self, shape: str, mix: str, keys: int, names: list[str]) -> Iterator[Row]:
        """The rows of decoders with random weights in blocks. Networks that numpy computes in
        minutes are checked against numpy; for larger networks, steps are checked against one pass
        over all tokens."""
        config = checkpoints.SHAPES[shape]
        weights = gguf_models.random_model(config, mix)
        tokens = np.random.default_rng(1).integers(config.vocabulary, size=keys)
        model = Decoder(self.dev, config, weights, keys + STEPS, "float16")
        if config.layers * config.width**2 < 1 << 28:
            numbers = {n: w if isinstance(w, np.ndarray) else w.numpy() for n, w in weights.items()}
            want, once = (
                decoder_numpy.logits(config, numbers, tokens, d)[-1]
                for d in (np.float64, np.float16)
            )
            allowed = ROUNDINGS * distance(once, want)
        else:
            want = model.prefill([int(t) for t in tokens]).numpy()[0].astype(np.float64)
            allowed = 2.0**-5
        for name, made in zip(names, (self._decode, self._prefill), strict=True):
            row = Row(name, allowed=allowed)
            loops = made(row, model, None, tokens, want)
            yield row.measure(loops, self.rounds, self.small, STEPS if made == self._decode else 99)

    def _decode(
        self, row: Row, model: Decoder, theirs: Any, tokens: Array, want: Array
    ) -> dict[str, Loop]:
        keys = len(tokens)
        model.length = 0
        model.prefill([int(t) for t in tokens[:-1]])

        def begin() -> None:
            model.counts[:] = np.int32([keys - 1, keys])
            model.token[:] = np.int32(tokens[-1:])

        begin()
        checked(row, model.advance(), want)
        begin()
        model.step()
        checked(row, model.logits, want)
        row.dispatches = len(model.step)

        def loop(call: Callable[[], object]) -> Loop:
            def steps(n: int) -> float:
                begin()
                self.dev.sync()
                started = time.perf_counter()
                drawn = model.token.numpy_later()
                for _ in range(n):
                    call()
                    ahead = model.token.numpy_later()
                    drawn.result()
                    drawn = ahead
                drawn.result()
                return time.perf_counter() - started

            return steps

        def gpu(n: int) -> float:
            begin()
            return GpuSample(self.dev, model.step)(n)

        found = {"uncaptured": loop(model.advance), "captured": loop(model.step), "GPU": gpu}
        return found | (self.torch.decode_loops(theirs, tokens, want, row) if theirs else {})

    def _prefill(
        self, row: Row, model: Decoder, theirs: Any, tokens: Array, want: Array
    ) -> dict[str, Loop]:
        given = self.dev.tensor(np.int32(tokens))
        places = pk.arange(len(tokens), dtype="int32", device=self.dev)
        model.length = 0

        def call() -> pk.Tensor:
            return model.forward(given, places)

        found = self._calls(row, call, want)
        return found | (self.torch.prefill_loops(theirs, tokens, want, row) if theirs else {})

    # -- pictures ---------------------------------------------------------------------------------

    def _resnet(self, name: str, batch: int, fast: bool = False) -> Row:
        """The row of ResNet-50. With `fast`, convolutions have precision="fast"; they are then
        Winograd's convolutions if the device's table allows these."""
        size = resnet.Size((1, 1), 8, 10, 32) if self.small else resnet.Size()
        weights = resnet.random_weights(size)
        x = np.random.default_rng(2).standard_normal((batch, 3, size.side, size.side), np.float32)
        want, once = (
            resnet.logits(
                resnet.Numpy({n: w.astype(d) for n, w in weights.items()}), size, x.astype(d)
            )
            for d in (np.float64, np.float32)
        )
        row = Row(name, allowed=ROUNDINGS * distance(once, want))
        ours = resnet.Ours(
            {n: self.dev.tensor(w) for n, w in weights.items()}, "fast" if fast else None
        )
        pictures = self.dev.tensor(x)
        loops = self._calls(row, lambda: resnet.logits(ours, size, pictures), want)
        if self.torch:
            loops |= self.torch.resnet_loops(weights, size, x, want, row)
        return row.measure(loops, self.rounds, self.small)

    # -- times ------------------------------------------------------------------------------------

    def _calls(self, row: Row, call: Callable[[], pk.Tensor], want: Array) -> dict[str, Loop]:
        """The loops of a call, after its result is checked."""
        checked(row, call(), want)
        with self.dev.capture() as program:
            result = call()
        program()
        checked(row, result, want)
        row.dispatches = len(program)
        return {
            "uncaptured": HostSample(self.dev, call), "captured": HostSample(self.dev, program),
            "GPU": GpuSample(self.dev, program),
        }  # fmt: skip


def _torch() -> tuple[Any, str]:
    """The module of torch's networks, or the reason why there is none."""
    try:
        from bench import networks_torch
    except ImportError:
        return None, "torch is not installed"
    networks_torch.prepare()
    return networks_torch, "" if networks_torch.DEVICE == "cuda" else "torch sees no GPU: its CPU"


def distance(a: Array, b: Array) -> float:
    """The length of a - b, as a share of the length of b."""
    return float(np.linalg.norm(a.ravel() - b.ravel()) / np.linalg.norm(b))


def checked(row: Row, found: pk.Tensor, want: Array) -> None:
    """Raise CheckFailed if the result differs from float64 by more than rounding explains."""
    row.error = max(row.error, distance(found.numpy().astype(np.float64), want))
    if not row.error <= row.allowed:
        raise CheckFailed(
            f"{row.name} is off by {row.error:.1e}, of which {row.allowed:.1e} may be"
        )


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="part of the names of rows")
    args = parser.parse_args(argv)

    def begin(dev: pk.Device, small: bool) -> tuple[str, Iterable[Row]]:
        bench = Bench(dev, small, args.rounds)
        return bench.no_torch or "torch on a GPU", bench.run(args.only)

    run(args, TABLE, begin)


if __name__ == "__main__":
    main()
