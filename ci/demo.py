"""The demo: each kernel on a real adapter, checked against numpy in float64, timed on the device.

python ci/demo.py [--adapter NAME] [--engine wgpu|dawn] [--size BYTES]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pykernels as pk
from bench.ceilings import copy_bandwidth
from bench.timing import gpu_time

Array = np.ndarray[Any, np.dtype[Any]]
CHECKED = 1 << 23  # elements of an output that are compared


@dataclass
class Case:
    """One line of the table: a call, its output and the expected rows of it."""

    kernel: str
    what: str
    call: Callable[[], object]
    nbytes: int  # read plus written, each element once
    output: pk.Tensor
    expected: Callable[[slice], Array]  # float64, for some rows of the output


def cases(dev: pk.Device, size: int) -> Iterator[Case]:
    """Cases of about `size` bytes for a tensor of f32."""
    k = pk.kernels
    for dtype, item in (("float32", 4), ("float16", 2)):
        n = int((size / 4) ** 0.5) // 64 * 64
        x = dev.rand((n, n), dtype, seed=1)
        host = x.numpy().astype(np.float64)
        dst = dev.empty((n, n), dtype)
        total = 2 * n * n * item
        yield Case(
            "memset",
            f"{dtype} ({n}, {n})",
            lambda d=dst: k.memset(d, 0x40),
            total // 2,
            dst,
            lambda rows, d=dtype, n=n: _bytes(0x40, d, rows, n),
        )
        yield Case(
            "fill",
            f"{dtype} ({n}, {n})",
            lambda d=dst: k.fill(d, 1.5),
            total // 2,
            dst,
            lambda rows, n=n: np.full((n, n), 1.5)[rows],
        )
        wide = dev.empty((n, n + 3), dtype)[:, 1 : n + 1]
        yield Case(
            "fill",
            f"{dtype} ({n}, {n}) strided",
            lambda d=wide: k.fill(d, 1.5),
            total // 2,
            wide,
            lambda rows, n=n: np.full((n, n), 1.5)[rows],
        )
        yield Case(
            "cpy",
            f"{dtype} ({n}, {n})",
            lambda s=x, d=dst: k.cpy(s, d),
            total,
            dst,
            lambda rows, h=host: h[rows],
        )
        yield Case(
            "cpy",
            f"{dtype} ({n}, {n}) transposed",
            lambda s=x, d=dst: k.cpy(s.T, d),
            total,
            dst,
            lambda rows, h=host: h.T[rows],
        )
        yield Case(
            "cpy",
            f"{dtype} ({n}, {n}) into strided",
            lambda s=x, d=wide: k.cpy(s, d),
            total,
            wide,
            lambda rows, h=host: h[rows],
        )
        other = "float16" if dtype == "float32" else "float32"
        cast = dev.empty((n, n), other)
        yield Case(
            "cpy",
            f"{dtype} -> {other} ({n}, {n})",
            lambda s=x, d=cast: k.cpy(s, d),
            n * n * 6,
            cast,
            lambda rows, h=host, o=other: h[rows].astype(o).astype(np.float64),
        )
        yield Case(
            "softmax",
            f"{dtype} ({n}, {n})",
            lambda s=x, d=dst: k.softmax(s, d),
            total,
            dst,
            lambda rows, h=host: _softmax(h[rows]),
        )
        yield Case(
            "softmax",
            f"{dtype} ({n}, {n}) of strided",
            lambda s=x, d=wide: k.softmax(s, d),
            total,
            wide,
            lambda rows, h=host: _softmax(h[rows]),
        )
        yield Case(
            "softmax",
            f"{dtype} ({n}, {n}) axis 0",
            lambda s=x, d=dst: k.softmax(s.T, d.T),
            total,
            dst.T,
            lambda rows, h=host: _softmax(h.T[rows]),
        )
        flat, out = x.reshape(1, n * n), dst.reshape(1, n * n)
        yield Case(
            "softmax",
            f"{dtype} (1, {n * n})",
            lambda s=flat, d=out: k.softmax(s, d),
            total,
            out,
            lambda rows, h=host: _softmax(h.reshape(1, -1)),
        )
        yield Case("log_softmax", f"{dtype} ({n}, {n})", lambda s=x, d=dst: k.log_softmax(s, d),
                   total, dst, lambda rows, h=host: np.log(_softmax(h[rows])))  # fmt: skip


def _bytes(value: int, dtype: str, rows: slice, n: int) -> Array:
    one = np.full(np.dtype(dtype).itemsize, value, np.uint8).view(dtype)[0]
    return np.full((n, n), one, np.float64)[rows]


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def run(dev: pk.Device, case: Case, best: float) -> tuple[str, bool]:
    """Poison the output, call once, compare all rows in blocks, then time."""
    pk.kernels.memset(case.output, 0xCD)
    with dev.profile() as p:
        case.call()
    variant = " + ".join(dict.fromkeys(r.label.partition(" mode=")[0] for r in p.records))
    error = 0.0
    tiny = 2.0**-14 if case.output.dtype == "float16" else 2.0**-126  # the smallest normal number
    rows, cols = case.output.shape
    # All rows of a small output; of a large one, blocks of rows from the first to the last.
    block = max(min(rows, CHECKED // (16 * cols)), 1)
    starts = range(0, rows, block) if rows * cols <= CHECKED else np.linspace(0, rows - block, 16)
    for first in map(int, starts):
        part = slice(first, first + block)
        got = case.output[part].numpy().astype(np.float64)
        want = case.expected(part)
        error = max(error, float(np.max(np.abs(got - want) / np.maximum(np.abs(want), tiny))))
    tolerance = (
        0.0
        if case.kernel in ("memset", "fill", "cpy")
        else (2e-3 if case.output.dtype == "float16" else 3e-6)
    )
    slow = dev.info["type"] == "CPU"
    seconds = gpu_time(dev, case.call, rounds=3 if slow else 20, warm=0.05 if slow else 0.3)
    rate = case.nbytes / seconds
    ok = error <= tolerance
    line = (
        f"{case.kernel:<12}{case.what:<38}{error:>10.1e}{seconds * 1e6:>12.1f}{rate / 1e9:>9.1f}"
        f"{rate / best:>7.2f}{'' if ok else '  WRONG'}  {variant}"
    )
    return line, ok


def worked_example(dev: pk.Device) -> None:
    """A direct call on a view at an odd offset inside a buffer that holds other things."""
    shared = dev.zeros(1000, "float16")
    x = dev.tensor(np.linspace(-4, 4, 21, dtype=np.float32).reshape(3, 7))
    view = shared[501:522].reshape(3, 7)  # starts in the middle of a 32-bit word
    pk.kernels.cpy(x, view)
    pk.kernels.softmax(view, view, scale=0.5)
    host = shared.numpy()
    expected = _softmax(x.numpy().astype(np.float16).astype(np.float64) * 0.5)
    error = np.abs(host[501:522].reshape(3, 7) - expected).max()
    untouched = not host[:501].any() and not host[522:].any()
    print(
        "\nWorked example: softmax in place on a float16 view at an odd offset of a shared buffer"
    )
    print(f"  {view!r}")
    print(f"  rows sum to {host[501:522].reshape(3, 7).astype(np.float32).sum(1)}, largest error "
          f"{error:.1e}, neighbours untouched: {untouched}")  # fmt: skip
    if not untouched or error > 1e-3:
        raise SystemExit("the worked example went wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter")
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--size", type=int, help="bytes of a float32 tensor")
    args = parser.parse_args()
    try:
        dev = pk.Device(args.adapter, engine=args.engine)
    except pk.NoAdapterError as e:
        raise SystemExit(f"demo: {e}") from None
    info = dev.info
    engine = f"engine {info['engine']} {info['engine_version']}"
    where = f"{info['type']}, {info['backend']}, {info['driver']}"
    print(f"{info['name']} ({where}), {engine}, pykernels {pk.__version__}")
    slow = info["type"] == "CPU"
    size = args.size or ((4 << 20) if slow else (1 << 28))
    ways = copy_bandwidth(dev, size, 3 if slow else 10)
    best = max(ways.values())
    print("copy bandwidth: " + ", ".join(f"{k} {v / 1e9:.1f} GB/s" for k, v in ways.items()))
    clock = "timestamp queries" if "timestamp-query" in dev.features else "wall clock"
    print(f"GPU time by {clock}; error relative to numpy in float64; share of the best copy\n")
    print(f"{'kernel':<12}{'shape':<38}{'error':>10}{'us':>12}{'GB/s':>9}{'share':>7}  variant")
    good = True
    for case in cases(dev, size):
        line, ok = run(dev, case, best)
        print(line, flush=True)
        good = good and ok
    worked_example(dev)
    if not good:
        raise SystemExit("demo: some results are wrong")


if __name__ == "__main__":
    main()
