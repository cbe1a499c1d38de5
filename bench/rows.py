"""set_rows and get_rows beside the copy bandwidth, and torch where it is there.

    python bench/rows.py [--engine wgpu|dawn] [--unchecked] [--scale 1.0]

Rows go to (come from) a random permutation of places in 256 MiB; bytes count each row once read and
once written, and the index. Every case is checked on some rows. torch's peers (index_copy_ and
index_select, which do not convert: the rows are converted before) run in the same process.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk
from bench.timing import HAVE_TORCH, copy_bandwidth, torch_time
from bench.timing import gpu_time as timed

if HAVE_TORCH:
    import torch

Array = np.ndarray[Any, Any]
ROWS = (512, 4096, 16384, 64, 508, 1040)  # bytes of a row of f32; the goals are for the first three
SIZES = {"float32": 4, "float16": 2}
PAIRS = (("float32", "float16"), ("float32", "float32"), ("float16", "float16"),
         ("float16", "float32"))  # fmt: skip


def gpu_time(dev: pk.Device, call: Callable[[], object]) -> float:
    """The clock is up from the case before."""
    return timed(dev, call, warm=0.1)


class Table:
    def __init__(self, best: float) -> None:
        self.best = best
        print(f"{'case':<52}{'us':>9}{'GB/s':>7}{'share':>7}{'torch us':>10}{'share':>7}")

    def row(self, name: str, nbytes: int, ours: float, peer: float | None) -> None:
        line = f"{name:<52}{ours * 1e6:>9.1f}{nbytes / ours / 1e9:>7.0f}"
        line += f"{nbytes / ours / self.best:>7.3f}"
        if peer:
            line += f"{peer * 1e6:>10.1f}{nbytes / peer / self.best:>7.3f}"
        print(line, flush=True)


def check(got: Array, want: Array) -> None:
    if not np.array_equal(got, want):
        raise AssertionError(f"{(got != want).sum()} of {got.size} elements are wrong")


def attempt(name: str, case: Callable[[], None]) -> None:
    """One failure does not lose the other cases."""
    try:
        case()
    except Exception as e:
        print(f"{name}: {type(e).__name__}: {e}", flush=True)


def moves(
    dev: pk.Device, table: Table, data: pk.Tensor, width: int, s: str, d: str, peer: bool
) -> None:
    """Both kernels on rows of `width` elements of dtype s, to dtype d."""
    n = data.size // width
    src = data[: n * width].reshape(n, width).astype(s)  # type: ignore[arg-type]
    dst = dev.empty((n, width), d)  # type: ignore[arg-type]
    places = np.random.default_rng(1).permutation(n)
    index = dev.tensor(places.astype(np.int32))
    nbytes = n * width * (SIZES[s] + SIZES[d]) + 4 * n
    some = slice(0, n, max(n // 64, 1))
    peers: list[float | None] = [None, None]
    if peer and s == d:
        kind = getattr(torch, s)
        t, o = (
            torch.rand((n, width), device="cuda").to(kind),
            torch.empty((n, width), device="cuda", dtype=kind),
        )
        i = torch.from_numpy(places).cuda()
        peers = [torch_time(lambda: o.index_copy_(0, i, t)),
                 torch_time(lambda: torch.index_select(t, 0, i, out=o))]  # fmt: skip
        del t, o, i
        torch.cuda.empty_cache()
    label = f"{s} -> {d}, {n} rows of {width * SIZES[s]} B"
    ours = gpu_time(dev, lambda: pk.kernels.set_rows(src, index, dst))
    got = pk.get_rows(dst, dev.tensor(places[some].astype(np.int64)))
    check(got.numpy(), src[some].numpy().astype(d))
    table.row(f"set_rows {label}", nbytes, ours, peers[0])
    ours = gpu_time(dev, lambda: pk.kernels.get_rows(src, index, dst))
    got = dst[some]
    for at, row in zip(range(0, n, max(n // 64, 1)), got.numpy(), strict=True):
        check(row, src[int(places[at])].numpy().astype(d))
    table.row(f"get_rows {label}", nbytes, ours, peers[1])


def caches(dev: pk.Device, table: Table, scale: float) -> None:
    """A batch of keys into a cache: (batch, heads, tokens, width), tokens and heads swapped."""
    batch, heads, tokens, width = 4, 8, max(int(8192 * scale), 64), 128
    keys = dev.rand((batch, tokens, heads, width), seed=2).transpose(0, 2, 1, 3)
    for dtype in ("float16", "float32"):
        cache = dev.empty((batch, heads, 2 * tokens, width), dtype)
        places = np.random.default_rng(2).permutation(2 * tokens)[:tokens].astype(np.int64)
        index = dev.tensor(places)
        ours = gpu_time(dev, lambda c=cache, i=index: pk.kernels.set_rows(keys, i, c))
        check(cache[1, 3].numpy()[places], keys[1, 3].numpy().astype(dtype))
        n = batch * heads * tokens
        nbytes = n * width * (4 + SIZES[dtype]) + 8 * tokens
        table.row(f"set_rows cache {keys.shape} -> {dtype}", nbytes, ours, None)


def lookups(dev: pk.Device, table: Table, scale: float) -> None:
    """Embeddings: a large table, random tokens."""
    rows, width, tokens = int(16000 * scale), 4096, (8, 1024)
    for dtype in ("float16", "float32"):
        weight = dev.rand((rows, width), dtype, seed=3)
        ids = np.random.default_rng(3).integers(0, rows, tokens)
        index, dst = dev.tensor(ids), dev.empty((*tokens, width), dtype)
        ours = gpu_time(dev, lambda w=weight, i=index, d=dst: pk.kernels.get_rows(w, i, d))
        for at in range(0, 1024, 100):
            check(dst[3, at].numpy(), weight[int(ids[3, at])].numpy())
        table.row(f"embedding {weight.shape} {dtype}, {tokens}", 2 * dst.nbytes, ours, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes")
    parser.add_argument("--alone", action="store_true", help="without torch")
    parser.add_argument("--few", action="store_true", help="only the cases with goals")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine, checks=not args.unchecked)
    ways = copy_bandwidth(dev, int((1 << 29) * args.scale))
    rates = ", ".join(f"{n} {v / 1e9:.0f}" for n, v in ways.items())
    print(f"{dev.info!r} {'unchecked' if args.unchecked else 'checked'}; copy GB/s: {rates}")
    table = Table(max(ways.values()))
    data = dev.rand(int((1 << 26) * args.scale), seed=1)
    for row in ROWS[:3] if args.few else ROWS:
        for s, d in PAIRS[:2] if args.few or row not in ROWS[:3] else PAIRS:
            attempt(f"{s} -> {d} {row}", lambda r=row, s=s, d=d: moves(
                dev, table, data, r // 4, s, d, HAVE_TORCH and not args.alone))  # type: ignore[misc]  # fmt: skip
    if not args.few:
        attempt("caches", lambda: caches(dev, table, args.scale))
        attempt("lookups", lambda: lookups(dev, table, args.scale))


if __name__ == "__main__":
    main()
