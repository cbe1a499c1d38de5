"""Convolutions on matrix units: packed images and weights, and their product."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from pykernels._generated.bodies import conv_units, implicit_gemm_mma
from pykernels.dtypes import DTYPES
from pykernels.plans.cost import split_k
from pykernels.plans.mma import UNIT, longest_sum
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Ints, View, contiguous_strides, merge_axes

from .call import Windows
from .geometry import reorder
from .select_mma import MmaShape
from .window_steps import target, u32

__all__ = [
    "PIXELS", "Image", "implicit_gemm", "is_halves", "mma_shape", "pixel_rows", "span", "units",
]  # fmt: skip

WORDS = UNIT // 2  # words of a 16-byte unit
BK = implicit_gemm_mma.CONFIGS["32x32"].BK  # all tiles have this BK
# Axes of packed images (groups, chunks, N, rows, columns, channels). PIXELS are the axes of the
# pixels of all images. Weights are packed as if their taps were the pixels of an image; CHUNKS are
# the axes of the taps and of the chunks of each tap.
PIXELS, CHUNKS = (2, 3, 4), (3, 4, 1)


class Image(NamedTuple):
    """An image (N, groups, C, H, W) of halves, and the part that matrix units read: `size` rows and
    columns from `first` on. Zeros stand outside of the image, and fill the channels up to a
    multiple of `multiple`."""

    v: View
    first: tuple[int, int]
    size: tuple[int, int]
    multiple: int
    even: Ints = ()  # the axes of the result that must merge into one axis
    chunk: int = 0  # channels of a chunk, if a chunk does not have all channels of a pixel


def is_halves(*views: View) -> bool:
    return all(v.dtype.name == "float16" for v in views)


def span(
    out: tuple[int, int], stride: tuple[int, int], taps: tuple[int, int], step: tuple[int, int]
) -> tuple[int, int]:
    """The rows and columns that windows cover, with `step` from one tap to the next."""
    rows, cols = ((out[a] - 1) * stride[a] + (taps[a] - 1) * step[a] + 1 for a in (0, 1))
    return rows, cols


def units(caps: Caps, scratch: Scratch, *images: Image) -> tuple[list[View], list[Step]]:
    """Each image as (groups, chunks, N, rows, columns, channels) in words of two halves, and the
    steps that pack images. An image that has this layout is not copied; one step packs up to two
    images."""
    own = [_as_it_is(image) for image in images]
    packed = [image for image, v in zip(images, own, strict=True) if v is None]
    if not packed:
        return [v for v in own if v is not None], []
    sizes = [math.prod(_shape(image)) for image in packed]
    both = scratch.empty((sum(sizes),), "uint32")
    starts = [0, sizes[0]]
    params: dict[str, int] = {}
    for name, image in zip("xy", packed, strict=False):
        params |= {f"{name}_{key}": n for key, n in _packing(image).items()}
    if len(packed) == 1:
        params |= {f"y_{key[2:]}": 0 for key in params}
    groups = cdiv(params["x_items"], 256)
    step = conv_units.step(
        caps, packed[0].v, packed[1].v if len(packed) > 1 else None, both,
        XP=_pairs(packed[0]), YP=_pairs(packed[-1]), **params, x_groups=groups,
        y_start=starts[1] // WORDS,
    )  # fmt: skip
    made = []
    for image, start in zip(packed, starts, strict=False):
        at = replace(both, offset=both.offset + 4 * start)
        made.append(at.with_layout(_shape(image), _strides(image)))
    return [made.pop(0) if v is None else v for v in own], [step]


def _shape(image: Image) -> tuple[int, ...]:
    n, groups, channels, _, _ = image.v.shape
    count = cdiv(channels, image.multiple) * image.multiple
    chunk = image.chunk or count
    return (groups, count // chunk, n, *image.size, chunk // 2)


def _strides(image: Image) -> tuple[int, ...]:
    """Strides of the packed image: all channels of a pixel lie together."""
    groups, chunks, *pixels, words = _shape(image)
    group, *each, chunk, word = contiguous_strides((groups, *pixels, chunks, words), 4)
    return (group, chunk, *each, word)


def _as_it_is(image: Image) -> View | None:
    v, first, size = image.v, image.first, image.size
    if not lies_so(v, first, size, image.multiple):
        return None
    start = v.offset + first[0] * v.strides[3] + first[1] * v.strides[4]
    own = reorder(replace(v, offset=start), (1, 0, 3, 4, 2))
    shape, own = _shape(image), replace(own, dtype=DTYPES["uint32"])
    own = own.with_layout(shape, (own.strides[0], 4 * shape[5], *own.strides[1:4], 4))
    return own if len(_merged(own, image.even)[0]) == 1 else None


def _merged(v: View, axes: Ints) -> tuple[Ints, Ints]:
    """The sizes and strides of these axes, after merging them into as few axes as possible."""
    strides = tuple(v.strides[a] for a in axes)
    size, (steps,) = merge_axes(tuple(v.shape[a] for a in axes), [strides])
    return size, steps


def _pairs(image: Image) -> int:
    """2 if the pixels of every row and channel can be read two at a time, as words; else 1."""
    v = image.v
    return 2 if v.shape[4] % 2 == 0 and v.vectorizable(2, 4) else 1


def _packing(image: Image) -> dict[str, int]:
    """The params of conv_units for an image."""
    v, (top, left), size = image.v, image.first, image.size
    n, _, channels, height, width = v.shape
    _, chunks, _, _, _, words = _shape(image)
    count = chunks * words // WORDS
    pairs = _pairs(image)
    last = abs(v.strides[2]) < abs(v.strides[4]) or size[0] * size[1] == 1
    first = left // pairs * pairs
    across = (left + size[1] - 1) // pairs - left // pairs + 1
    return {
        "images": n, "channels": channels, "height": height, "width": width,
        "top": u32(top), "left": u32(left), "first": u32(first), "across": across,
        "plane": size[0] * across, "out_w": size[1], "out_plane": size[0] * size[1],
        "units": count, "near": count if last else 2 if count % 2 == 0 else 1,
        "items": v.shape[0] * v.shape[1] * size[0] * across * count,
    }  # fmt: skip


def lies_so(v: View, first: tuple[int, int], size: tuple[int, int], multiple: int) -> bool:
    """True if the channels of a pixel are neighbours in whole units, and no pixel is outside."""
    return (
        v.shape[2] % multiple == 0
        and v.vectorizable(UNIT, 2)
        and all(first[a] >= 0 and first[a] + size[a] <= v.shape[3 + a] for a in (0, 1))
    )


def pixel_rows(v: View) -> View:
    """The units as a view (groups, pixels of all images, channels); the pixels must lie at equal
    steps."""
    size, step = _merged(v, PIXELS)
    return v.with_layout((v.shape[0], size[0], v.shape[5]), (v.strides[0], step[0], 4))


def thinned(c: Windows) -> Windows:
    """For windows of one tap, the image without the pixels that the stride skips, so that only
    pixels in use are packed."""
    out = c.dst.shape[3:]
    last = [c.origin[a] + (out[a] - 1) * c.stride[a] for a in (0, 1)]
    inside = all(c.origin[a] >= 0 and last[a] < c.x.shape[3 + a] for a in (0, 1))
    if c.w.shape[3:] != (1, 1) or c.stride == (1, 1) or not inside:
        return c
    x, (rows, cols) = c.x, c.x.strides[3:]
    x = replace(
        x, shape=(*x.shape[:3], *out), offset=x.offset + c.origin[0] * rows + c.origin[1] * cols,
        strides=(*x.strides[:3], rows * c.stride[0], cols * c.stride[1]),
    )  # fmt: skip
    return replace(c, x=x, origin=(0, 0), stride=(1, 1))


def mma_shape(caps: Caps, c: Windows) -> MmaShape | None:
    """The product of a call; None if matrix units cannot compute it."""
    if caps.matrix is None or not is_halves(c.x, c.w):
        return None
    c = thinned(c)
    n, groups, channels, _, _ = c.x.shape
    taps = c.w.shape[3] * c.w.shape[4]
    padded = cdiv(channels, BK) * BK
    size = _span(c)
    image = 0 if lies_so(c.x, c.origin, size, BK) else 2 * groups * n * size[0] * size[1] * padded
    weights = 2 * groups * c.rows * taps * padded
    if image + weights > caps.max_binding:
        return None
    last = c.dst.vectorizable(4, 2)
    rows, cols = (c.pixels, c.rows) if last else (c.rows, c.pixels)
    return MmaShape(groups, rows, cols, taps * padded, image + weights, c.dst.size)


def _span(c: Windows) -> tuple[int, int]:
    return span((c.dst.shape[3], c.dst.shape[4]), c.stride, (c.w.shape[3], c.w.shape[4]), c.tap)


def implicit_gemm(caps: Caps, scratch: Scratch, c: Windows, tile: str, splits: int) -> list[Step]:
    """The step of implicit_gemm_mma; `tile` is its configuration."""
    assert caps.matrix is not None
    c, own = thinned(c), implicit_gemm_mma.CONFIGS[tile]
    kernel = (c.w.shape[3], c.w.shape[4])
    # The weights are packed as images of taps, one image for each output channel.
    (image, w), before = units(
        caps, scratch, Image(c.x, c.origin, _span(c), BK, chunk=BK),
        Image(reorder(c.w, (1, 0, 2, 3, 4)), (0, 0), kernel, BK, even=CHUNKS, chunk=BK),
    )  # fmt: skip
    groups, chunks = w.shape[:2]
    size, apart = _merged(w, CHUNKS)
    depth = size[0] * BK
    k = w.with_layout((groups, size[0], c.rows, BK // 2), (w.strides[0], apart[0], w.strides[2], 4))
    splits, each = split_k(depth, splits, BK)
    longest = depth if c.in_one_piece else longest_sum(c.depth, BK)
    t = target(caps, scratch, c, splits)
    out, vec = _flat(t.out)
    last = not vec and t.out.vectorizable(4, 3)
    pixels, rows = (own.BM, own.BN) if last else (own.BN, own.BM)
    _, _, _, row, col, _ = image.strides
    step = implicit_gemm_mma.step(
        caps, image, k, t.bias, t.out if last else out,
        MMA=caps.matrix.dialect, TILE=tile, COLUMNS="channels" if last else "pixels",
        DV=4 if vec or last else 1, rows=c.rows, pixels=c.pixels,
        plane=c.dst.shape[3] * c.dst.shape[4], out_w=c.dst.shape[4],
        dst_w=c.dst.shape[4] if last else out.shape[5], depth=depth, split_depth=each,
        splits=splits, slice=longest, across=cdiv(c.pixels, pixels),
        down=cdiv(c.rows, rows), chunks=chunks, kernel_w=kernel[1], stride_h=c.stride[0],
        stride_w=c.stride[1], tap_h=u32(c.tap[0] * row // 16), tap_w=u32(c.tap[1] * col // 16),
        **t.epilogue,
    )  # fmt: skip
    return [*before, step, *t.after]


def _flat(v: View) -> tuple[View, bool]:
    """The view, in which a plane is one row if its pixels lie at equal steps; and True if 4 pixels
    form a vector."""
    size, (step,) = merge_axes(v.shape[4:], [v.strides[4:]])
    if len(size) == 1:
        v = v.with_layout((*v.shape[:4], 1, size[0]), (*v.strides[:4], 0, step[0]))
    return v, v.vectorizable(4, 5)
