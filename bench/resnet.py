"""ResNet-50 (He et al. 2015) with folded batch norms. It is written once and runs with several sets
of operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import pykernels as pk

Array = np.ndarray[Any, Any]


class Size(NamedTuple):
    """The sizes of a network: blocks of each stage, channels of the first stage, classes, side of a
    picture."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    channels: int = 64
    classes: int = 1000
    side: int = 224


class Operations(Protocol):
    """The operations of the network. Pictures are (N, C, H, W)."""

    def conv(
        self, x: Any, name: str, stride: int = 1, relu: bool = True, residual: Any = None
    ) -> Any:
        """A convolution with bias, plus a residual. The padding keeps the size, apart from the
        stride."""

    def pool(self, x: Any) -> Any:
        """The maximum over windows of 3 x 3, with stride 2."""

    def classify(self, x: Any) -> Any:
        """The mean over pixels, and the last layer."""


def logits(ops: Operations, size: Size, x: Any) -> Any:
    """The logits (N, classes) of pictures (N, 3, side, side)."""
    x = ops.pool(ops.conv(x, "stem", 2))
    for stage, blocks in enumerate(size.blocks):
        for i in range(blocks):
            at = f"{stage}.{i}"
            stride = 2 if stage and not i else 1
            y = ops.conv(ops.conv(x, f"{at}.a"), f"{at}.b", stride)
            skip = x if i else ops.conv(x, f"{at}.skip", stride, relu=False)
            x = ops.conv(y, f"{at}.c", residual=skip)
    return ops.classify(x)


def random_weights(size: Size, seed: int = 0) -> dict[str, Array]:
    """He's normal weights, a quarter as large in the last layer of each block; and small biases."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}

    def layer(name: str, outputs: int, inputs: int, side: int, factor: float = 1.0) -> None:
        deviation = factor * math.sqrt(2 / (inputs * side * side))
        w = rng.standard_normal((outputs, inputs, side, side), np.float32) * deviation
        found[name] = w.astype(np.float32)
        found[f"{name}.bias"] = 0.1 * rng.standard_normal(outputs, np.float32)

    layer("stem", size.channels, 3, 7)
    inputs = size.channels
    for stage, blocks in enumerate(size.blocks):
        middle = size.channels << stage
        for i in range(blocks):
            at = f"{stage}.{i}"
            if i == 0:
                layer(f"{at}.skip", 4 * middle, inputs, 1)
            layer(f"{at}.a", middle, inputs, 1)
            layer(f"{at}.b", middle, middle, 3)
            layer(f"{at}.c", 4 * middle, middle, 1, 0.25)
            inputs = 4 * middle
    layer("classes", size.classes, inputs, 1)
    found["classes"] = found["classes"][:, :, 0, 0]
    return found


class Ours:
    """The operations on the device of the weights; `precision` is the precision of convolutions."""

    def __init__(
        self, weights: Mapping[str, pk.Tensor], precision: Literal["fast", "high"] | None = None
    ) -> None:
        self.w, self.precision = weights, precision

    def conv(
        self, x: pk.Tensor, name: str, stride: int = 1, relu: bool = True,
        residual: pk.Tensor | None = None,
    ) -> pk.Tensor:  # fmt: skip
        w = self.w[name]
        return pk.conv2d(
            x, w, self.w[f"{name}.bias"], stride, w.shape[-1] // 2, residual=residual,
            activation="relu" if relu else None, precision=self.precision,
        )  # fmt: skip

    def pool(self, x: pk.Tensor) -> pk.Tensor:
        return pk.max_pool2d(x, 3, 2, 1)

    def classify(self, x: pk.Tensor) -> pk.Tensor:
        return pk.linear(pk.mean(x, axis=(2, 3)), self.w["classes"], self.w["classes.bias"])


class Numpy:
    """The operations in numpy, in the dtype of the weights."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.w = weights

    def conv(
        self, x: Array, name: str, stride: int = 1, relu: bool = True,
        residual: Array | None = None,
    ) -> Array:  # fmt: skip
        w = self.w[name]
        edge, side = w.shape[-1] // 2, w.shape[-1]
        x = np.pad(x, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        windows = sliding_window_view(x, (side, side), axis=(2, 3))[:, :, ::stride, ::stride]
        y = np.tensordot(windows, w, axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        y = y + self.w[f"{name}.bias"][:, None, None]
        if residual is not None:
            y = y + residual
        return np.maximum(y, 0) if relu else y

    def pool(self, x: Array) -> Array:
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        found: Array = sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((-2, -1))
        return found

    def classify(self, x: Array) -> Array:
        found: Array = x.mean((2, 3)) @ self.w["classes"].T + self.w["classes.bias"]
        return found
