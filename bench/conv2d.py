"""Convolutions at the shapes of their speed goals, beside torch (TF32 off) where it is there.

    python -m bench.conv2d [--engine wgpu|dawn] [--unchecked] [--only TEXT] [--first N]
                           [--config 64x128,direct] [--runs 3] [--scale 1.0] [--ort]

Every case is timed with timestamp queries after a warm-up, repacked weights included, in runs that
alternate with torch's (cuDNN, its own choice of algorithm after a search); the medians are shown.
One image and some channels of every output are checked against numpy in float64, by the error in
units of 2^-23 sum|a||b| (allowed: sqrt(K) + 4). `--config` names choices to compare, each BODY or
BODY/SLICES, BODY a tile of pykernels/plans/_windows.py or "direct"; "auto" is what the plan takes.
`--ort` times ONNX Runtime's WebGPU provider too.
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
from bench.conv2d_ort import ort_time
from bench.timing import HAVE_TORCH, gpu_time, torch_time
from pykernels.bench.run import Skipped
from pykernels.plans.conv import windows as plans
from pykernels.reference.conv2d import conv2d as forward
from pykernels.reference.conv2d import conv2d_backward_input as gradient

if HAVE_TORCH:
    import torch

F32, F16 = "float32", "float16"


@dataclass(frozen=True)
class Case:
    """x (n, c, size, size), w (o, c / groups, k, k); the output, or with `back` x's gradient."""

    n: int
    c: int
    size: int
    o: int
    k: int
    stride: int = 1
    padding: int = -1  # -1: half the kernel
    groups: int = 1
    dtype: str = F32
    layout: str = "NCHW"
    back: bool = False

    @property
    def options(self) -> dict[str, int]:
        edge = self.k // 2 if self.padding < 0 else self.padding
        return {"stride": self.stride, "padding": edge, "groups": self.groups}

    @property
    def name(self) -> str:
        text = f"{self.n},{self.c},{self.size} x {self.o},{self.k}"
        text += f" /{self.stride}" if self.stride > 1 else ""
        text += f" groups {self.groups}" if self.groups > 1 else ""
        text += " f16" if self.dtype == F16 else ""
        text += " NHWC" if self.layout == "NHWC" else ""
        return text + (" dx" if self.back else "")

    @property
    def out(self) -> int:
        return (self.size + 2 * self.options["padding"] - self.k) // self.stride + 1

    @property
    def x_shape(self) -> tuple[int, ...]:
        return (self.n, self.c, self.size, self.size)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return (self.n, self.o, self.out, self.out)

    @property
    def operations(self) -> int:
        return 2 * math.prod(self.y_shape) * self.c // self.groups * self.k**2

    @property
    def nbytes(self) -> int:
        item = 2 if self.dtype == F16 else 4
        return item * (math.prod(self.x_shape) + math.prod(self.y_shape))

    def scaled(self, scale: float) -> Case:
        size = max(round(self.size * scale), self.k + self.stride)
        return Case(
            self.n, self.c, size, self.o, self.k, self.stride, self.padding, self.groups,
            self.dtype, self.layout, self.back,
        )  # fmt: skip


GOALS = [(16, 64, 56, 64, 3), (16, 256, 14, 256, 3), (8, 64, 256, 64, 3), (1, 512, 64, 512, 3)]
CASES = [
    *(Case(*g) for g in GOALS),
    Case(1, 3, 224, 64, 7, 2),
    *(Case(*g, dtype=F16) for g in GOALS),
    *(Case(*g, layout="NHWC") for g in GOALS),
    Case(1, 3, 224, 64, 7, 2, dtype=F16),
    *(Case(*g, back=True) for g in GOALS),
    Case(16, 64, 56, 128, 3, 2),
    Case(16, 64, 56, 128, 3, 2, back=True),
    Case(16, 256, 56, 64, 1),
    Case(32, 512, 7, 512, 3),
    Case(16, 64, 56, 256, 1, 2),
    Case(16, 128, 56, 128, 3, groups=32),
    Case(16, 128, 112, 128, 3, groups=128),
    Case(16, 128, 112, 128, 3, groups=128, layout="NHWC"),
    Case(16, 128, 112, 128, 3, groups=128, back=True),
    Case(8, 64, 128, 3, 3),
    *(Case(1, 3, 224, 64, 7, 2, dtype=dtype, back=True) for dtype in (F32, F16)),
    *(Case(16, 3, 224, 64, 7, 2, dtype=dtype) for dtype in (F32, F16)),
    Case(16, 3, 224, 64, 7, 2, layout="NHWC"),
    Case(16, 3, 224, 64, 7, 2, back=True),
    *(Case(n, 3, 224, 64, 3) for n in (1, 16)),
]


@contextmanager
def chosen(dev: pk.Device, config: str) -> Iterator[None]:
    """The plan takes this choice ("auto": its own)."""
    before = plans.choose
    if config != "auto":
        body, _, slices = config.partition("/")
        plans.choose = lambda caps, s: plans.Choice(body, int(slices or 1))
    dev._context.forget_calls()
    try:
        yield
    finally:
        plans.choose = before
        dev._context.forget_calls()


class Bench:
    def __init__(self, dev: pk.Device, runs: int, ort: bool = False) -> None:
        self.dev, self.runs, self.ort = dev, runs, ort
        print(f"{'case':<36}{'config':>12}{'us':>10}{'TFLOP/s':>9}{'GB/s':>7}{'torch us':>10}"
              f"{'x torch':>9}{'ort us':>9}{'x ort':>7}  error / allowed")  # fmt: skip

    def images(self, shape: tuple[int, ...], c: Case, seed: int) -> pk.Tensor:
        """Random images in the layout of the case, axes as in its layout."""
        if c.layout == "NHWC":
            shape = (shape[0], *shape[2:], shape[1])
        return self.dev.rand(shape, c.dtype, seed=seed)  # type: ignore[arg-type]

    def case(self, c: Case, configs: list[str]) -> None:
        given = self.images(c.y_shape if c.back else c.x_shape, c, 1)
        w = self.dev.rand((c.o, c.c // c.groups, c.k, c.k), c.dtype, seed=2)  # type: ignore[arg-type]
        dst = self.images(c.x_shape if c.back else c.y_shape, c, 3)
        run = pk.kernels.conv2d_backward_input if c.back else pk.kernels.conv2d

        def call() -> None:
            run(given, w, dst, layout=c.layout, **c.options)  # type: ignore[arg-type]

        ours: dict[str, list[float]] = {config: [] for config in configs}
        theirs: list[float] = []
        errors = {}
        peer = self.peer(c)
        for config in configs:
            with chosen(self.dev, config):
                pk.kernels.memset(dst, 255)
                call()
                errors[config] = self.error(c, given, w, dst)
        for _ in range(self.runs):
            for config, times in ours.items():
                with chosen(self.dev, config):
                    times.append(gpu_time(self.dev, call))
            if peer is not None:
                theirs.append(torch_time(peer))
        best = statistics.median(theirs) if theirs else None
        other = self.onnx(c, min(statistics.median(t) for t in ours.values()))
        for config, times in ours.items():
            self.row(c, config, statistics.median(times), errors[config], best, other)

    def onnx(self, c: Case, about: float) -> float | None:
        if not self.ort:
            return None
        try:
            return ort_time(c, about)
        except Skipped as e:
            print(f"{c.name}: {e}", flush=True)
            return None

    def error(self, c: Case, given: pk.Tensor, w: pk.Tensor, dst: pk.Tensor) -> float:
        """The largest error in some channels of the last image, as a share of what is allowed."""
        group = c.groups // 2
        outs, ins = c.o // c.groups, c.c // c.groups
        rows = slice(group * outs, (group + 1) * outs)
        cols = slice(group * ins, (group + 1) * ins)
        seen, made = (rows, cols) if c.back else (cols, rows)
        last = slice(-1, None)
        first = slice(made.stop - min(made.stop - made.start, 3), made.stop)
        if c.layout == "NHWC":
            x, got = (t.numpy().transpose(0, 3, 1, 2) for t in (given[last], dst[last]))
            x, got = x[:, seen], got[:, first]
        else:
            x, got = given[last, seen].numpy(), dst[last, first].numpy()
        taps = w[rows].numpy()
        inside = slice(first.start - made.start, first.stop - made.start)
        options: dict[str, Any] = {**c.options, "groups": 1}
        if c.back:
            taps = taps[:, inside]
            want, size = (
                gradient(a, b, got.shape, **options) for a, b in ((x, taps), (abs(x), abs(taps)))
            )
        else:
            want, size = (
                forward(a, b[inside], **options) for a, b in ((x, taps), (abs(x), abs(taps)))
            )
        depth = (outs if c.back else ins) * c.k**2
        allowed = 2.0**-23 * size * (math.sqrt(depth) + 4) + 1e-30
        if c.dtype == F16:
            allowed += np.abs(want) * 2.0**-10
        return float((np.abs(got.astype(np.float64) - want) / allowed).max())

    def peer(self, c: Case) -> Callable[[], object] | None:
        if not HAVE_TORCH:
            return None
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        kind = torch.float16 if c.dtype == F16 else torch.float32
        form = torch.channels_last if c.layout == "NHWC" else torch.contiguous_format
        x = torch.rand(c.x_shape, device="cuda", dtype=kind).to(memory_format=form)
        w = torch.rand((c.o, c.c // c.groups, c.k, c.k), device="cuda", dtype=kind)
        w = w.to(memory_format=form)
        if not c.back:
            return lambda: torch.nn.functional.conv2d(x, w, **c.options)
        dy = torch.rand(c.y_shape, device="cuda", dtype=kind).to(memory_format=form)
        return lambda: torch.nn.grad.conv2d_input(x.shape, w, dy, **c.options)

    def row(
        self, c: Case, config: str, ours: float, error: float, peer: float | None,
        other: float | None,
    ) -> None:  # fmt: skip
        line = f"{c.name:<36}{config:>12}{ours * 1e6:>10.1f}{c.operations / ours / 1e12:>9.2f}"
        line += f"{c.nbytes / ours / 1e9:>7.0f}"
        line += f"{peer * 1e6:>10.1f}{peer / ours:>9.3f}" if peer else f"{'-':>10}{'-':>9}"
        line += f"{other * 1e6:>9.1f}{other / ours:>7.2f}" if other else f"{'-':>9}{'-':>7}"
        print(f"{line}  {error:.1e}" + ("" if error <= 1.0 else " WRONG"), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--first", type=int, default=len(CASES), help="only so many cases")
    parser.add_argument("--config", default="auto", help="choices to compare, by comma")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ort", action="store_true", help="ONNX Runtime on WebGPU beside ours")
    parser.add_argument("--scale", type=float, default=1.0, help="of the images' sides")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine, checks=not args.unchecked)
    print(f"{dev.info!r} {'unchecked' if args.unchecked else 'checked'}")
    bench = Bench(dev, args.runs, args.ort)
    for c in CASES[: args.first]:
        if args.only in c.name:
            bench.case(c.scaled(args.scale) if args.scale != 1.0 else c, args.config.split(","))


if __name__ == "__main__":
    main()
