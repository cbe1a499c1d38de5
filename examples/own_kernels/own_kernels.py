"""A folder with the user's own kernels: loaded, checked against numpy, timed, and used on a
picture.

    python examples/own_kernels/own_kernels.py [--size 100003] [--save picture.png]

Five kernels show common features of own kernels: two outputs, an optional input, f16, an output in
place, a reduction over workgroups. Three more kernels are typical uses: a sparse product, a
convolution, a histogram.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pictures import write_png

import pykernels as pk
from pykernels import bench

Array = np.ndarray[Any, Any]

HERE = Path(__file__).resolve().parent
RADIUS, TILE = 2, 16  # radius of the window of weights, and pixels of a workgroup along an axis
BESIDE = 7  # the value in memory before and after a tensor, which must not change

peaks = pk.raw_kernel(HERE / "peaks.wgsl")
blend = pk.raw_kernel(HERE / "blend.wgsl")
blend_masked = pk.raw_kernel(HERE / "blend.wgsl", "masked")
soft_clip = pk.raw_kernel(HERE / "soft_clip.wgsl")
normals = pk.raw_kernel(HERE / "normals.wgsl")
partial_squares = pk.raw_kernel(HERE / "norm.wgsl", "partial")
finish_norm = pk.raw_kernel(HERE / "norm.wgsl", "finish")
csr = pk.raw_kernel(HERE / "csr.wgsl")
count_levels = pk.raw_kernel(HERE / "equalise.wgsl", "count")
spread_levels = pk.raw_kernel(HERE / "equalise.wgsl", "spread")
convolve = pk.raw_kernel(HERE / "convolve.wgsl", constants={"RADIUS": RADIUS})


def groups(n: int, size: int, most: int = 64) -> int:
    """The number of workgroups of this size for n elements; above a limit each invocation takes
    several elements."""
    return min(-(-n // size), most)


def norm(x: pk.Tensor, sums: pk.Tensor, out: pk.Tensor) -> Any:
    """Two launches: the sum of squares of each workgroup, then the root of the total."""
    partial_squares(x, sums, n=x.size, grid=sums.size)
    return finish_norm(sums, out, n=sums.size, grid=1)


def equalise(picture: pk.Tensor, counts: pk.Tensor, out: pk.Tensor) -> Any:
    """The histogram, and the picture with the brightness that the histogram assigns."""
    counts[...] = 0
    grid = groups(picture.size, 256)
    count_levels(picture, counts, n=picture.size, grid=grid)
    return spread_levels(picture, counts, out, n=picture.size, grid=grid)


def filtered(picture: pk.Tensor, weights: pk.Tensor, out: pk.Tensor) -> Any:
    """The picture (height x width), filtered with a window of weights."""
    height, width = picture.shape
    grid = (-(-width // TILE), -(-height // TILE))
    return convolve(picture, weights, out, width=width, height=height, grid=grid)


@dataclass(frozen=True)
class Case:
    """A call with its arrays: the inputs, then the outputs with their contents before the call."""

    name: str
    call: Callable[..., Any]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    want: tuple[Array, ...]  # the expected outputs
    atol: float | None = None  # None: 16 units in the last place of the largest element


def cases(n: int) -> Iterator[Case]:
    """A case of each kernel on about n elements, with numpy's results."""
    rng = np.random.default_rng(n)
    f32 = np.float32
    x, y, mask = (rng.random(n, f32) for _ in range(3))

    cols = min(n, 301)
    rows = np.round(rng.random((n // cols, cols), f32), 2)  # with equal elements
    yield Case(
        "peaks", lambda x, *out: peaks(x, *out, cols=x.shape[1], grid=x.shape[0]),
        (rows,), (np.zeros(len(rows), f32), np.zeros(len(rows), np.uint32)),
        (rows.max(1), rows.argmax(1).astype(np.uint32)),
    )  # fmt: skip
    yield Case(
        "blend", lambda a, b, out: blend(a, b, out, n=a.size, share=0.25),
        (x, y), (np.zeros_like(x),), (x + 0.25 * (y - x),),
    )  # fmt: skip
    yield Case(
        "blend, masked", lambda *t: blend_masked(*t, n=t[0].size, share=0.25),
        (x, y, mask), (np.zeros_like(x),), (x + 0.25 * mask * (y - x),),
    )  # fmt: skip

    halves = (8 * x - 4).astype(np.float16)
    v = 1.5 * halves.astype(float)
    yield Case(
        "soft_clip", lambda x, y: soft_clip(x, y, n=x.size, gain=1.5),
        (halves,), (np.zeros_like(halves),), (v / (1 + np.abs(v)),), atol=5e-4,  # the ULP below 1
    )  # fmt: skip

    vectors = rng.standard_normal((-(-n // 3), 3)).astype(f32)
    vectors[0] = 0
    size = np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    yield Case(
        "normals", lambda v: normals(v, n=v.shape[0], grid=-(-v.shape[0] // 64)),
        (), (vectors,), (vectors / np.where(size > 0, size, 1),),
    )  # fmt: skip
    yield Case(
        "norm", norm,
        (x,), (np.zeros(groups(n, 256), f32), np.zeros(1, f32)),
        (np.sqrt((x.astype(float) ** 2).sum(keepdims=True)),),
    )  # fmt: skip

    starts = np.cumsum([0, *rng.integers(0, 9, -(-n // 8))]).astype(np.uint32)
    columns = rng.integers(0, n, max(starts[-1], 1)).astype(np.uint32)
    values = rng.random(columns.size, f32)
    products = (values.astype(float) * x[columns])[: starts[-1]]
    row = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    yield Case(
        "csr", lambda *t: csr(*t, rows=t[-1].size),
        (starts, columns, values, x), (np.zeros(starts.size - 1, f32),),
        (np.bincount(row, products, starts.size - 1),),
    )  # fmt: skip

    height = max(int(n**0.5), 1)
    scene = hills(-(-n // height), height)
    yield Case(
        "equalise", equalise,
        (scene,), (np.zeros(256, np.uint32), np.zeros_like(scene)), (equalised(scene),),
    )  # fmt: skip
    yield Case(
        "convolve", filtered, (scene, RELIEF), (np.zeros_like(scene),),
        (correlated(scene, RELIEF),), atol=1e-5,
    )  # fmt: skip


def equalised(picture: Array) -> Array:
    """`equalise` in numpy."""
    levels = (picture * 255 + 0.5).astype(int)
    below = np.bincount(levels.ravel(), minlength=256).cumsum()
    darkest = below[below > 0][0]
    return np.asarray((below[levels] - darkest) / max(picture.size - darkest, 1))


def correlated(picture: Array, weights: Array) -> Array:
    """`filtered` in numpy."""
    padded = np.pad(picture.astype(float), RADIUS, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape)
    return np.asarray((windows * weights).sum((-2, -1)))


# Light from the upper left: differences along the diagonal.
RELIEF = np.add.outer(range(-RADIUS, RADIUS + 1), range(-RADIUS, RADIUS + 1)).astype(np.float32) / 4


def hills(width: int, height: int) -> Array:
    """A hazy picture from 0 to 1, which uses few of 256 levels."""
    across, down = np.linspace(0, 1, width), np.linspace(0, 1, height)[:, None]
    scene = 0.62 - 0.05 * down + np.zeros((height, width))
    scene += 0.05 * np.exp(-((across - 0.7) ** 2 + (down - 0.2) ** 2) / 0.004)  # the sun
    for k in range(5):  # ridges, each in front of the ridge before
        turns = np.sin((3 + k) * 2.2 * across + 2 * k) + 0.4 * np.sin((11 + 5 * k) * across + k)
        edge = 0.35 + 0.13 * k + 0.05 * turns
        slope = 0.012 * np.sin(40 * across + 60 * (down - edge) + k)
        scene = np.where(down > edge, 0.56 - 0.045 * k + slope, scene)
    return np.asarray(np.round(scene * 255) / 255, np.float32)


def placed(dev: pk.Device, array: Array, first: int) -> tuple[pk.Tensor, pk.Tensor]:
    """A tensor inside a larger allocation, and the whole allocation."""
    memory = dev.full(first + array.size + 5, BESIDE, array.dtype.name)
    view = memory[first : first + array.size].reshape(array.shape)
    view[...] = array
    return view, memory


def check(dev: pk.Device, case: Case, first: int) -> None:
    """Compare the call with numpy, on tensors that start at element `first` of their allocation."""
    pairs = [placed(dev, a, first) for a in (*case.inputs, *case.outputs)]
    found = case.call(*(view for view, _ in pairs))
    found = found if isinstance(found, tuple) else (found,)
    for got, want in zip(found, case.want, strict=True):
        atol = case.atol
        if atol is None:
            eps = np.finfo(np.float32).eps if want.dtype.kind == "f" else 0
            atol = float(16 * eps * np.abs(want).max())
        np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=atol, err_msg=case.name)
    for view, memory in pairs:
        around = np.delete(memory.numpy(), slice(first, first + view.size))
        assert (around == BESIDE).all(), f"{case.name} wrote beside its tensors"


def measured(dev: pk.Device, case: Case) -> bench.Measurement:
    """The time of a case, by the statistics of `pykernels bench`."""
    tensors = [dev.tensor(a) for a in (*case.inputs, *case.outputs)]
    return bench.measure(case.call, *tensors, check=lambda *_: case.want, atol=case.atol)


def draw(dev: pk.Device, width: int = 240, height: int = 180) -> Array:
    """The hills, the equalised hills and their relief, side by side as bytes."""
    scene = dev.tensor(hills(width, height))
    clear, relief = dev.empty(scene.shape), dev.empty(scene.shape)
    with dev.batch():  # one submit
        equalise(scene, dev.empty(256, "uint32"), clear)
        filtered(clear, dev.tensor(RELIEF), relief)
    side_by_side = [scene.numpy(), clear.numpy(), 0.5 + 0.25 * relief.numpy()]
    gap = np.ones((height, 6), np.float32)
    parts = [side_by_side[0], gap, side_by_side[1], gap, side_by_side[2]]
    return (np.concatenate(parts, 1).clip(0, 1) * 255 + 0.5).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_003, help="elements of the timed calls")
    parser.add_argument("--save", type=Path, help="write the picture as PNG")
    args = parser.parse_args()

    dev = pk.default_device()
    print(f"{dev.info['name']}\n{'':14}{'GPU us':>9}{'call us':>9}{'noise':>8}{'error':>10}")
    for case in cases(args.size):
        if case.name == "soft_clip" and "shader-f16" not in dev.features:
            print(f"{case.name:14} the device lacks f16")
            continue
        check(dev, case, first=1)
        found = measured(dev, case)
        gpu = f"{found.gpu_us:.1f}" if found.gpu_us else ""
        call = f"{found.call_us:.1f}" if found.call_us else ""
        print(f"{case.name:14}{gpu:>9}{call:>9}{found.noise:>8.1%}{found.error:>10.1e}")
    if args.save:
        write_png(args.save, draw(dev))


if __name__ == "__main__":
    main()
