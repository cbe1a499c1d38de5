"""Sums over windows of images, as conv2d, its input gradient and conv_transpose2d ask for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pykernels.layout import View

__all__ = ["Windows"]


@dataclass(frozen=True)
class Windows:
    """dst[n, g, o, y, x'] = activation(scale * s + bias[g O + o]) with s the sum over c, i, j of
    x[n, g, c, y stride + origin + i tap, x' stride + origin + j tap] * w[g, o, c, i, j].

    x counts as 0 outside of the image. Pairs are (rows, columns).
    """

    x: View  # (N, groups, C, H, W)
    w: View  # (groups, O, C, KH, KW)
    bias: View | None  # (groups * O,)
    dst: View  # (N, groups, O, OH, OW)
    origin: tuple[int, int]
    stride: tuple[int, int]
    tap: tuple[int, int]
    activation: int

    @property
    def groups(self) -> int:
        return self.dst.shape[1]

    @property
    def rows(self) -> int:
        """Output channels of a group."""
        return self.dst.shape[2]

    @property
    def pixels(self) -> int:
        """Of all images."""
        return self.dst.shape[0] * self.dst.shape[3] * self.dst.shape[4]

    @property
    def depth(self) -> int:
        """Taps and channels of a window."""
        return math.prod(self.w.shape[2:])

    @property
    def operations(self) -> int:
        return 2 * self.dst.size * math.prod(self.w.shape[2:])

    @property
    def spread_bias(self) -> View | None:
        """bias over the axes of dst."""
        if self.bias is None:
            return None
        step = self.bias.strides[0]
        return self.bias.with_layout(self.dst.shape, (0, self.dst.shape[2] * step, step, 0, 0))
