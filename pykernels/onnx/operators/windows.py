"""Convolutions of signals, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pykernels as pk

from ..graph import Node
from .table import op, refuse, text


def pads(node: Node, size: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """The padding of an image: the numbers before each axis, then the numbers after each axis."""
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
    """Signals as images of one row; images stay as they are."""
    if x.ndim not in (3, 4):
        raise refuse(node, f"{x.ndim - 2} axes of space")
    return [t if t is None or x.ndim == 4 else t[:, :, None] for t in (x, *more)]


def doubled(pair: Sequence[int], rank: int, first: int) -> tuple[int, ...]:
    """The numbers for each axis of an image, from the numbers of a signal."""
    return tuple(pair) if rank == 4 else (first, *pair)


def edges(around: Sequence[int], rank: int) -> tuple[int, int, int, int]:
    """The padding as top, bottom, left, right."""
    half = len(around) // 2
    front, behind = doubled(around[:half], rank, 0), doubled(around[half:], rank, 0)
    return front[0], behind[0], front[1], behind[1]


@op("Conv")
def conv(node: Node, x: Any, w: Any, bias: Any = None, residual: Any = None) -> Any:
    """A convolution. fusion/epilogues.py sets `residual`, `activation` and a product's `scale`."""
    if x.ndim == 5:
        return _conv3d(node, x, w, bias, residual)
    rank = x.ndim
    steps, gaps = spaced(node, rank - 2)
    around = pads(node, x.shape[2:], w.shape[2:])
    x, w = as_image(node, x, w)
    if residual is not None and rank == 3:
        residual = residual[:, :, None]
    y = pk.conv2d(
        x, w, bias, stride=doubled(steps, rank, 1), padding=edges(around, rank),
        dilation=doubled(gaps, rank, 1), groups=node.attributes.get("group", 1),
        residual=residual, activation=node.attributes.get("activation"),
    )  # fmt: skip
    return y if rank == 4 else y[:, :, 0]


def _conv3d(node: Node, x: Any, w: Any, bias: Any, residual: Any) -> Any:
    steps, gaps = spaced(node, 3)
    return pk.conv3d(
        x, w, bias, steps, _sides(pads(node, x.shape[2:], w.shape[2:])), gaps,
        node.attributes.get("group", 1), residual=residual,
        activation=node.attributes.get("activation"),
    )  # fmt: skip


def _sides(around: Sequence[int]) -> list[int]:
    """Front, back, top, bottom, left, right."""
    return [around[i + 3 * side] for i in range(3) for side in range(2)]


@op("ConvTranspose")
def conv_transpose(node: Node, x: Any, w: Any, bias: Any = None) -> Any:
    rank, axes = x.ndim, x.ndim - 2
    steps, gaps = spaced(node, axes)
    more = list(node.attributes.get("output_padding", [0] * axes))
    around = list(node.attributes.get("pads", [0] * 2 * axes))
    full = [
        step * (n - 1) + (k - 1) * gap + 1
        for n, k, step, gap in zip(x.shape[2:], w.shape[2:], steps, gaps, strict=True)
    ]
    wanted = node.attributes.get("output_shape")
    mode = text(node, "auto_pad", "NOTSET")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * step for n, step in zip(x.shape[2:], steps, strict=True)]
    if wanted is not None:
        wanted = list(wanted)[-axes:]
        for a in range(axes):
            total = max(full[a] + more[a] - wanted[a], 0)
            more[a] = max(wanted[a] - full[a], more[a])
            less, rest = total // 2, total - total // 2
            pair = (less, rest) if mode == "SAME_UPPER" else (rest, less)
            around[a], around[axes + a] = pair
    groups, kind = node.attributes.get("group", 1), node.attributes.get("activation")
    if rank == 5:
        sides = _sides(around)
        y = pk.conv_transpose3d(x, w, bias, steps, sides, more, groups, gaps)
        return y if kind is None else pk.elementwise(f"{kind}(y)", y=y)
    x, w = as_image(node, x, w)
    y = pk.conv_transpose2d(
        x, w, bias, stride=doubled(steps, rank, 1), padding=edges(around, rank),
        output_padding=doubled(more, rank, 0), dilation=doubled(gaps, rank, 1),
        groups=groups, activation=kind,
    )  # fmt: skip
    return y if rank == 4 else y[:, :, 0]


@op("DeformConv")
def deform_conv(node: Node, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
    if x.ndim != 4:
        raise refuse(node, f"{x.ndim - 2} axes of space")
    steps, gaps = spaced(node, 2)
    around = list(node.attributes.get("pads", [0] * 4))
    if around[:2] != around[2:]:
        raise refuse(node, f"pads {around}")
    return pk.deform_conv2d(x, offset, w, bias, steps, around[:2], gaps, mask)
