"""Transposed convolution by phases: each pixel sums over the windows that contain it.

Pixel y of an axis meets the windows u and taps i with u s + i d - padding = y. With y = r + s q,
tap i counts if s divides r + padding - i d. So each residue r has its own taps, every
s / gcd(s, d)-th tap, and is a convolution with stride 1 by these taps in reverse order.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from pykernels._generated.bodies import conv_few_outputs
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .call import Windows, bound
from .geometry import Geometry
from .select import choose
from .window_steps import reduce, u32
from .windows import shape_of, steps

__all__ = ["by_phases"]


class _Phase(NamedTuple):
    """One residue of an axis: its pixels and its taps."""

    first_pixel: int
    pixels: int
    first_tap: int
    taps: int
    row: int  # the row of x under the last tap of the first pixel
    step: int  # how many rows of x lie between one tap and the next


def by_phases(
    caps: Caps, scratch: Scratch, x: View, w: View, bias: View | None, dst: View, g: Geometry,
    activation: int, image: str,
) -> list[Step]:  # fmt: skip
    """dst[n, g, o, y, x'] = activation(scale * sum of x[n, g, c, u, v] w[g, o, c, i, j] + bias).

    x is (N, groups, C, H, W), w (groups, O, C, KH, KW), dst (N, groups, O, OH, OW); errors call x
    `image`.
    """
    if dst.size == 0:
        return []
    whole = Windows(x, w, bias, None, dst, (0, 0), (1, 1), (1, 1), activation)
    return bound(caps, scratch, whole, lambda part: _steps(caps, scratch, part, g), image)


def _steps(caps: Caps, scratch: Scratch, whole: Windows, g: Geometry) -> list[Step]:
    """The dispatches of a call that fits; `whole` describes a convolution with stride 1."""
    x, w, dst = whole.x, whole.w, whole.dst
    if x.size == 0 or w.size == 0:
        return [reduce(caps, scratch.empty((1,), "float32"), whole, 0)]
    rows, cols = (
        _phases(dst.shape[3 + a], g.kernel[a], g.stride[a], g.dilation[a], g.padding[2 * a])
        for a in (0, 1)
    )
    shape = shape_of(caps, whole)._replace(fits_few_outputs=_fits_few_outputs(whole, g))
    if choose(caps, shape).body == "conv_few_outputs":
        return [_few_outputs(caps, whole, g)]
    found: list[Step] = []
    if sum(p.pixels for p in rows) < dst.shape[3] or sum(p.pixels for p in cols) < dst.shape[4]:
        # If a residue has no tap, all of dst is first set to the epilogue of 0.
        found.append(reduce(caps, scratch.empty((1,), "float32"), whole, 0))
    for row, col in itertools.product(rows, cols):
        part = Windows(
            x=x, w=_taps(_taps(w, 3, row, g), 4, col, g), bias=whole.bias,
            residual=None, dst=_pixels(_pixels(dst, 3, row, g), 4, col, g),
            origin=(row.row, col.row), stride=(1, 1), tap=(row.step, col.step),
            activation=whole.activation,
        )  # fmt: skip
        found += steps(caps, scratch, part)
    return found


def _phases(pixels: int, taps: int, stride: int, dilation: int, padding: int) -> list[_Phase]:
    """The residues of one axis that have pixels and taps."""
    apart = stride // gcd(stride, dilation)
    found = []
    for first_tap in range(min(apart, taps)):
        residue = (first_tap * dilation - padding) % stride
        if residue < pixels:
            count, step = (taps - first_tap - 1) // apart + 1, apart * dilation // stride
            row = (residue + padding - first_tap * dilation) // stride - (count - 1) * step
            found.append(
                _Phase(residue, (pixels - residue - 1) // stride + 1, first_tap, count, row, step)
            )
    return found


def _pixels(v: View, axis: int, p: _Phase, g: Geometry) -> View:
    return _every(v, axis, p.first_pixel, p.pixels, g.stride[axis - 3])


def _taps(v: View, axis: int, p: _Phase, g: Geometry) -> View:
    """The taps of a phase, the last one first, so that the rows of x are in order."""
    apart = g.stride[axis - 3] // gcd(g.stride[axis - 3], g.dilation[axis - 3])
    return _every(v, axis, p.first_tap + (p.taps - 1) * apart, p.taps, -apart)


def _every(v: View, axis: int, first: int, count: int, step: int) -> View:
    """The view of `count` elements of an axis, `step` apart."""
    shape, strides = list(v.shape), list(v.strides)
    shape[axis], strides[axis] = count, v.strides[axis] * step
    return replace(
        v, shape=tuple(shape), strides=tuple(strides), offset=v.offset + first * v.strides[axis]
    )


# -- three channels, step 2 -----------------------------------------------------------------------

FEW_OUTPUTS = {(c.K, c.K): name for name, c in conv_few_outputs.CONFIGS.items()}


def _fits_few_outputs(c: Windows, g: Geometry) -> bool:
    """True if conv_few_outputs has texts for this call."""
    top, left = g.padding[0], g.padding[2]
    return (
        c.dst.shape[2] == 3
        and g.kernel in FEW_OUTPUTS
        and g.stride == (2, 2)
        and g.dilation == (1, 1)
        and top % 2 == left % 2 == 1
        and c.w.dtype is c.x.dtype
        and c.x.dtype.itemsize <= c.dst.dtype.itemsize
        and c.w.shape[2] < MAX_ROUNDS
    )


def _few_outputs(caps: Caps, c: Windows, g: Geometry) -> Step:
    """The step of conv_few_outputs, which computes all residues in one dispatch."""
    images, _, _, out_h, out_w = c.dst.shape
    name = FEW_OUTPUTS[g.kernel]
    own = conv_few_outputs.CONFIGS[name]
    across, row_blocks = cdiv(out_w, 8 * own.SX), cdiv(out_h, 2 * own.SY)
    # how many pixels of x the window reaches back from the pixel that two pixels of dst share
    back = g.kernel[0] // 2 - 1
    dv = 4 if c.dst.vectorizable(4, 4) else 1
    return conv_few_outputs.step(
        caps, c.x, c.w, c.bias, c.dst, KERNEL=name, DV=dv,
        across=across, row_blocks=row_blocks, image_groups=row_blocks * across,
        group_groups=images * row_blocks * across, images=images,
        channels=c.w.shape[2], height=c.x.shape[3], width=c.x.shape[4], out_h=out_h, out_w=out_w,
        y_first=u32(g.padding[0] // 2 - back), x_first=u32(g.padding[2] // 2 - back),
        activation=c.activation,
    )  # fmt: skip
