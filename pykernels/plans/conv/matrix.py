"""Convolutions on matrix units: images and weights packed, and the product of what was packed."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pykernels._generated.bodies import conv_units, implicit_gemm_mma
from pykernels.dtypes import DTYPES
from pykernels.layout import View, merge_axes
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.cost import split_k
from pykernels.plans.mma import UNIT

from .call import Windows
from .geometry import reorder
from .select_mma import MmaShape
from .window_steps import target, u32

__all__ = ["Units", "implicit_gemm", "is_halves", "mma_shape", "pixel_rows", "span", "units"]

WORDS = UNIT // 2  # of a unit
BK = implicit_gemm_mma.CONFIGS["32x32"].BK  # as of the others


class Units(NamedTuple):
    """Words of two halves, and the steps that make them."""

    view: View  # (groups, N, rows, columns, channels in whole units)
    before: list[Step]


def is_halves(*views: View) -> bool:
    return all(v.dtype.name == "float16" for v in views)


def span(
    out: tuple[int, int], stride: tuple[int, int], taps: tuple[int, int], step: tuple[int, int]
) -> tuple[int, int]:
    """Rows and columns that so many windows reach over, `step` from one tap to the next."""
    rows, cols = ((out[a] - 1) * stride[a] + (taps[a] - 1) * step[a] + 1 for a in (0, 1))
    return rows, cols


def units(
    caps: Caps, scratch: Scratch, v: View, first: tuple[int, int], size: tuple[int, int],
    multiple: int, *, rows: bool = False,
) -> Units:  # fmt: skip
    """Images (N, groups, C, H, W) of halves from row and column `first` on, zero beyond them, with
    zeros up to a multiple of channels; as they are where they lie so. `rows`: pixels must lie
    evenly."""
    n, groups, channels, height, width = v.shape
    if lies_so(v, first, size, multiple):
        start = v.offset + first[0] * v.strides[3] + first[1] * v.strides[4]
        own = reorder(replace(v, offset=start), (1, 0, 3, 4, 2))
        shape = (groups, n, *size, channels // 2)
        even = len(merge_axes(shape[1:4], [own.strides[1:4]])[0]) == 1
        if even or not rows:
            own = replace(own, dtype=DTYPES["uint32"])
            return Units(own.with_layout(shape, (*own.strides[:4], 4)), [])
    count = cdiv(channels, multiple) * multiple // UNIT
    packed = scratch.empty((groups, n, *size, count * WORDS), "uint32")
    last = abs(v.strides[2]) < abs(v.strides[4]) or size[0] * size[1] == 1
    near = count if last else 2 if count % 2 == 0 else 1
    step = conv_units.step(
        caps, v, packed, images=n, channels=channels, height=height, width=width,
        y_first=u32(first[0]), x_first=u32(first[1]), out_w=size[1], plane=size[0] * size[1],
        units=count, near=near,
    )  # fmt: skip
    return Units(packed, [step])


def lies_so(v: View, first: tuple[int, int], size: tuple[int, int], multiple: int) -> bool:
    """Are the channels of a pixel next to each other in whole units, and no pixel outside?"""
    return (
        v.shape[2] % multiple == 0
        and v.vectorizable(UNIT, 2)
        and all(first[a] >= 0 and first[a] + size[a] <= v.shape[3 + a] for a in (0, 1))
    )


def pixel_rows(v: View) -> View:
    """Units whose pixels lie evenly as (groups, pixels of all images, channels)."""
    size, (step,) = merge_axes(v.shape[1:4], [v.strides[1:4]])
    return v.with_layout((v.shape[0], size[0], v.shape[4]), (v.strides[0], step[0], 4))


def mma_shape(caps: Caps, c: Windows) -> MmaShape | None:
    """The product of a call; None where matrix units cannot take it."""
    if caps.matrix is None or not is_halves(c.x, c.w):
        return None
    n, groups, channels, _, _ = c.x.shape
    taps = c.w.shape[3] * c.w.shape[4]
    padded = cdiv(channels, BK) * BK
    size = _span(c)
    image = 0 if lies_so(c.x, c.origin, size, BK) else 2 * groups * n * size[0] * size[1] * padded
    weights = 2 * groups * c.rows * taps * padded
    if max(image, weights) > caps.max_binding:
        return None
    last = c.dst.vectorizable(4, 2)
    rows, cols = (c.pixels, c.rows) if last else (c.rows, c.pixels)
    return MmaShape(groups, rows, cols, c.depth, taps * padded, image + weights, c.dst.size)


def _span(c: Windows) -> tuple[int, int]:
    return span((c.dst.shape[3], c.dst.shape[4]), c.stride, (c.w.shape[3], c.w.shape[4]), c.tap)


def implicit_gemm(caps: Caps, scratch: Scratch, c: Windows, tile: str, splits: int) -> list[Step]:
    """implicit_gemm_mma: `tile` is its configuration."""
    assert caps.matrix is not None
    own = implicit_gemm_mma.CONFIGS[tile]
    image = units(caps, scratch, c.x, c.origin, _span(c), BK)
    kernel = (c.w.shape[3], c.w.shape[4])
    weights = units(caps, scratch, reorder(c.w, (1, 0, 2, 3, 4)), (0, 0), kernel, BK)
    k = weights.view
    depth = kernel[0] * kernel[1] * k.shape[4] * 2
    rows_of_k = k.with_layout((k.shape[0], c.rows, depth // 2), (*k.strides[:2], 4))
    splits, each = split_k(depth, splits, BK)
    t = target(caps, scratch, c, splits)
    out, vec = _flat(t.out)
    last = not vec and t.out.vectorizable(4, 3)
    pixels, rows = (own.BM, own.BN) if last else (own.BN, own.BM)
    _, _, row, col, _ = image.view.strides
    step = implicit_gemm_mma.step(
        caps, image.view, rows_of_k, None if t.is_partial else c.bias, t.out if last else out,
        MMA=caps.matrix.dialect, TILE=tile, COLUMNS="channels" if last else "pixels",
        DV=4 if vec or last else 1, rows=c.rows, pixels=c.pixels,
        plane=c.dst.shape[3] * c.dst.shape[4], out_w=c.dst.shape[4],
        dst_w=c.dst.shape[4] if last else out.shape[5], depth=depth, split_depth=each,
        splits=splits, across=cdiv(c.pixels, pixels), down=cdiv(c.rows, rows),
        channels=k.shape[4] // WORDS, kernel_w=kernel[1], stride_h=c.stride[0],
        stride_w=c.stride[1], tap_h=c.tap[0] * row // 16, tap_w=c.tap[1] * col // 16,
        activation=0 if t.is_partial else c.activation, is_partial=int(t.is_partial),
    )  # fmt: skip
    return [*image.before, *weights.before, step, *t.after]


def _flat(v: View) -> tuple[View, bool]:
    """Planes that lie evenly as one row, and whether four pixels of a row are a vector."""
    size, (step,) = merge_axes(v.shape[4:], [v.strides[4:]])
    if len(size) == 1:
        v = v.with_layout((*v.shape[:4], 1, size[0]), (*v.strides[:4], 0, step[0]))
    return v, v.vectorizable(4, 5)
