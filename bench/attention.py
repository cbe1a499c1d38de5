"""Attention at the shapes of its speed goals, beside torch's SDPA (TF32 off) where it is there.

    python -m bench.attention [--engine wgpu|dawn] [--unchecked] [--only TEXT] [--runs 5]
                              [--scale 1.0] [--config large,32/4] [--parts] [--onnx]

Every case is timed with timestamp queries after a warm-up, in runs that alternate with torch's; the
medians are shown. Some rows of every output are checked against numpy in float64, by the budget of
`pykernels.reference.flash_attn`. Operations: 4 S T D for each head, half of it if causal. The rate
of a decoding step counts the bytes of k and v. `--config` names choices to compare, BODY or
BODY/SLICES ("auto": the plan's own); `--parts` shows the time of each dispatch, `--onnx` ONNX
Runtime's WebGPU provider beside the cases where heads share nothing and nothing is hidden.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pykernels as pk
from bench.attention_onnx import onnx_time
from bench.timing import HAVE_TORCH, copy_bandwidth, gpu_time, torch_time
from pykernels.bench.run import Skipped
from pykernels.plans.attention import flash_attn as plans
from pykernels.reference.flash_attn import attention, budget

if HAVE_TORCH:
    import torch

F32, F16 = "float32", "float16"


@dataclass(frozen=True)
class Case:
    """q (batch, heads, queries, depth), k and v (batch, kv_heads, keys, depth)."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    depth: int
    dtype: str = F32
    causal: bool = False

    @property
    def name(self) -> str:
        sizes = f"({self.batch},{self.heads},{self.queries},{self.depth})"
        if self.kv_heads != self.heads:
            sizes += f" {self.kv_heads} KV"
        if self.keys != self.queries:
            sizes += f" T {self.keys}"
        kind = {F32: "f32", F16: "f16"}[self.dtype]
        return f"{sizes} {kind}" + (" causal" if self.causal else "")

    @property
    def operations(self) -> int:
        pairs = self.queries * self.keys // (2 if self.causal else 1)
        return 4 * self.batch * self.heads * pairs * self.depth

    @property
    def nbytes(self) -> int:
        """Of k and v."""
        item = {F32: 4, F16: 2}[self.dtype]
        return 2 * self.batch * self.kv_heads * self.keys * self.depth * item

    def scaled(self, scale: float) -> Case:
        def size(n: int) -> int:
            return n if n <= 16 else max(int(n * scale), 17)

        return replace(self, queries=size(self.queries), keys=size(self.keys))


CASES = [
    Case(1, 32, 32, 4096, 4096, 128),
    Case(1, 32, 32, 4096, 4096, 128, causal=True),
    Case(8, 16, 16, 1024, 1024, 64),
    Case(8, 16, 16, 1024, 1024, 64, causal=True),
    Case(1, 32, 32, 4096, 4096, 128, F16),
    Case(1, 32, 32, 4096, 4096, 128, F16, causal=True),
    Case(8, 16, 16, 1024, 1024, 64, F16),
    Case(1, 32, 8, 2048, 2048, 96),
    Case(1, 8, 8, 4096, 4096, 80),
    Case(1, 8, 8, 2048, 2048, 256),
    Case(1, 32, 8, 1, 16384, 128),
    Case(1, 32, 8, 1, 65536, 128),
    Case(1, 32, 8, 1, 16384, 128, F16),
    Case(1, 32, 8, 1, 65536, 128, F16),
    Case(1, 32, 32, 1, 16384, 128, F16),
    Case(4, 32, 8, 4, 8192, 128, F16),
    Case(1, 32, 8, 64, 16384, 128, F16),
]


@contextmanager
def chosen(dev: pk.Device, config: str) -> Iterator[None]:
    """The plan takes this choice ("auto": its own)."""
    before = plans.choose
    if config != "auto":
        body, _, slices = config.partition("/")
        plans.choose = lambda *_: plans.Choice(body, int(slices or 1))
    dev._context.forget_calls()
    try:
        yield
    finally:
        plans.choose = before
        dev._context.forget_calls()


class Bench:
    def __init__(self, dev: pk.Device, runs: int, best: float, parts: bool = False,
                 onnx: bool = False) -> None:  # fmt: skip
        self.dev, self.runs, self.best, self.parts = dev, runs, best, parts
        self.onnx = onnx
        print(f"{'case':<32}{'config':>9}{'us':>11}{'TFLOP/s':>9}{'GB/s':>7}{'share':>7}"
              f"{'torch us':>11}{'x torch':>9}  error / allowed")  # fmt: skip

    def tensor(self, shape: tuple[int, ...], dtype: str, seed: int) -> pk.Tensor:
        values = np.random.default_rng(seed).standard_normal(shape, np.float32)
        return self.dev.tensor(values.astype(dtype))

    def case(self, c: Case, configs: list[str]) -> None:
        q = self.tensor((c.batch, c.heads, c.queries, c.depth), c.dtype, 1)
        k = self.tensor((c.batch, c.kv_heads, c.keys, c.depth), c.dtype, 2)
        v = self.tensor((c.batch, c.kv_heads, c.keys, c.depth), c.dtype, 3)
        out = self.dev.zeros(q.shape, c.dtype)  # type: ignore[arg-type]

        def call() -> None:
            pk.kernels.flash_attn(q, k, v, out, causal=c.causal)

        peer = self.peer(c)
        ours: dict[str, list[float]] = {config: [] for config in configs}
        theirs: list[float] = []
        errors = {}
        for config in configs:
            with chosen(self.dev, config):
                pk.kernels.memset(out, 255)
                call()
                errors[config] = self.error(c, q, k, v, out)
        for _ in range(self.runs):
            for config, times in ours.items():
                with chosen(self.dev, config):
                    times.append(gpu_time(self.dev, call))
            if peer is not None:
                theirs.append(torch_time(peer))
        for config, times in ours.items():
            self.row(c, config, statistics.median(times), errors[config],
                     statistics.median(theirs) if theirs else None)  # fmt: skip
            if self.parts:
                with chosen(self.dev, config):
                    self.show_parts(call)
        if self.onnx and c.heads == c.kv_heads and c.queries > 16 and not c.causal:
            self.show_onnx(c, min(statistics.median(times) for times in ours.values()))

    def error(self, c: Case, q: pk.Tensor, k: pk.Tensor, v: pk.Tensor, out: pk.Tensor) -> float:
        """The largest error of a sample of rows, as a share of what is allowed."""
        worst = 0.0
        for h in (0, c.heads - 1):
            at = slice(c.batch - 1, c.batch), slice(h, h + 1)
            kv = at[0], slice(h * c.kv_heads // c.heads, h * c.kv_heads // c.heads + 1)
            mask = None
            rows = slice(None, None, max(c.queries // 37, 1))
            if c.causal:
                i = np.arange(c.queries)[rows][:, None]
                mask = np.arange(c.keys) <= i + c.keys - c.queries
            some = q[at].numpy()[:, :, rows], k[kv].numpy(), v[kv].numpy()
            want = attention(*some, mask)
            allowed = budget(*some, mask, result=want)
            got = out[at].numpy()[:, :, rows].astype(np.float64)
            if c.dtype == F16:
                allowed = allowed + np.abs(want.o) * 2.0**-10 + 2.0**-24
            share = np.abs(got - want.o) / allowed
            worst = max(worst, float(np.where(np.isnan(share), np.inf, share).max()))
        return worst

    def peer(self, c: Case) -> Callable[[], object] | None:
        if not HAVE_TORCH:
            return None
        torch.backends.cuda.matmul.allow_tf32 = False
        kind = {F32: torch.float32, F16: torch.float16}[c.dtype]

        def make(heads: int, length: int) -> Any:
            return torch.randn((c.batch, heads, length, c.depth), device="cuda", dtype=kind)

        q, k, v = make(c.heads, c.queries), make(c.kv_heads, c.keys), make(c.kv_heads, c.keys)
        sdpa = torch.nn.functional.scaled_dot_product_attention
        grouped = {"enable_gqa": True} if c.heads != c.kv_heads else {}
        return lambda: sdpa(q, k, v, is_causal=c.causal, **grouped)

    def row(self, c: Case, config: str, ours: float, error: float, peer: float | None) -> None:
        line = f"{c.name:<32}{config:>9}{ours * 1e6:>11.1f}{c.operations / ours / 1e12:>9.2f}"
        rate = c.nbytes / ours
        few = c.queries <= 16
        line += f"{rate / 1e9:>7.0f}{rate / self.best:>7.3f}" if few else f"{'-':>7}{'-':>7}"
        line += f"{peer * 1e6:>11.1f}{peer / ours:>9.3f}" if peer else f"{'-':>11}{'-':>9}"
        print(f"{line}  {error:.1e}", flush=True)
        if not error <= 1.0:
            print(f"{c.name} {config}: WRONG", flush=True)

    def show_onnx(self, c: Case, ours: float) -> None:
        try:
            theirs = onnx_time(c.batch, c.heads, c.queries, c.keys, c.depth, c.dtype)
        except Skipped as e:
            print(f"    ONNX Runtime, WebGPU: {e}", flush=True)
            return
        rate = c.operations / theirs / 1e12
        print(f"    ONNX Runtime, WebGPU {theirs * 1e6:.1f} us, {rate:.2f} TFLOP/s; "
              f"{theirs / ours:.2f} times ours", flush=True)  # fmt: skip

    def show_parts(self, call: Callable[[], object]) -> None:
        with self.dev.profile() as p:
            call()
        for r in p.records:
            print(f"    {r.gpu * 1e6:>10.1f} us  {r.label}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--config", default="auto", help="choices to compare, by comma")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of S and T")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--onnx", action="store_true")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine, checks=not args.unchecked)
    best = max(copy_bandwidth(dev, int((1 << 30) * min(args.scale, 1.0))).values())
    state = "unchecked" if args.unchecked else "checked"
    print(f"{dev.info!r} {state}; copy {best / 1e9:.0f} GB/s")
    bench = Bench(dev, args.runs, best, args.parts, args.onnx)
    for c in CASES:
        if args.only in c.name:
            bench.case(c.scaled(args.scale) if args.scale != 1.0 else c, args.config.split(","))


if __name__ == "__main__":
    main()
