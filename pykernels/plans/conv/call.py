"""Sums over windows of images, for conv2d, its input gradient and conv_transpose2d."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.groups import by_group, ungrouped
from pykernels.plans.parts import fits_binding, narrow
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["Windows", "bound"]


@dataclass(frozen=True)
class Windows:
    """dst[n, g, o, y, x'] = activation(scale * s + bias[g O + o] + residual[n, g, o, y, x']) with s
    the sum over c, i, j of x[n, g, c, y stride + origin + i tap, x' stride + origin + j tap]
    * w[g, o, c, i, j].

    x counts as 0 outside of the image. Pairs are (rows, columns).
    """

    x: View  # (N, groups, C, H, W)
    w: View  # (groups, O, C, KH, KW)
    bias: View | None  # (groups * O,)
    residual: View | None  # with the axes of dst
    dst: View  # (N, groups, O, OH, OW)
    origin: tuple[int, int]
    stride: tuple[int, int]
    tap: tuple[int, int]
    activation: int
    # the call's option, used by products (1 x 1 taps) and Winograd's transforms
    precision: str | None = None
    in_one_piece: bool = False  # True: matrix units add all products of a window in one sum

    @property
    def groups(self) -> int:
        return self.dst.shape[1]

    @property
    def rows(self) -> int:
        """The number of output channels of a group."""
        return self.dst.shape[2]

    @property
    def pixels(self) -> int:
        """The number of output pixels of all images."""
        return self.dst.shape[0] * self.dst.shape[3] * self.dst.shape[4]

    @property
    def depth(self) -> int:
        """The number of products of a window: taps times channels."""
        return math.prod(self.w.shape[2:])

    @property
    def operations(self) -> int:
        return 2 * self.dst.size * math.prod(self.w.shape[2:])

    @property
    def spread_bias(self) -> View | None:
        """The bias as a view with the axes of dst."""
        if self.bias is None:
            return None
        step = self.bias.strides[0]
        return self.bias.with_layout(self.dst.shape, (0, self.dst.shape[2] * step, step, 0, 0))


def bound(
    caps: Caps, scratch: Scratch, c: Windows, steps: Callable[[Windows], list[Step]], image: str
) -> list[Step]:
    """The steps of a call, in parts if a tensor or a temporary is larger than one binding: some
    images, some groups of one image, or some output channels of one group.

    Errors call x `image`.
    """
    found = whole(caps, scratch, (c.x, c.w, c.bias, c.residual, c.dst), lambda: steps(c))
    if found is not None:
        return found
    views = {image: c.x, "w": c.w, "dst": c.dst}
    images = {image: 0, "dst": 0}
    groups, rows = {image: 1, "w": 0, "dst": 1}, {"w": 1, "dst": 2}
    if c.bias is not None:
        views["bias"] = by_group(c.bias, c.groups, 0)
        groups, rows = {**groups, "bias": 0}, {**rows, "bias": 1}
    if c.residual is not None:
        views["residual"] = c.residual
        images, groups = {**images, "residual": 0}, {**groups, "residual": 1}
        rows = {**rows, "residual": 2}

    def of(own: Mapping[str, View]) -> Windows:
        bias = None if c.bias is None else ungrouped(own["bias"], 0)
        residual = own.get("residual")
        return replace(c, x=own[image], w=own["w"], bias=bias, residual=residual, dst=own["dst"])

    if c.groups > 1:
        apart = [
            of({name: narrow(v, groups[name], g, 1) for name, v in views.items()})
            for g in range(c.groups)
        ]
        one = [narrow(v, 0, 0, 1) for v in (apart[0].x, apart[0].residual, apart[0].dst) if v]
        if not all(fits_binding(caps, v) for v in (*one, apart[0].w)):
            return [step for part in apart for step in bound(caps, scratch, part, steps, image)]
    axes = [images, groups if c.groups > 1 else rows]
    return in_parts(caps, scratch, views, axes, lambda part: steps(of(part.views)))
