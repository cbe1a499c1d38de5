"""flash_attn_backward at its goal's shapes, beside torch's SDPA (f32, TF32 off) where it is there.

    python -m bench.flash_attn_backward [--engine wgpu|dawn] [--unchecked] [--only TEXT]
                                        [--runs 5] [--scale 1.0] [--parts]

Ours and torch's runs alternate; the medians are shown. "us" is the time from call to call of many
calls in a row, gaps between dispatches included; `--parts` shows the dispatches by body. TFLOP/s
counts five products of the unmasked scores. dq, dk and dv of the last KV head are checked against
numpy in float64: the error shown is the largest one over the largest value.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import pykernels as pk
from bench.timing import HAVE_TORCH, torch_time
from pykernels.reference.flash_attn import attention
from pykernels.reference.flash_attn import flash_attn_backward as reference

if HAVE_TORCH:
    import torch
    import torch.nn.functional as F

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """q (batch, heads, length, depth), k and v (batch, kv_heads, length, depth)."""

    batch: int
    heads: int
    length: int
    depth: int
    kv_heads: int = 0
    causal: bool = False
    dtype: str = "float32"

    @property
    def name(self) -> str:
        shape = f"({self.batch}, {self.heads}, {self.length}, {self.depth}) {self.dtype}"
        group = f", {self.kv_heads} KV heads" if self.kv_heads else ""
        return shape + group + (", causal" if self.causal else "")

    @property
    def operations(self) -> float:
        """Of five products, over the scores that are not masked."""
        full = 10.0 * self.batch * self.heads * self.length**2 * self.depth
        return full / 2 if self.causal else full

    def scaled(self, scale: float) -> Case:
        return replace(self, length=max(round(self.length * scale), 1))


CASES = [
    Case(1, 32, 4096, 128),
    Case(1, 32, 4096, 128, causal=True),
    Case(1, 32, 4096, 128, dtype="float16"),
    Case(1, 32, 4096, 128, kv_heads=8),
    Case(8, 16, 1024, 64),
    Case(8, 16, 1024, 64, causal=True),
    Case(1, 16, 4096, 256),
    Case(1, 2, 4096, 128),
    Case(1, 8, 512, 64),
]


class Inputs:
    """The tensors of one case, ours and torch's."""

    def __init__(self, dev: pk.Device, c: Case) -> None:
        rng = np.random.default_rng(1)
        wide = (c.batch, c.heads, c.length, c.depth)
        narrow = (c.batch, c.kv_heads or c.heads, c.length, c.depth)
        self.arrays = [
            rng.standard_normal(s, np.float32).astype(c.dtype) for s in (wide, narrow, narrow, wide)
        ]
        self.options = {"causal": c.causal}
        q, k, v, do = self.arrays
        self.torch: list[Any] = []
        if HAVE_TORCH:
            # Its tensors are made after the forward of ours is known: lse comes from here too.
            self.torch = [torch.tensor(a, device="cuda") for a in self.arrays]
            o, lse = _torch_forward(*self.torch[:3], causal=c.causal)
        else:
            found = attention(q, k, v, **self.options)
            o, lse = found.o, found.lse
        self.ours = [dev.tensor(a) for a in (q, k, v)]
        self.ours += [dev.tensor(o.astype(c.dtype)), dev.tensor(lse.astype(np.float32))]
        self.ours += [dev.tensor(do)]
        self.outputs = [dev.zeros(a.shape, c.dtype) for a in (q, k, v)]  # type: ignore[arg-type]

    def call(self) -> None:
        pk.kernels.flash_attn_backward(*self.ours, *self.outputs, **self.options)

    def error(self) -> float:
        """The largest error of the last KV head's gradients, over their largest value."""
        q, k, v, do = self.arrays
        group = q.shape[1] // k.shape[1]
        q, do = q[-1:, -group:], do[-1:, -group:]
        k, v = k[-1:, -1:], v[-1:, -1:]
        f32 = [a.astype(np.float32) for a in (q, k, v)]
        want = reference(*f32, q, q, do.astype(np.float32), **self.options)
        got = [self.outputs[0][-1:, -group:].numpy()]
        got += [t[-1:, -1:].numpy() for t in self.outputs[1:]]
        return max(
            float(np.abs(g - w).max() / np.abs(w).max()) for g, w in zip(got, want, strict=True)
        )

    def peer(self) -> Callable[[], object] | None:
        """torch's backward alone."""
        if not HAVE_TORCH:
            return None
        q, k, v = (t.requires_grad_() for t in self.torch[:3])
        group = q.shape[1] // k.shape[1]
        o = F.scaled_dot_product_attention(
            q, k, v, is_causal=self.options["causal"], enable_gqa=group > 1
        )
        do = self.torch[3]
        return lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)


def _torch_forward(q: Any, k: Any, v: Any, *, causal: bool) -> tuple[Array, Array]:
    """o and lse in float64, head by head."""
    group = q.shape[1] // k.shape[1]
    outs, sums = [], []
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            kd, vd = k[b, h // group].double(), v[b, h // group].double()
            s = q[b, h].double() @ kd.T * q.shape[3] ** -0.5
            if causal:
                s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
            sums.append(torch.logsumexp(s, -1).float().cpu())
            outs.append((torch.softmax(s, -1) @ vd).float().cpu())
    o, lse = torch.stack(outs).numpy(), torch.stack(sums).numpy()
    return o.reshape(*q.shape[:3], -1), lse.reshape(q.shape[:3])


def wall(dev: pk.Device, call: Callable[[], object], least: float = 0.15) -> float:
    """Seconds from call to call, of enough of them in a row, after a warm-up."""
    count = 1
    while True:
        dev.sync()
        started = time.perf_counter()
        for _ in range(count):
            call()
        dev.sync()
        seconds = time.perf_counter() - started
        if seconds > 2 * least:
            return seconds / count
        count = max(count * 2, round(count * least * 3 / max(seconds, 1e-4)))


def parts(dev: pk.Device, call: Callable[[], object]) -> str:
    """GPU time of a call by body."""
    with dev.profile() as p:
        call()
    found: dict[str, list[float]] = defaultdict(list)
    for r in p.records:
        found[r.kernel.removeprefix("flash_attn_backward_")].append(r.gpu)
    return ", ".join(f"{k} {len(t)}: {sum(t) * 1e6:.0f} us" for k, t in found.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the lengths")
    parser.add_argument("--parts", action="store_true")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine, checks=not args.unchecked)
    if HAVE_TORCH:
        torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{dev.info!r} {'unchecked' if args.unchecked else 'checked'}")
    print(f"{'case':<46}{'us':>10}{'TFLOP/s':>9}{'torch us':>10}{'x torch':>9}  error")
    for c in (c.scaled(args.scale) for c in CASES if args.only in c.name):
        inputs = Inputs(dev, c)
        inputs.call()
        error, peer = inputs.error(), inputs.peer()
        ours, theirs = [], []
        for _ in range(args.runs):
            ours.append(wall(dev, inputs.call))
            if peer is not None:
                theirs.append(torch_time(peer, 5))
        seconds = statistics.median(ours)
        line = f"{c.name:<46}{seconds * 1e6:>10.1f}{c.operations / seconds / 1e12:>9.2f}"
        if theirs:
            other = statistics.median(theirs)
            line += f"{other * 1e6:>10.1f}{other / seconds:>9.2f}"
        print(f"{line}  {error:.1e}", flush=True)
        if args.parts:
            print(f"    {parts(dev, inputs.call)}", flush=True)
        if not error < (4e-3 if c.dtype == "float16" else 1e-4):
            raise SystemExit(f"{c.name}: wrong result")


if __name__ == "__main__":
    main()
