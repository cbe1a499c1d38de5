"""Matrix products at the shapes of their speed goals, beside torch (TF32 off) where it is there.

    python -m bench.matmul [--engine wgpu|dawn] [--unchecked] [--only TEXT] [--config wide,64/2]
                           [--runs 5] [--scale 1.0]

Every case is timed with timestamp queries after a warm-up, in runs that alternate with torch's; the
medians are shown. Every output is checked: some of its elements against numpy in float64, by the
error in units of 2^-23 sum|a||b| (allowed: sqrt(K) + 4). `--config` names choices to compare: BODY
or BODY/SLICES, BODY a tile of kernels/mul_mat.wgsl, "wide" or "vec"; wide/1/3x4 is the last three
rows of tiles in four slices; "auto" is what the plan takes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import pykernels as pk
from bench.timing import HAVE_TORCH, copy_bandwidth, gpu_time, torch_time
from pykernels.plans.matmul import mul_mat as plans
from pykernels.plans.matmul.select import NARROW, Choice, Tail

if HAVE_TORCH:
    import torch

F32, F16 = "float32", "float16"
FAST = 2.0**-8  # the error that precision="fast" states, in units of sum|a||b|


@dataclass(frozen=True)
class Case:
    """out (n, m) = left (n, k) @ right (k, m), once or `batch` times."""

    n: int
    m: int
    k: int
    left: str = F32
    right: str = F32
    out: str = F32
    turned: str = ""  # "l", "r", "lr": these operands lie transposed in memory
    batch: int = 0
    fast: bool = False

    @property
    def name(self) -> str:
        short = {F32: "f32", F16: "f16"}
        kinds = f"{short[self.left]} x {short[self.right]} -> {short[self.out]}"
        shape = f"{self.n} x {self.m} x {self.k}"
        turned = {"": "", "l": ", left T", "r": ", right T", "lr": ", both T"}[self.turned]
        return (
            f"{self.batch} of " if self.batch else ""
        ) + f"{shape} {kinds}{turned}{', fast' * self.fast}"

    @property
    def operations(self) -> int:
        return 2 * self.n * self.m * self.k * max(self.batch, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the larger operand: what a product with few rows must read."""
        item = {F32: 4, F16: 2}
        return max(self.n * item[self.left], self.m * item[self.right]) * self.k

    @property
    def narrow(self) -> bool:
        return min(self.n, self.m) <= NARROW

    def scaled(self, scale: float) -> Case:
        def size(v: int) -> int:
            return v if v <= NARROW else max(round(v * scale / 16) * 16, 16) + v % 2

        return Case(
            size(self.n), size(self.m), size(self.k), self.left, self.right, self.out,
            self.turned, self.batch, self.fast,
        )  # fmt: skip


CASES = [
    Case(4096, 4096, 4096),
    Case(4096, 4096, 4096, turned="r"),
    Case(4096, 4096, 4096, turned="l"),
    Case(4096, 4096, 4096, F16, F16),
    Case(4096, 4096, 4096, F16, F16, turned="r"),
    Case(4096, 4096, 4096, F16, F16, F16),
    Case(4096, 4096, 4096, F32, F16, turned="r"),
    Case(8192, 8192, 8192),
    Case(2048, 2048, 2048),
    Case(1024, 1024, 1024),
    Case(512, 512, 512),
    Case(256, 256, 256),
    Case(512, 4096, 14336, turned="r"),
    Case(512, 14336, 4096, turned="r"),
    Case(4095, 4095, 4095),
    Case(128, 128, 65536, turned="r"),
    Case(64, 4096, 4096, turned="r"),
    Case(4096, 4096, 4096, F16, F16, fast=True),
    Case(4096, 4096, 4096, fast=True),
    Case(512, 512, 64, batch=1536),
    Case(1, 16384, 16384, turned="r"),
    Case(1, 16384, 16384),
    Case(1, 16384, 16384, F16, F16, F16, turned="r"),
    Case(1, 16384, 16384, F16, F16, F16),
    Case(8, 16384, 16384, turned="r"),
    Case(8, 16384, 16384),
    Case(1, 4096, 4096, turned="r"),
    Case(1, 4096, 4096, F32, F16, turned="r"),
    Case(1, 65537, 4096, turned="r"),
    Case(1, 1, 1 << 24, turned="r"),
]


@contextmanager
def chosen(dev: pk.Device, config: str) -> Iterator[None]:
    """The plan takes this choice ("auto": its own)."""
    before = plans.choose
    if config != "auto":
        body, *counts = config.split("/")
        slices = int(counts[0]) if counts else 1
        tail = Tail(*map(int, counts[1].split("x"))) if len(counts) > 1 else Tail()
        plans.choose = lambda caps, s: Choice(body, slices, tail)
    dev._context.forget_calls()
    try:
        yield
    finally:
        plans.choose = before
        dev._context.forget_calls()


class Bench:
    def __init__(self, dev: pk.Device, runs: int, best: float) -> None:
        self.dev, self.runs, self.best = dev, runs, best
        print(f"{'case':<46}{'config':>8}{'us':>11}{'TFLOP/s':>9}{'GB/s':>7}{'share':>7}"
              f"{'torch us':>11}{'x torch':>9}  error / allowed")  # fmt: skip

    def operand(self, rows: int, cols: int, dtype: str, turned: bool, batch: int, seed: int) -> Any:
        lead = (batch,) if batch else ()
        shape = (*lead, cols, rows) if turned else (*lead, rows, cols)
        t = self.dev.rand(shape, dtype, seed=seed)  # type: ignore[arg-type]
        order = (*range(len(lead)), len(lead) + 1, len(lead))
        return t.transpose(*order) if turned else t

    def case(self, c: Case, configs: list[str]) -> None:
        left = self.operand(c.n, c.k, c.left, "l" in c.turned, c.batch, 1)
        right = self.operand(c.k, c.m, c.right, "r" in c.turned, c.batch, 2)
        out = self.dev.zeros((*((c.batch,) if c.batch else ()), c.n, c.m), c.out)  # type: ignore[arg-type]
        peer = self.peer(c)

        def run() -> None:
            pk.matmul(left, right, precision="fast" if c.fast else None, out=out)

        ours: dict[str, list[float]] = {config: [] for config in configs}
        theirs: list[float] = []
        errors = {}
        for config in configs:
            with chosen(self.dev, config):
                pk.kernels.memset(out, 255)
                run()
                errors[config] = self.error(c, left, right, out)
        for _ in range(self.runs):
            for config, times in ours.items():
                with chosen(self.dev, config):
                    times.append(gpu_time(self.dev, run))
            if peer is not None:
                theirs.append(torch_time(peer))
        for config, times in ours.items():
            self.row(c, config, statistics.median(times), errors[config],
                     statistics.median(theirs) if theirs else None)  # fmt: skip

    def error(self, c: Case, left: pk.Tensor, right: pk.Tensor, out: pk.Tensor) -> float:
        """The largest error of a sample of elements, as a share of what is allowed."""
        if c.batch:
            left, right, out = left[-1], right[-1], out[-1]
        rows, cols = (slice(n % 7 if n > 64 else 0, None, max(n // 61, 1)) for n in (c.n, c.m))
        a, b = (t.numpy().astype(np.float64) for t in (left[rows], right[:, cols]))
        got = out[rows, cols].numpy().astype(np.float64)
        want, size = a @ b, np.abs(a) @ np.abs(b)
        allowed = 2.0**-23 * size * (math.sqrt(c.k) + 4)
        if c.out == F16:
            want = np.where(np.abs(want) > 65504, np.copysign(np.inf, want), want)
            allowed += np.abs(np.where(np.isinf(want), 0.0, want)) * 2.0**-10
        if c.fast:  # stated by matmul
            allowed += FAST * size
        with np.errstate(invalid="ignore"):
            share = np.where(got == want, 0.0, np.abs(got - want) / allowed)
        return float(share.max())

    def peer(self, c: Case) -> Callable[[], object] | None:
        if not HAVE_TORCH:
            return None
        torch.backends.cuda.matmul.allow_tf32 = False
        kind = torch.float16 if F16 in (c.left, c.right) else torch.float32
        lead = (c.batch,) if c.batch else ()

        def make(rows: int, cols: int, turned: bool) -> Any:
            shape = (*lead, cols, rows) if turned else (*lead, rows, cols)
            t = torch.rand(shape, device="cuda", dtype=kind)
            return t.transpose(-1, -2) if turned else t

        a, b = make(c.n, c.k, "l" in c.turned), make(c.k, c.m, "r" in c.turned)
        out = torch.empty((*lead, c.n, c.m), device="cuda", dtype=kind)
        return lambda: torch.matmul(a, b, out=out)

    def row(self, c: Case, config: str, ours: float, error: float, peer: float | None) -> None:
        line = f"{c.name:<46}{config:>8}{ours * 1e6:>11.1f}{c.operations / ours / 1e12:>9.2f}"
        rate = c.nbytes / ours
        line += f"{rate / 1e9:>7.0f}{rate / self.best:>7.3f}" if c.narrow else f"{'-':>7}{'-':>7}"
        line += f"{peer * 1e6:>11.1f}{peer / ours:>9.3f}" if peer else f"{'-':>11}{'-':>9}"
        print(f"{line}  {error:.1e}", flush=True)
        if not error <= 1.0:
            raise SystemExit(f"{c.name} {config}: wrong result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--config", default="auto", help="choices to compare, by comma")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine, checks=not args.unchecked)
    best = max(copy_bandwidth(dev, int((1 << 30) * min(args.scale, 1.0))).values())
    state = "unchecked" if args.unchecked else "checked"
    print(f"{dev.info!r} {state}; copy {best / 1e9:.0f} GB/s")
    bench = Bench(dev, args.runs, best)
    for c in CASES:
        if args.only in c.name:
            bench.case(c.scaled(args.scale) if args.scale != 1.0 else c, args.config.split(","))


if __name__ == "__main__":
    main()
