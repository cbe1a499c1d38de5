"""Sums over windows of images: conv2d, its input gradient, conv_transpose2d."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pykernels._generated.ops import ACTIVATIONS
from pykernels.layout import Ints, View, merge_axes
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.matmul import mul_mat

from .window_steps import (
    DEEP,
    Weights,
    depthwise,
    direct,
    finish,
    first,
    rows,
    tiles,
    vectors,
    window,
)

__all__ = [
    "FIRST_TILES", "ROW_TILES", "TILES", "Choice", "Shape", "Windows", "choose", "steps",
]  # fmt: skip

# The tiles of implicit_gemm.wgsl: output channels, pixels, k's of one invocation.
TILES = {
    "32x32": (32, 32, 2),
    "64x32": (64, 32, 1),  # form "any" only
    "64x64": (64, 64, 2),
    "64x128": (64, 128, 4),
    "128x64": (128, 64, 2),
    "128x128": (128, 128, 2),
}
# The tiles of implicit_gemm_3x3.wgsl by the names of choices: name there, channels, pixels.
ROW_TILES = {"rows96": ("64x96", 64, 96), "rows128": ("64x128", 64, 128)}
# The tiles of conv_stem.wgsl in the same way: 8 x 16 pixels.
FIRST_TILES = {"first16": ("16x128", 16, 128), "first32": ("32x128", 32, 128)}
# Up to this many output channels of a group are summed straight from the image.
FEW = 4
# Below this many operations, repacked weights save less than the repacking takes.
PACK_FROM = 1e9
# One large GPU: multiprocessors, and TFLOP/s of each form and tile where they fill it (measured).
UNITS = 132
SPEED = {
    "taps": {"32x32": 27.0, "64x64": 37.0, "64x128": 40.0, "128x64": 40.0, "128x128": 46.3},
    "vec": {"32x32": 20.0, "64x64": 36.0, "64x128": 36.0, "128x64": 39.0, "128x128": 41.0},
    "any": {
        "32x32": 22.0, "64x32": 25.5, "64x64": 27.0, "64x128": 30.0, "128x64": 33.0,
        "128x128": 37.0,
    },
}  # fmt: skip
INVOCATIONS = {
    "32x32": 64, "64x32": 128, "64x64": 128, "64x128": 128, "128x64": 128, "128x128": 256,
}  # fmt: skip
# The same for implicit_gemm_3x3, and the time of a wave of workgroups with none, one, two, ...
# of them on each multiprocessor: three warps are shared badly by four schedulers, so that the
# smaller tile is fast with four. START: k that starting a workgroup costs.
ROW_SPEED = {"rows96": 45.5, "rows128": 49.4}
ROW_WAVE = {"rows96": (0.0, 0.5, 0.7, 0.97, 1.0), "rows128": (0.0, 0.57, 0.73, 1.0)}
START = 64


@dataclass(frozen=True)
class Windows:
    """dst[n, g, o, y, x'] = act(scale * s + bias[g O + o]) with s the sum over c, i, j of
    x[n, g, c, y stride + first + i tap, x' stride + first + j tap] * w[g, o, c, i, j].

    x counts as 0 outside of the image. Pairs are (rows, columns).
    """

    x: View  # (N, groups, C, H, W)
    w: View  # (groups, O, C, KH, KW)
    bias: View | None  # (groups * O,)
    dst: View  # (N, groups, O, OH, OW)
    first: tuple[int, int]
    stride: tuple[int, int]
    tap: tuple[int, int]
    act: int

    @property
    def shape(self) -> Shape:
        n, groups, rows, height, width = self.dst.shape
        forms = tuple(_form(self, tile)[0] for tile in TILES)
        depth = math.prod(self.w.shape[2:])
        three = bool(_row_vectors(self))
        blocks = cdiv(height, 8) * cdiv(width, 16)  # of conv_stem; the least that must be pixels
        first = bool(window(self)) and 2 * height * width >= 128 * blocks
        return Shape(groups, rows, n * height * width, depth, forms, three, first)

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


class Shape(NamedTuple):
    """What a choice depends on, apart from the device: a product for each group."""

    groups: int
    rows: int  # output channels of a group
    pixels: int  # of all images
    depth: int  # taps and channels of a window
    forms: tuple[str, ...] = ("taps",) * len(TILES)  # how each tile would load the image
    three: bool = False  # may implicit_gemm_3x3 do it?
    first: bool = False  # may conv_stem?
    few: bool = False  # may conv_few_outputs?


class Choice(NamedTuple):
    """A body ("direct", or a tile by its name here) and the number of slices of its sums."""

    body: str
    slices: int = 1


def choose(caps: Caps, s: Shape) -> Choice:
    """The body and the slices for one call."""
    if s.few:
        return Choice("few")
    if (
        s.rows <= FEW
        and (s.depth <= 1024 or s.groups * s.pixels >= 1 << 17)
        and s.depth < MAX_ROUNDS
    ):
        return Choice("direct")
    if s.first and not (s.three and s.depth >= 27 and s.groups * s.pixels >= 1 << 17):
        wide = s.rows > 16 and _tiles(s, "first32") >= 4 * UNITS
        return Choice("first32" if wide else "first16")
    if caps.max_invocations < 1024:  # WebGPU's defaults: small devices and software drivers
        groups = _tiles(s, "32x32")
        return Choice("32x32", max(1, min(cdiv(64, groups), s.depth // 256)))
    own = [tile for tile, form in zip(TILES, s.forms, strict=True) if tile in SPEED[form]]
    found = [
        (_seconds(s, tile, slices), slices, tile)
        for tile in (*own, *(ROW_TILES if s.three else ()))
        for slices in range(1, max(1, min(s.depth // 128, 32)) + 1)
    ]
    _, slices, tile = min(found)
    return Choice(tile, slices)


def _tiles(s: Shape, tile: str) -> int:
    own = FIRST_TILES if tile in FIRST_TILES else ROW_TILES
    rows, cols = own[tile][1:] if tile in own else TILES[tile][:2]
    return s.groups * cdiv(s.rows, rows) * cdiv(s.pixels, cols)


def _seconds(s: Shape, tile: str, slices: int) -> float:
    """An estimate of one call without the repacking."""
    work = (_row_seconds if tile in ROW_TILES else _tile_seconds)(s, tile, slices)
    parts = s.groups * s.rows * s.pixels * 4 * slices
    return work + (3e-6 + 2 * parts / 3.5e12 if slices > 1 else 0.0)


def _tile_seconds(s: Shape, tile: str, slices: int) -> float:
    """Each multiprocessor works off its workgroups, slowly where they are few."""
    rows, cols, _ = TILES[tile]
    form = s.forms[list(TILES).index(tile)]
    each = _tiles(s, tile) * slices / UNITS
    if each < 8:  # with more, a multiprocessor that is ready early takes the work of others
        each = math.ceil(each)
    depth = cdiv(cdiv(s.depth, slices), DEEP) * DEEP + (8 if form == "any" else 4) * DEEP
    idle = max(1.0, math.sqrt(math.sqrt(256 / (each * INVOCATIONS[tile]))))
    return each * 2 * rows * cols * depth * UNITS / (SPEED[form][tile] * 1e12) * idle


def _row_seconds(s: Shape, tile: str, slices: int) -> float:
    """Whole waves of workgroups, and the rest."""
    _, rows, cols = ROW_TILES[tile]
    wave = ROW_WAVE[tile]
    most = len(wave) - 1
    each = _tiles(s, tile) * slices / UNITS
    if each < 8:
        waves, rest = divmod(math.ceil(each), most)
        each = most * (waves + wave[rest])
    depth = 9 * cdiv(s.depth // 9, slices) + START
    return each * 2 * rows * cols * depth * UNITS / (ROW_SPEED[tile] * 1e12)


def steps(caps: Caps, scratch: Scratch, c: Windows) -> list[Step]:
    """The dispatches of one call."""
    if c.dst.size == 0:
        return []
    if c.x.size == 0 or c.w.size == 0:
        return [finish(caps, scratch.empty((1,), "float32"), c, 0)]
    product = _product(caps, scratch, c)
    if product is not None:
        return product
    choice = choose(caps, c.shape)
    if choice.body == "direct":
        return depthwise(caps, scratch, c) or [direct(caps, c)]
    if choice.body in FIRST_TILES:
        return [first(caps, c, FIRST_TILES[choice.body][:2])]
    if choice.body in ROW_TILES:
        return rows(caps, scratch, c, ROW_TILES[choice.body], _row_vectors(c), choice.slices)
    tile = (choice.body, *TILES[choice.body][:2])
    form = _form(c, choice.body)
    return tiles(caps, scratch, c, tile, form, choice.slices, _native(c))


# -- 1x1: a plain product -------------------------------------------------------------------------


def _product(caps: Caps, scratch: Scratch, c: Windows) -> list[Step] | None:
    """A 1x1 convolution as a matrix product, where pixels lie evenly in x and dst."""
    if c.w.shape[3:] != (1, 1) or c.stride != (1, 1) or c.first != (0, 0):
        return None
    if c.x.shape[3:] != c.dst.shape[3:]:
        return None
    n, groups, channels, *image = c.dst.shape
    size, (x_step, dst_step) = _merged((n, *image), c.x, c.dst, (0, 3, 4))
    lead: Ints = (groups,)
    if len(size) != 1:
        size, (x_step, dst_step) = _merged(tuple(image), c.x, c.dst, (3, 4))
        lead = (n, groups)
        if len(size) != 1 or (size[0] < 512 and n > 1):
            return None
    keep = (0, 1) if len(lead) == 2 else (1,)

    def matrix(v: View, step: Ints) -> View:
        """(lead, pixels, channels) of x or dst."""
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
    name = next((k for k, v in ACTIVATIONS.items() if v == c.act), None)
    return mul_mat.plan(
        caps, scratch, w, matrix(c.x, x_step), bias, None, matrix(c.dst, dst_step), name
    )


def _merged(shape: Ints, x: View, dst: View, axes: Ints) -> tuple[Ints, list[Ints]]:
    return merge_axes(shape, [tuple(v.strides[a] for a in axes) for v in (x, dst)])


# -- how a body may load the image and the weights ------------------------------------------------


def _form(c: Windows, tile: str) -> tuple[str, int]:
    """How a tile loads the image, and its vectors: see implicit_gemm.wgsl."""
    item, channels, per = c.x.dtype.itemsize, c.w.shape[2], TILES[tile][2]
    if _native(c):
        return "any", 1
    if channels % DEEP:
        return "any", 1
    if c.x.strides[2] == item and c.x.aligned(per * item, (0, 1, 3, 4)):
        return "vec", per
    return "taps", 1


def _row_vectors(c: Windows) -> int:
    """Pixels of a vector where implicit_gemm_3x3.wgsl may read the image so, else 0."""
    if _native(c) or c.w.shape[3:] != (3, 3):
        return 0
    height, width = c.dst.shape[3:]
    same = (
        c.stride[1] == c.tap[1] == 1 and c.first[1] == -1 and c.x.shape[4] == width
        and height * width % 4 == 0
    )  # fmt: skip
    if same and vectors(c.x, 4, 4) and vectors(c.dst, 4, 4):
        return 4
    item = c.dst.dtype.itemsize
    plane = c.dst.strides[4] == item and c.dst.strides[3] == width * item
    if same and vectors(c.x, 4, 2) and plane and c.dst.aligned(4 * item, (0, 1, 2)):
        return 2
    return 0


def _native(c: Windows) -> Weights | None:
    """The weights as they are, if their k have one step and repacking would not pay."""
    if c.operations >= PACK_FROM or c.w.dtype.name not in ("float32", c.x.dtype.name):
        return None
    for order in ("cij", "ijc"):
        axes = [2 + "cij".index(d) for d in order]
        shape = tuple(c.w.shape[a] for a in axes)
        size, (step,) = merge_axes(shape, [tuple(c.w.strides[a] for a in axes)])
        if len(size) == 1:
            b = c.w.with_layout((*c.w.shape[:2], size[0]), (*c.w.strides[:2], step[0]))
            return Weights(b, False, order, [])
    return None
