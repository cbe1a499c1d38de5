"""Pools over signals, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pykernels as pk

from ..graph import Node
from .table import kept, op, refuse, text
from .windows import pads, spaced

# Computes sums or maxima of windows from an image with its border, the kernel, strides and
# dilations.
Pool = Callable[[Any, Sequence[int], Sequence[int], Sequence[int]], Any]


def _max(x: Any, kernel: Sequence[int], steps: Sequence[int], gaps: Sequence[int]) -> Any:
    return pk.max_pool2d(x, kernel, steps, 0, gaps)


def _sum(x: Any, kernel: Sequence[int], steps: Sequence[int], gaps: Sequence[int]) -> Any:
    if tuple(gaps) == (1, 1):
        return pk.avg_pool2d(x, kernel, steps, 0, divisor_override=1)
    rows, cols = ((k - 1) * g + 1 for k, g in zip(kernel, gaps, strict=True))
    down = (x.shape[2] - rows) // steps[0] + 1
    across = (x.shape[3] - cols) // steps[1] + 1
    y = None  # windows with gaps: the sum of a view for each element of a window
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * gaps[0], j * gaps[1]
            view = x[:, :, top : top + (down - 1) * steps[0] + 1 : steps[0],
                     left : left + (across - 1) * steps[1] + 1 : steps[1]]  # fmt: skip
            y = view if y is None else y + view
    return y


def _windows(node: Node, sizes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """The padding before each axis and after it, and the sizes of the result."""
    kernel = node.attributes["kernel_shape"]
    steps, gaps = spaced(node, len(sizes))
    around = pads(node, sizes, kernel)
    half = len(sizes)
    front, behind, found = list(around[:half]), list(around[half:]), []
    up = bool(node.attributes.get("ceil_mode", 0))
    for a, (n, k, step, gap) in enumerate(zip(sizes, kernel, steps, gaps, strict=True)):
        room = n + front[a] + behind[a] - (k - 1) * gap - 1
        count = (-(-room // step) if up else room // step) + 1
        if up and (count - 1) * step >= n + front[a]:  # no window begins after the image
            count -= 1
        found.append(count)
        # If sizes are rounded up, add space so that the last window fits.
        behind[a] = max(behind[a], (count - 1) * step + (k - 1) * gap + 1 - n - front[a])
    return front, behind, found


def _pooled(node: Node, x: Any, border: float, pool: Pool) -> Any:
    """A pool over one to three axes: over the last two as an image, then over the axis before."""
    axes = x.ndim - 2
    kernel = node.attributes["kernel_shape"]
    steps, gaps = spaced(node, axes)
    front, behind, counts = _windows(node, x.shape[2:])
    if any(front) or any(behind):
        widths = [(0, 0), (0, 0), *zip(front, behind, strict=True)]
        x = pk.pad(x, widths, constant_values=border)
    if axes == 1:
        x = x[:, :, None]
        y = pool(x, (1, kernel[0]), (1, steps[0]), (1, gaps[0]))
        return y[:, :, 0, : counts[0]]
    n, c = x.shape[:2]
    if axes == 3:
        x = x.reshape(n, c * x.shape[2], *x.shape[3:])
    y = pool(x, kernel[-2:], steps[-2:], gaps[-2:])
    y = y[:, :, : counts[-2], : counts[-1]]
    if axes == 3:
        y = y.reshape(n, c, -1, counts[-2] * counts[-1])
        y = pool(y, (kernel[0], 1), (steps[0], 1), (gaps[0], 1))[:, :, : counts[0]]
    return y.reshape(n, c, *counts)


def _checked(node: Node, x: Any) -> None:
    if x.ndim not in (3, 4, 5):
        raise refuse(node, f"{x.ndim - 2} axes of space")


def _plain(node: Node, x: Any) -> tuple[Any, ...] | None:
    """Arguments of a pool of images whose border is small and even; None for other pools."""
    if x.ndim != 4 or node.attributes.get("ceil_mode", 0):
        return None
    kernel = tuple(node.attributes["kernel_shape"])
    steps, gaps = spaced(node, 2)
    top, left, bottom, right = pads(node, x.shape[2:], kernel)
    if (top, left) != (bottom, right) or 2 * top > kernel[0] or 2 * left > kernel[1]:
        return None
    return kernel, tuple(steps), (top, left), tuple(gaps)


@op("MaxPool")
def max_pool(node: Node, x: Any) -> Any:
    _checked(node, x)
    kind = x.dtype
    if kind not in ("float32", "float16"):
        x = x.astype("float32")
    if len(node.outputs) > 1 and node.outputs[1]:
        return _with_indices(node, x)
    plain = _plain(node, x)
    if plain is not None:
        y = pk.max_pool2d(x, *plain)
    else:
        y = _pooled(node, x, -math.inf, _max)
    return y if y.dtype == kind else y.astype(kind)


def _with_indices(node: Node, x: Any) -> Any:
    """The largest elements and their positions, which ONNX counts in the whole tensor."""
    plain = _plain(node, x)
    if plain is None:
        raise refuse(node, "indices of other pools than of images with an even border")
    y, index = pk.max_pool2d(x, *plain, return_indices=True)
    n, c, h, w = x.shape
    if node.attributes.get("storage_order", 0):
        index = pk.elementwise("i % w * h + i // w", i=index, w=w, h=h)
    base = np.arange(n * c, dtype=np.int32).reshape(n, c, 1, 1) * (h * w)
    return y, index + kept(node, "base", x.device, base)


@op("AveragePool")
def average_pool(node: Node, x: Any) -> Any:
    _checked(node, x)
    plain, counted = _plain(node, x), bool(node.attributes.get("count_include_pad"))
    if plain is not None and plain[3] == (1, 1):
        kernel, steps, around, _ = plain
        return pk.avg_pool2d(x, kernel, steps, around, count_include_pad=counted)
    sums = _pooled(node, x, 0.0, _sum)
    counts = np.ones([1] * len(node.attributes["kernel_shape"]), np.float32)
    for a, row in enumerate(_counts(node, x.shape[2:], counted)):
        counts = counts * row.reshape([-1 if i == a else 1 for i in range(counts.ndim)])
    return sums / kept(node, "counts", x.device, counts.astype(x.dtype))


def _counts(node: Node, sizes: Sequence[int], counted: bool) -> list[Any]:
    """For each axis, the number of elements of each window that count in its mean; with `counted`
    the padding counts, too."""
    kernel = node.attributes["kernel_shape"]
    steps, gaps = spaced(node, len(sizes))
    around = pads(node, sizes, kernel)
    front, _, found = _windows(node, sizes)
    rows = []
    for a, (n, k, step, gap, count) in enumerate(
        zip(sizes, kernel, steps, gaps, found, strict=True)
    ):
        at = np.arange(count)[:, None] * step + np.arange(k) * gap - front[a]
        first, last = (-front[a], n + around[len(sizes) + a]) if counted else (0, n)
        rows.append(((at >= first) & (at < last)).sum(1))
    return rows


@op("LpPool")
def lp_pool(node: Node, x: Any) -> Any:
    _checked(node, x)
    p = float(node.attributes.get("p", 2))
    y = _pooled(node, pk.elementwise("abs(x) ** p", x=x, p=p), 0.0, _sum)
    return pk.elementwise("y ** q", y=y, q=1 / p)


@op("GlobalAveragePool")
def global_average_pool(node: Node, x: Any) -> Any:
    return pk.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(node: Node, x: Any) -> Any:
    return pk.max(x, tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalLpPool")
def global_lp_pool(node: Node, x: Any) -> Any:
    p = float(node.attributes.get("p", 2))
    axes = tuple(range(2, x.ndim))
    y = pk.reduction("abs(x) ** p", "sum", axis=axes, keepdims=True, x=x, p=p)
    return pk.elementwise("y ** q", y=y, q=1 / p)


@op("MaxUnpool", host=(2,))
def max_unpool(node: Node, x: Any, index: Any, shape: Any = None) -> Any:
    if x.ndim != 4:
        raise refuse(node, f"{x.ndim - 2} axes of space")
    n, c, h, w = x.shape
    kernel = node.attributes["kernel_shape"]
    steps, _ = spaced(node, 2)
    top, left, bottom, right = pads(node, (h, w), kernel)
    rows = (h - 1) * steps[0] - top - bottom + kernel[0]
    cols = (w - 1) * steps[1] - left - right + kernel[1]
    # An index is a position in the whole tensor (n, c, rows, cols). A larger result has zeros after
    # these rows and columns.
    zeros = kept(node, "zeros", x.device, np.zeros(n * c * rows * cols, x.dtype))
    flat = pk.scatter(zeros, 0, index.reshape(-1), x.reshape(-1))
    y = flat.reshape(n, c, rows, cols)
    if shape is None:
        return y
    more = int(shape[-2]) - rows, int(shape[-1]) - cols
    if min(more) < 0:
        raise refuse(node, f"a result of shape {shape.tolist()}")
    return pk.pad(y, [(0, 0), (0, 0), (0, more[0]), (0, more[1])])


@op("Col2Im", host=(1, 2))
def col2im(node: Node, x: Any, size: Any, block: Any) -> Any:
    given = node.attributes
    if len(size) == 3:
        return _volume(node, x, [int(n) for n in size], [int(k) for k in block])
    if len(size) != 2:
        raise refuse(node, f"{len(size)} axes of space")
    around = given.get("pads", [0, 0, 0, 0])
    kernel = tuple(int(k) for k in block)
    full = (int(size[0]) + around[0] + around[2], int(size[1]) + around[1] + around[3])
    y = pk.fold(
        x, full, kernel, dilation=tuple(given.get("dilations", (1, 1))),
        stride=tuple(given.get("strides", (1, 1))),
    )  # fmt: skip
    return y[:, :, around[0] : full[0] - around[2], around[1] : full[1] - around[3]]


def _volume(node: Node, x: Any, size: list[int], kernel: list[int]) -> Any:
    """Volumes from columns: for each plane of the kernel, the columns become images, which are
    added to the planes of the volumes where they belong."""
    steps, gaps = spaced(node, 3)
    around = node.attributes.get("pads", [0] * 6)
    full = [n + around[a] + around[3 + a] for a, n in enumerate(size)]
    count = [(full[a] - gaps[a] * (kernel[a] - 1) - 1) // steps[a] + 1 for a in range(3)]
    channels, taps = x.shape[1] // math.prod(kernel), kernel[1] * kernel[2]
    parts = x.reshape(x.shape[0], channels, kernel[0], taps, count[0], count[1] * count[2])
    y = x.device.zeros((x.shape[0], channels, *full), x.dtype)
    for k in range(kernel[0]):
        columns = parts[:, :, k].transpose(0, 3, 1, 2, 4)
        columns = columns.reshape(x.shape[0] * count[0], channels * taps, count[1] * count[2])
        planes = pk.fold(columns, full[1:], kernel[1:], dilation=gaps[1:], stride=steps[1:])
        planes = planes.reshape(x.shape[0], count[0], channels, *full[1:]).swapaxes(1, 2)
        first = k * gaps[0]
        own = y[:, :, first : first + (count[0] - 1) * steps[0] + 1 : steps[0]]
        own[...] = own + planes
    return y[:, :, around[0] : full[0] - around[3], around[1] : full[1] - around[4],
             around[2] : full[2] - around[5]]  # fmt: skip


@op("LRN")
def local_response_norm(node: Node, x: Any) -> Any:
    given = node.attributes
    alpha, beta, k = (given.get(n, d) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    if given["size"] % 2 == 0:  # the extra channel is before the element in torch, behind in ONNX
        raise refuse(node, "an even size")
    return pk.local_response_norm(x, given["size"], alpha, beta, k)


@op("GridSample")
def grid_sample(node: Node, x: Any, grid: Any) -> Any:
    modes = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "cubic": "bicubic",
             "bicubic": "bicubic"}  # fmt: skip
    mode: Any = text(node, "mode", "linear")
    if mode not in modes:
        raise refuse(node, f"mode {mode}")
    around: Any = text(node, "padding_mode", "zeros")
    corners = bool(node.attributes.get("align_corners", 0))
    found: Any = modes[mode]
    return pk.grid_sample(x, grid, found, around, corners)


@op("RoiAlign")
def roi_align(node: Node, x: Any, boxes: Any, index: Any) -> Any:
    given = node.attributes
    usual = "half_pixel" if node.version >= 16 else "output_half_pixel"
    mode: Any = text(node, "mode", "avg")
    return pk.roi_align(
        x, boxes, index, (given.get("output_height", 1), given.get("output_width", 1)),
        float(given.get("spatial_scale", 1.0)), int(given.get("sampling_ratio", 0)),
        text(node, "coordinate_transformation_mode", usual) == "half_pixel", mode=mode,
    )  # fmt: skip
