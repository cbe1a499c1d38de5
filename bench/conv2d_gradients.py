"""conv2d's gradients by weights and bias, beside torch (cuDNN, TF32 off) where it is there.

    python bench/conv2d_gradients.py [--engine wgpu|dawn] [--scale 1.0] [--sweep]

Every case is checked against torch in float64, or numpy on small shapes. TFLOP/s count two
operations for each product of the forward convolution; the bias gradient is in bytes read.
`--sweep` times every tile and number of slices.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk
from bench.timing import HAVE_TORCH, gpu_time, torch_time
from pykernels.plans.conv import conv2d_backward_weight as plans
from pykernels.reference.conv2d import conv2d_backward_weight as reference

if HAVE_TORCH:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False

Array = np.ndarray[Any, Any]
# N, C, H, W, O, kernel, stride, padding, groups
CASES = (
    (8, 64, 256, 256, 64, 3, 1, 1, 1),
    (16, 64, 56, 56, 64, 3, 1, 1, 1),
    (16, 256, 14, 14, 256, 3, 1, 1, 1),
    (1, 512, 64, 64, 512, 3, 1, 1, 1),
    (16, 256, 56, 56, 64, 1, 1, 0, 1),
    (16, 3, 224, 224, 64, 7, 2, 3, 1),
    (16, 128, 56, 56, 128, 3, 2, 1, 1),
    (16, 96, 56, 56, 96, 3, 1, 1, 96),
    (16, 128, 28, 28, 128, 3, 1, 1, 32),
)


def attempt(name: object, case: Callable[[], None]) -> None:
    """One failure does not lose the other cases."""
    try:
        case()
    except Exception as e:
        print(f"{name}: {type(e).__name__}: {e}", flush=True)


def run(dev: pk.Device, case: tuple[int, ...], dtype: str, layout: str, sweep: bool) -> None:
    n, c, h, w, o, k, stride, padding, groups = case
    oh, ow = ((v + 2 * padding - k) // stride + 1 for v in (h, w))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, c, h, w), np.float32).astype(dtype)
    dy = rng.standard_normal((n, o, oh, ow), np.float32).astype(dtype)
    given = [a if layout == "NCHW" else a.transpose(0, 2, 3, 1) for a in (dy, x)]
    dyt, xt = (dev.tensor(np.ascontiguousarray(a)) for a in given)
    dst = dev.empty((o, c // groups, k, k))
    options: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    operations = 2 * n * oh * ow * o * (c // groups) * k * k
    peer, want = None, None
    if HAVE_TORCH:
        peer, want = torch_weight(x, dy, dst.shape, options)
    elif operations < 1e9:
        want = reference(dy, x, dst.shape, **options)

    def call() -> None:
        pk.kernels.conv2d_backward_weight(dyt, xt, dst, layout=layout, **options)

    shape = plans.Shape(groups, o // groups, c // groups, k * k, n * oh * ow)
    chosen = plans.choose(dev._context.caps, shape)
    own = plans.choose
    tried = [chosen]
    if sweep:
        tried += [
            plans.Choice(tile, plans._slices(shape, tile, each))
            for tile in plans.TILES if tile != "64x128" or shape.channels % 4 == 0
            for each in (1, 2, 3, 4, 6, 8)
        ] + [plans.Choice("direct", s) for s in (1, 4, 16) if groups > 1]  # fmt: skip
    try:
        for choice in dict.fromkeys(tried):
            plans.choose = lambda caps, s, choice=choice: choice  # type: ignore[misc]
            dev._context.forget_calls()
            seconds = gpu_time(dev, call, rounds=10, warm=0.05)
            error = float("nan")
            if want is not None:
                error = float(np.abs(dst.numpy() - want).max() / np.abs(want).max())
            rate = operations / seconds / 1e12
            line = f"{case!s:<42}{dtype[5:]:>3} {layout} {choice.body:>7}/{choice.slices:<4}"
            line += f"{seconds * 1e6:>9.1f} us{rate:>7.1f} TF  error {error:.1e}"
            if peer is not None:
                line += (
                    f"  torch {operations / peer / 1e12:>6.1f} TF, ours/torch {peer / seconds:.2f}"
                )
            print(line, flush=True)
    finally:
        plans.choose = own
        dev._context.forget_calls()


def torch_weight(
    x: Array, dy: Array, shape: tuple[int, ...], options: dict[str, Any]
) -> tuple[float, Array]:
    """torch's time, and the result in float64."""
    a, b = torch.from_numpy(x).cuda(), torch.from_numpy(dy).cuda()
    torch.backends.cudnn.benchmark = True
    grad = torch.nn.grad.conv2d_weight
    seconds = torch_time(lambda: grad(a, shape, b, **options), rounds=10)
    torch.backends.cudnn.benchmark = False
    want = grad(a.double(), shape, b.double(), **options).cpu().numpy()
    torch.cuda.empty_cache()
    return seconds, want


def bias(dev: pk.Device, shape: tuple[int, ...], dtype: str, layout: str) -> None:
    dy = dev.rand(shape, dtype, seed=1)  # type: ignore[arg-type]
    channels = shape[1] if layout == "NCHW" else shape[3]
    dst = dev.empty(channels)
    seconds = gpu_time(
        dev, lambda: pk.kernels.conv2d_backward_bias(dy, dst, layout=layout), warm=0.05
    )
    axes = (0, 2, 3) if layout == "NCHW" else (0, 1, 2)
    want = dy.numpy().astype("f8").sum(axes)
    error = float(np.abs(dst.numpy() - want).max() / np.abs(want).max())
    peer = ""
    if HAVE_TORCH:
        t = torch.rand(shape, device="cuda").to(getattr(torch, dtype))
        peer = f"  torch {dy.nbytes / torch_time(lambda: t.sum(axes)) / 1e9:.0f} GB/s"
    rate = f"{seconds * 1e6:.1f} us {dy.nbytes / seconds / 1e9:.0f} GB/s"
    print(f"bias {shape} {dtype} {layout}: {rate}, error {error:.1e}{peer}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--scale", type=float, default=1.0, help="of the images")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--first", type=int, default=len(CASES), help="only so many cases")
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dev = pk.Device(engine=args.engine)
    print(repr(dev.info))

    def scaled(case: tuple[int, ...]) -> tuple[int, ...]:
        sizes = [max(int(v * args.scale), 8) for v in case[2:4]]
        return (case[0], case[1], *sizes, *case[4:])

    for case in CASES[: args.first]:
        attempt(case, lambda c=case: run(dev, scaled(c), "float32", "NCHW", args.sweep))  # type: ignore[misc]
    if not args.sweep:
        for dtype, layout in (("float16", "NCHW"), ("float32", "NHWC"), ("float16", "NHWC")):
            for case in CASES[:2]:
                attempt(case, lambda c=case, d=dtype, y=layout: run(dev, scaled(c), d, y, False))  # type: ignore[misc]
        side = max(int(256 * args.scale), 8)
        for shape, dtype, layout in (
            ((8, 64, side, side), "float32", "NCHW"), ((8, 64, side, side), "float16", "NCHW"),
            ((8, side, side, 64), "float32", "NHWC"), ((64, 512, 7, 7), "float32", "NCHW"),
        ):  # fmt: skip
            attempt(shape, lambda s=shape, d=dtype, y=layout: bias(dev, s, d, y))  # type: ignore[misc]


if __name__ == "__main__":
    main()
