"""Images of another size, and their windows as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Array, Case, Operand
from pykernels.bench.peers import Skipped, torch_peer
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName

IMAGE = (8, 64, 128, 128)
WINDOWS = {"kernel": 3, "padding": 1}
MAIN = {
    "resize": ("f32-8x64x128x128-linear_to_256x256",),
    "roi_align": ("f32xi32>f32-2x256x56x56-512_boxes",),
    "roi_align_backward": ("f32xi32>f32-2x256x56x56-512_boxes",),
    "im2col": ("f32-8x64x56x56-3x3",), "col2im": ("f32-8x64x56x56-3x3",),
}  # fmt: skip


def first(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: two planes of the first image."""
    return {n: a[:1, : 2 * a.shape[1] // min(v.shape[1] for v in t.values())] for n, a in t.items()}


def resize(shape: tuple[int, ...] = IMAGE, dtype: str = "float32", out: str = "float32") -> Case:
    """A case: images become twice as large."""
    return resized(shape, (2 * shape[-2], 2 * shape[-1]), dtype)


def resized(shape: tuple[int, ...], size: tuple[int, int], dtype: str, **args: Any) -> Case:
    name = cast(DTypeName, dtype)
    tensors = {"x": Operand(shape, name), "dst": Operand((*shape[:-2], *size), name)}
    note = f"{args.get('mode', 'linear')} to {size[0]}x{size[1]}"
    return Case("resize", tensors, args, shape, note, part=first)


def im2col(
    shape: tuple[int, ...] = (8, 64, 56, 56), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: windows of 3 x 3 with a padding of 1."""
    n, c, h, w = shape
    name = cast(DTypeName, dtype)
    tensors = {"x": Operand(shape, name), "dst": Operand((n, 9 * c, h * w), name)}
    return Case("im2col", tensors, WINDOWS, shape, "3x3", part=first)


def col2im(
    shape: tuple[int, ...] = (8, 64, 56, 56), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: sums of windows of 3 x 3 with a padding of 1."""
    case = im2col(shape, dtype)
    x, columns = case.tensors["x"], case.tensors["dst"]
    return replace(case, kernel="col2im", tensors={"x": columns, "dst": x})


def roi_align(
    shape: tuple[int, ...] = (2, 256, 56, 56),
    dtype: str = "float32",
    out: str = "",
    count: int = 512,
) -> Case:
    """A case: boxes of a detector's images, with 7 x 7 bins and 2 x 2 samples in each bin."""
    name = cast(DTypeName, dtype)
    tensors = {
        "x": Operand(shape, name),
        "boxes": Operand((count, 4), "float32", values=partial(boxes, sizes=shape[2:])),
        "index": Operand((count,), "int32", values=partial(numbers, below=shape[0])),
        "dst": Operand((count, shape[1], 7, 7), name),
    }  # fmt: skip
    return Case("roi_align", tensors, {"sampling_ratio": 2}, shape, f"{count} boxes")


def roi_align_backward(
    shape: tuple[int, ...] = (2, 256, 56, 56),
    dtype: str = "float32",
    out: str = "",
    count: int = 512,
) -> Case:
    """A case: the gradient for the boxes of `roi_align`."""
    case = roi_align(shape, dtype, out, count)
    t = case.tensors
    given = {"dy": t["dst"], "boxes": t["boxes"], "index": t["index"], "dst": t["x"]}
    return replace(case, kernel="roi_align_backward", tensors=given)


def boxes(rng: np.random.Generator, shape: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    """Boxes from 2 pixels to half of an image; some reach over the edge of the image."""
    middle = rng.uniform(0, 1, (shape[0], 2)) * sizes[::-1]
    half = rng.uniform(1, max(sizes) / 4, (shape[0], 2))
    return np.concatenate([middle - half, middle + half], 1)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], below: int) -> Array:
    return rng.integers(0, below, shape)


def cases(edge: int = 0) -> Iterator[Case]:
    shape = tuple(cut(n, edge) for n in IMAGE)
    n, c, h, w = shape
    for dtype in ("float32", "float16"):
        yield resized(shape, (2 * h, 2 * w), dtype)
    yield resized(shape, (2 * h, 2 * w), "float32", mode="nearest", coordinates="asymmetric")
    yield resized(shape, (2 * h, 2 * w), "float32", mode="cubic")
    yield resized(shape, (h // 2 + 3, w // 2 + 1), "float32", coordinates="align_corners")
    yield resized(shape, (h // 2, w // 2), "float32", antialias=True)
    last = Operand(shape, "float32", order=(0, 2, 3, 1))
    large = Operand((n, c, 2 * h, 2 * w), "float32", order=(0, 2, 3, 1))
    yield Case("resize", {"x": last, "dst": large}, {}, shape, "channels last", part=first)
    small = tuple(cut(size, edge) for size in (8, 64, 56, 56))
    yield im2col(small)
    yield im2col(small, "float16")
    yield col2im(small)
    for make in (roi_align, roi_align_backward):
        yield make(tuple(cut(size, edge) for size in (2, 256, 56, 56)), count=cut(512, edge))


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    f = torch.nn.functional
    if case.kernel.startswith("roi_align"):
        raise Skipped("torch has no roi_align without torchvision")
    if case.kernel == "im2col":
        f.unfold(t["x"], 3, padding=1)
    elif case.kernel == "col2im":
        f.fold(t["x"], t["dst"].shape[-2:], 3, padding=1)
    else:
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(case.args.get("mode", "linear"))
        corners = case.args.get("coordinates") == "align_corners"
        given = {"mode": mode, "align_corners": corners} if mode else {"mode": "nearest"}
        f.interpolate(t["x"], t["dst"].shape[-2:], **given)


PEERS = {"torch": torch}
