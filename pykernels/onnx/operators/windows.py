"""Convolutions, pools and what else looks at windows of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels import functional as F

from ..graph import Node
from .table import kept, op, refuse, text


def pads(node: Node, size: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """How much is around an image: (in front, ...; behind, ...)."""
    mode = text(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        return list(node.attributes.get("pads", [0] * 2 * len(size)))
    if mode == "VALID":
        return [0] * 2 * len(size)
    steps, gaps = spaced(node, len(size))
    front, behind = [], []
    for n, k, step, gap in zip(size, kernel, steps, gaps, strict=True):
        total = max((math.ceil(n / step) - 1) * step + (k - 1) * gap + 1 - n, 0)
        less, more = total // 2, total - total // 2
        front.append(less if mode == "SAME_UPPER" else more)
        behind.append(more if mode == "SAME_UPPER" else less)
    return front + behind


def spaced(node: Node, axes: int) -> tuple[list[int], list[int]]:
    """Strides and dilations."""
    attributes = node.attributes
    return attributes.get("strides", [1] * axes), attributes.get("dilations", [1] * axes)


def as_image(node: Node, x: Any, *more: Any) -> list[Any]:
    """Signals as images of one row; images as they are."""
    if x.ndim not in (3, 4):
        raise refuse(node, f"{x.ndim - 2} axes of space")
    return [t if t is None or x.ndim == 4 else t[:, :, None] for t in (x, *more)]


def doubled(pair: Sequence[int], rank: int, first: int) -> tuple[int, ...]:
    """Numbers of each axis of an image, from those of a signal."""
    return tuple(pair) if rank == 4 else (first, *pair)


def edges(around: Sequence[int], rank: int) -> tuple[int, int, int, int]:
    """Top, bottom, left, right."""
    half = len(around) // 2
    front, behind = doubled(around[:half], rank, 0), doubled(around[half:], rank, 0)
    return front[0], behind[0], front[1], behind[1]


@op("Conv")
def conv(node: Node, x: Any, w: Any, bias: Any = None, residual: Any = None) -> Any:
    """`residual`, `activation` and a product's `scale` come from fusion.py."""
    rank = x.ndim
    steps, gaps = spaced(node, rank - 2)
    around = pads(node, x.shape[2:], w.shape[2:])
    x, w = as_image(node, x, w)
    if residual is not None and rank == 3:
        residual = residual[:, :, None]
    y = F.conv2d(
        x, w, bias, stride=doubled(steps, rank, 1), padding=edges(around, rank),
        dilation=doubled(gaps, rank, 1), groups=node.attributes.get("group", 1),
        residual=residual, activation=node.attributes.get("activation"),
    )  # fmt: skip
    return y if rank == 4 else y[:, :, 0]


@op("ConvTranspose")
def conv_transpose(node: Node, x: Any, w: Any, bias: Any = None) -> Any:
    if text(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise refuse(node, "auto_pad")
    rank, axes = x.ndim, x.ndim - 2
    steps, gaps = spaced(node, axes)
    around = pads(node, x.shape[2:], w.shape[2:])
    more = node.attributes.get("output_padding", [0] * axes)
    if "output_shape" in node.attributes:
        raise refuse(node, "output_shape")
    x, w = as_image(node, x, w)
    y = F.conv_transpose2d(
        x, w, bias, stride=doubled(steps, rank, 1), padding=edges(around, rank),
        output_padding=doubled(more, rank, 0), dilation=doubled(gaps, rank, 1),
        groups=node.attributes.get("group", 1), activation=node.attributes.get("activation"),
    )  # fmt: skip
    return y if rank == 4 else y[:, :, 0]


@op("MaxPool")
def max_pool(node: Node, x: Any) -> Any:
    if len(node.outputs) > 1:
        raise refuse(node, "indices")
    return _pool(node, x, -math.inf)


@op("AveragePool")
def average_pool(node: Node, x: Any) -> Any:
    return _pool(node, x, 0.0)


def _pool(node: Node, x: Any, border: float) -> Any:
    """Pools with a border that may be of any width."""
    rank = x.ndim
    size = node.attributes["kernel_shape"]
    steps, gaps = (doubled(v, rank, 1) for v in spaced(node, rank - 2))
    top, bottom, left, right = edges(pads(node, x.shape[2:], size), rank)
    kernel = doubled(size, rank, 1)
    ceil = bool(node.attributes.get("ceil_mode", 0))
    (x,) = as_image(node, x)
    inside = (top, left) == (bottom, right) and 2 * top <= kernel[0] and 2 * left <= kernel[1]
    padding, counted = (
        (top, left) if inside else (0, 0),
        bool(node.attributes.get("count_include_pad")),
    )
    rows, cols = x.shape[2:]
    if not inside:
        x = F.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=border)
    if border:
        y = F.max_pool2d(x, kernel, steps, padding, gaps, ceil)
    elif gaps != (1, 1):
        raise refuse(node, "dilations")
    elif inside or counted:
        y = F.avg_pool2d(x, kernel, steps, padding, ceil, counted)
    else:  # sums, divided by the elements that are no border
        y = F.avg_pool2d(x, kernel, steps, 0, ceil, divisor_override=1)
        counts = [
            np.array([min(i * s + k, f + n) - max(i * s, f) for i in range(m)])
            for m, s, k, f, n in zip(
                y.shape[2:], steps, kernel, (top, left), (rows, cols), strict=True
            )
        ]
        y = y / kept(node, "counts", y.device, np.outer(*counts).astype(np.float32))
    if not inside:  # no window begins behind the image
        y = y[:, :, : -(-(rows + top) // steps[0]), : -(-(cols + left) // steps[1])]
    return y if rank == 4 else y[:, :, 0]


@op("GlobalAveragePool")
def global_average_pool(node: Node, x: Any) -> Any:
    return F.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(node: Node, x: Any) -> Any:
    return F.max(x, tuple(range(2, x.ndim)), keepdims=True)


@op("LRN")
def local_response_norm(node: Node, x: Any) -> Any:
    given = node.attributes
    alpha, beta, k = (given.get(n, d) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    if given["size"] % 2 == 0:  # the channel more is behind in ONNX, in front in torch
        raise refuse(node, "an even size")
    return F.local_response_norm(x, given["size"], alpha, beta, k)
