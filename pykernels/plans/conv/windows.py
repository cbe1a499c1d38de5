"""Plans calls of `Windows`: conv2d, its input gradient, conv_transpose2d."""

from __future__ import annotations

from pykernels._generated.ops import ACTIVATIONS
from pykernels.plans.cost import tile_of
from pykernels.plans.matmul import mul_mat
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Ints, View, merge_axes

from . import matrix, winograd
from .call import Windows
from .select import BK, STEM, STEM_TILES, TILES, TILES_3X3, ConvShape, choose, packs
from .select_mma import TILES as TILES_MMA
from .select_winograd import TILES as TILES_WINOGRAD
from .window_steps import (
    Weights,
    depthwise,
    direct,
    implicit_gemm,
    implicit_gemm_3x3,
    reduce,
    stem,
    stem_config,
)

__all__ = ["shape_of", "steps"]


def shape_of(caps: Caps, c: Windows) -> ConvShape:
    """The numbers that the choice of a body depends on."""
    height, width = c.dst.shape[3:]
    native = _native(caps, c) is not None
    forms = tuple(_form(c, body, native)[0] for body in TILES)
    stem = STEM_TILES[STEM]  # at least half of the area of conv_stem's blocks must be pixels
    block = stem.PIXEL_ROWS * stem.PIXEL_COLS
    blocks = cdiv(height, stem.PIXEL_ROWS) * cdiv(width, stem.PIXEL_COLS)
    few = c.w.shape[2] <= caps.tuning.conv.conv_stem.channels
    fits_stem = few and bool(stem_config(c, stem.BM)) and 2 * height * width >= block * blocks
    fits_3x3 = not native and _vectors_3x3(c) > 0
    mma = matrix.mma_shape(caps, c)
    own = winograd.shape_of(caps, c)
    return ConvShape(
        c.groups, c.rows, c.pixels, c.depth, forms, fits_3x3, fits_stem, mma=mma, winograd=own
    )


def steps(caps: Caps, scratch: Scratch, c: Windows) -> list[Step]:
    """The dispatches of one call."""
    if c.dst.size == 0:
        return []
    if c.x.size == 0 or c.w.size == 0:
        return [reduce(caps, scratch.empty((1,), "float32"), c, 0)]
    product = _product(caps, scratch, c)
    if product is not None:
        return product
    shape = shape_of(caps, c)
    choice = choose(caps, shape)
    body = choice.body
    if body in TILES_WINOGRAD and shape.winograd is not None:
        return winograd.winograd(caps, scratch, c, shape.winograd, body)
    if body == "conv_direct":
        return depthwise(caps, scratch, c) or direct(caps, scratch, c)
    tile = tile_of(body)
    if body in STEM_TILES:
        return stem(caps, scratch, c, stem_config(c, STEM_TILES[body].BM))
    if body in TILES_3X3:
        return implicit_gemm_3x3(caps, scratch, c, tile, _vectors_3x3(c), choice.splits)
    if body in TILES_MMA:
        return matrix.implicit_gemm(caps, scratch, c, tile, choice.splits)
    native = _native(caps, c)
    form = _form(c, body, native is not None)
    return implicit_gemm(caps, scratch, c, tile, form, choice.splits, native)


# -- 1x1: a plain product -------------------------------------------------------------------------


def _product(caps: Caps, scratch: Scratch, c: Windows) -> list[Step] | None:
    """A 1x1 convolution as a matrix product, if its pixels lie at equal steps in memory."""
    if c.w.shape[3:] != (1, 1) or c.stride != (1, 1) or c.origin != (0, 0):
        return None
    if c.x.shape[3:] != c.dst.shape[3:]:
        return None
    n, groups, channels, *image = c.dst.shape
    views = [v for v in (c.x, c.dst, c.residual) if v is not None]
    size, each = _merged((n, *image), views, (0, 3, 4))
    lead: Ints = (groups,)
    if len(size) != 1:
        size, each = _merged(tuple(image), views, (3, 4))
        lead = (n, groups)
        if len(size) != 1 or (size[0] < caps.tuning.conv.product_pixels and n > 1):
            return None
    keep = (0, 1) if len(lead) == 2 else (1,)

    def matrix(v: View, step: Ints) -> View:
        """The view of an image as (lead, pixels, channels)."""
        strides = (*(v.strides[a] for a in keep), step[0], v.strides[2])
        return v.with_layout((*lead, size[0], v.shape[2]), strides)

    w = c.w.with_layout(
        (*lead, channels, c.w.shape[2]), (*(0,) * (len(lead) - 1), *c.w.strides[:3])
    )
    bias = None
    if c.bias is not None:
        step = c.bias.strides[0]
        strides = (*(0,) * (len(lead) - 1), channels * step, 0, step)
        bias = c.bias.with_layout((*lead, size[0], channels), strides)
    name = next((k for k, v in ACTIVATIONS.items() if v == c.activation), None)
    x, dst, *more = [matrix(v, step) for v, step in zip(views, each, strict=True)]
    precision, halves = c.precision, {c.x.dtype.name, c.w.dtype.name} == {"float16"}
    if precision == "fast" and not (caps.matrix and halves):
        precision = None  # because no operand of a convolution may be rounded
    return mul_mat.plan(caps, scratch, w, x, bias, more[0] if more else None, dst, name, precision)


def _merged(shape: Ints, views: list[View], axes: Ints) -> tuple[Ints, list[Ints]]:
    return merge_axes(shape, [tuple(v.strides[a] for a in axes) for v in views])


# -- how a body may load the image and the weights ------------------------------------------------


def _form(c: Windows, body: str, native: bool) -> tuple[str, int]:
    """The form in which a tile loads the image, and its vector width: see implicit_gemm.wgsl."""
    tile = TILES[body]
    n = 4 * tile.BN // tile.threads  # how many k one invocation loads
    if native or c.w.shape[2] % BK:
        return "any", 1
    return ("vec", n) if c.x.vectorizable(n, 2) else ("taps", 1)


def _vectors_3x3(c: Windows) -> int:
    """The pixels in a vector if implicit_gemm_3x3.wgsl can read the image in vectors, else 0."""
    if c.w.shape[3:] != (3, 3):
        return 0
    height, width = c.dst.shape[3:]
    same = (
        c.stride[1] == c.tap[1] == 1 and c.origin[1] == -1 and c.x.shape[4] == width
        and height * width % 4 == 0
    )  # fmt: skip
    if same and c.x.vectorizable(4, 4) and c.dst.vectorizable(4, 4):
        return 4
    item = c.dst.dtype.itemsize
    plane = c.dst.strides[4] == item and c.dst.strides[3] == width * item
    if same and c.x.vectorizable(2, 4) and plane and c.dst.aligned(4 * item, (0, 1, 2)):
        return 2
    return 0


def _native(caps: Caps, c: Windows) -> Weights | None:
    """The weights without repacking, if k has a single stride in them and repacking would not save
    time; else None."""
    if packs(caps, c.operations) or c.w.dtype.name not in ("float32", c.x.dtype.name):
        return None
    for order in ("cij", "ijc"):
        axes = [2 + "cij".index(d) for d in order]
        shape = tuple(c.w.shape[a] for a in axes)
        size, (step,) = merge_axes(shape, [tuple(c.w.strides[a] for a in axes)])
        if len(size) == 1:
            b = c.w.with_layout((*c.w.shape[:2], size[0]), (*c.w.strides[:2], step[0]))
            return Weights(b, False, order, [])
    return None
