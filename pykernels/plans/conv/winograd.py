"""Convolutions of 3 x 3 taps by Winograd's method: transforms of image and weights, products, and
the transform back.

A tile of M x M pixels needs (M + 2)^2 products for each pair of channels instead of 9 M^2.
"""

from __future__ import annotations

from pykernels._generated.bodies import winograd_output, winograd_pack
from pykernels.plans.matmul import mul_mat
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .call import Windows
from .select_winograd import TILES, WinogradShape, fits, sizes
from .window_steps import u32

__all__ = ["shape_of", "winograd"]


def shape_of(caps: Caps, c: Windows) -> WinogradShape | None:
    """The numbers that the choice depends on; None if no tile can serve this call."""
    own = (
        c.w.shape[3:] == (3, 3) and c.stride == (1, 1) and c.tap == (1, 1) and c.groups == 1
    )  # fmt: skip
    if not own:
        return None
    n, _, rows, height, width = c.dst.shape
    nbytes = sum(v.size * v.dtype.itemsize for v in (c.x, c.w, c.dst))
    s = WinogradShape(
        n, c.x.shape[2], rows, height, width, nbytes, _channels_last(_of_one_group(c.dst)),
        c.precision == "fast" and c.x.dtype.name == "float32",
    )  # fmt: skip
    return s if any(fits(caps, s, body) for body in TILES) else None


def winograd(caps: Caps, scratch: Scratch, c: Windows, s: WinogradShape, body: str) -> list[Step]:
    """The steps, at least three dispatches; `body` is one of TILES."""
    m, own = TILES[body], sizes(s, body)
    down, across = cdiv(s.height, m), cdiv(s.width, m)
    x, w, dst = _of_one_group(c.x), _weights(c.w), _of_one_group(c.dst)
    image = _pixels_by_channels(
        scratch, own.products, s.channels, own.padded_tiles, _channels_last(x)
    )
    weights = scratch.empty((own.products, s.channels, own.padded_rows), "float32")
    sums = _pixels_by_channels(
        scratch, own.products, own.padded_rows, own.padded_tiles, _channels_last(dst)
    )
    pack = winograd_pack.step(
        caps, x, w, image, weights, M=m, tiles=own.tiles, tiles_h=down, tiles_w=across,
        channels_last=int(_channels_last(x)), y_first=u32(c.origin[0]), x_first=u32(c.origin[1]),
        image_groups=cdiv(s.channels * own.padded_tiles, 128),
    )  # fmt: skip
    product = mul_mat.plan(
        caps, scratch, _exchanged(weights), _exchanged(image), None, None, _exchanged(sums)
    )
    residual = None if c.residual is None else _of_one_group(c.residual)
    output = winograd_output.step(
        caps, _exchanged(sums), c.bias, residual, dst, M=m, DV=m if dst.vectorizable(m, 3) else 1,
        tiles=own.tiles, tiles_h=down, tiles_w=across, channels_last=int(_channels_last(dst)),
        activation=c.activation,
    )  # fmt: skip
    return [pack, *product, output]


def _of_one_group(v: View) -> View:
    """The view (N, 1, C, H, W) as (N, C, H, W)."""
    return v.with_layout((v.shape[0], *v.shape[2:]), (v.strides[0], *v.strides[2:]))


def _weights(v: View) -> View:
    """The view (1, O, C, 3, 3) as (O, C, 3, 3)."""
    return v.with_layout(v.shape[1:], v.strides[1:])


def _channels_last(v: View) -> bool:
    return abs(v.strides[1]) < abs(v.strides[3])


def _exchanged(v: View) -> View:
    """The view with its last two axes exchanged."""
    (count, rows, cols), (each, row, col) = v.shape, v.strides
    return v.with_layout((count, cols, rows), (each, col, row))


def _pixels_by_channels(
    scratch: Scratch, count: int, channels: int, tiles: int, channels_last: bool
) -> View:
    """Scratch (count, channels, tiles), in which channels or tiles are neighbours in memory."""
    if channels_last:
        return _exchanged(scratch.empty((count, tiles, channels), "float32"))
    return scratch.empty((count, channels, tiles), "float32")
