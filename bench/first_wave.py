"""memset, fill, cpy and softmax at the sizes of their speed goals, beside torch where it is there.

    python bench/first_wave.py [--engine wgpu|dawn] [--unchecked] [--scale 1.0]

Every case is checked (rows of the output against numpy in float64) and timed with timestamp
queries after a warm-up. torch runs in the same process, timed with CUDA events, TF32 off.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk
from bench.ceilings import copy_bandwidth
from bench.timing import gpu_time

try:
    import torch

    HAVE_TORCH = torch.cuda.is_available()
except ImportError:
    HAVE_TORCH = False


def torch_time(call: Callable[[], object], rounds: int = 20) -> float:
    """Seconds per call by CUDA events, median."""
    for _ in range(30):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) * 1e-3)
    return statistics.median(times)


def softmax64(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.astype(np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def differ(t: pk.Tensor, want: Any) -> float:
    """Largest difference to what the tensor should hold."""
    return float(np.abs(t.numpy().astype(np.float64) - want).max())


class Table:
    def __init__(self, best: float) -> None:
        self.best = best
        print(f"{'case':<46}{'us':>10}{'GB/s':>9}{'share':>7}{'torch us':>10}{'x torch':>9}  error")

    def row(self, name: str, nbytes: int, ours: float, error: float, peer: float | None) -> None:
        rate = nbytes / ours
        line = f"{name:<46}{ours * 1e6:>10.1f}{rate / 1e9:>9.0f}{rate / self.best:>7.3f}"
        line += f"{peer * 1e6:>10.1f}{peer / ours:>9.2f}" if peer else f"{'-':>10}{'-':>9}"
        print(f"{line}  {error:.1e}", flush=True)
        if not error < 3e-3:
            raise SystemExit(f"{name}: wrong result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine, checks=not args.unchecked)
    k = pk.kernels
    ways = copy_bandwidth(dev, int((1 << 30) * args.scale))
    rates = ", ".join(f"{n} {v / 1e9:.0f}" for n, v in ways.items())
    if HAVE_TORCH:
        a = torch.empty(int((1 << 28) * args.scale), device="cuda")
        b = torch.empty_like(a)
        ways["torch copy"] = 2 * a.nbytes / torch_time(lambda: b.copy_(a))
        rates += f", torch {ways['torch copy'] / 1e9:.0f}"
        del a, b
    print(f"{dev.info!r} {'unchecked' if args.unchecked else 'checked'}; copy GB/s: {rates}")
    table = Table(max(ways.values()))

    n = int((1 << 28) * args.scale)
    side = int((16384 * args.scale**0.5) // 64 * 64)
    for dtype, item in (("float32", 4), ("float16", 2)):
        x, y = dev.empty(n * 4 // item, dtype), dev.empty(n * 4 // item, dtype)
        seconds = gpu_time(dev, lambda x=x: k.fill(x, 2.5))
        table.row(f"fill {dtype} 1 GiB", x.nbytes, seconds, differ(x[::4099], 2.5), None)
        seconds = gpu_time(dev, lambda x=x, y=y: k.cpy(x, y))
        table.row(f"cpy {dtype} 1 GiB", 2 * x.nbytes, seconds, differ(y[::4099], 2.5), None)
        k.fill(x[::2], 1.0)
        seconds = gpu_time(dev, lambda x=x, y=y: k.cpy(x[1:], y[:-1]))
        error = max(differ(y[:-1:4098], 2.5), differ(y[1:-1:4098], 1.0))
        table.row(f"cpy {dtype} 1 GiB, one element off", 2 * x.nbytes, seconds, error, None)
        del x, y
        m = side
        src, dst = dev.rand((m, m), dtype, seed=3), dev.empty((m, m), dtype)
        seconds = gpu_time(dev, lambda s=src, d=dst: k.cpy(s.T, d))
        error = differ(dst[:64], src[:, :64].numpy().T)
        peer = None
        if HAVE_TORCH:
            t = torch.rand((m, m), device="cuda", dtype=getattr(torch, dtype))
            o = torch.empty_like(t)
            peer = torch_time(lambda t=t, o=o: o.copy_(t.T))
            del t, o
        table.row(f"cpy {dtype} ({m}, {m}) transposed", 2 * src.nbytes, seconds, error, peer)
        other = "float16" if item == 4 else "float32"
        cast = dev.empty((m, m), other)
        seconds = gpu_time(dev, lambda s=src, d=cast: k.cpy(s, d))
        error = differ(cast[::257], src[::257].numpy().astype(other))
        table.row(f"cpy {dtype} -> {other} ({m}, {m})", m * m * 6, seconds, error, None)
        for edge in (8, 1):
            inner = slice(edge, m - edge)
            k.fill(dst, 0)
            seconds = gpu_time(dev, lambda s=src, d=dst, c=inner: k.cpy(s[:, c], d[:, c]))
            error = differ(dst[::257, inner], src[::257, inner].numpy())
            error += differ(dst[:, :edge], 0.0) + differ(dst[:, m - edge :], 0.0)
            nbytes = 2 * m * (m - 2 * edge) * item
            table.row(
                f"cpy {dtype} columns {edge}:-{edge} of the same", nbytes, seconds, error, None
            )
        del src, dst, cast
    shapes = [
        (65536, 4096), (4096, 4096), (32768, 1024), (1048576, 64), (4194304, 8), (4096, 16384),
        (4096, 32768), (1, 1 << 24), (4095, 4095),
    ]  # fmt: skip
    for rows, cols in shapes:
        for dtype in ("float32", "float16"):
            rows_ = max(int(rows * args.scale), 1)
            x = dev.rand((rows_, cols), dtype, seed=4)
            y = dev.empty((rows_, cols), dtype)
            seconds = gpu_time(dev, lambda x=x, y=y: k.softmax(x, y))
            want = softmax64(x[:4].numpy())
            error = float((abs(y[:4].numpy() - want) / np.maximum(want, 2.0**-14)).max())
            peer = None
            if HAVE_TORCH:
                t = torch.rand((rows_, cols), device="cuda", dtype=getattr(torch, dtype))
                o = torch.empty_like(t)
                peer = torch_time(lambda t=t, o=o: torch.softmax(t, -1, out=o))
                del t, o
            table.row(f"softmax {dtype} ({rows_}, {cols})", 2 * x.nbytes, seconds, error, peer)
            if (rows, cols) == (4096, 4096):
                seconds = gpu_time(dev, lambda x=x, y=y: k.softmax(x.T, y.T))
                want = softmax64(x[:, :4].numpy().T).T
                error = float((abs(y[:, :4].numpy() - want) / np.maximum(want, 2.0**-14)).max())
                table.row("  the same, axis 0", 2 * x.nbytes, seconds, error, None)


if __name__ == "__main__":
    main()
