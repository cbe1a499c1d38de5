"""Sums over windows of images: conv2d, its input gradient, conv_transpose2d."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pykernels._generated.bodies import conv2d_direct, conv2d_pack, conv2d_tile, mul_mat_sum
from pykernels.layout import Ints, View, merge_axes
from pykernels.plan import Caps, Scratch, Step, cdiv

from . import mul_mat
from ._conv import reorder

__all__ = ["TILES", "Choice", "Shape", "Windows", "choose", "steps"]

# The tiles of conv2d_tile.wgsl: output channels, pixels, k's of one invocation.
TILES = {
    "32x32": (32, 32, 2),
    "64x64": (64, 64, 2),
    "64x128": (64, 128, 4),
    "128x64": (128, 64, 2),
    "128x128": (128, 128, 2),
}
DEEP = 16  # k of a tile
ROW_CHANNELS = {"64x128": 4, "64x64": 8}  # tiles with form "row": channels of a tile, each 3 k
# One invocation loops at most this often: a software driver ends all loops after 65,535 rounds.
MAX_ROUNDS = 30_000
# Up to this many output channels of a group are summed straight from the image.
FEW = 4
# Below this many operations, repacked weights save less than the repacking takes.
PACK_FROM = 1e9
# One large GPU: multiprocessors, and TFLOP/s of each form and tile where they fill it (measured).
UNITS = 132
SPEED = {
    "row": {"64x64": 41.5, "64x128": 44.5},
    "taps": {"32x32": 27.0, "64x64": 37.0, "64x128": 40.0, "128x64": 40.0, "128x128": 45.5},
    "vec": {"32x32": 20.0, "64x64": 36.0, "64x128": 36.0, "128x64": 39.0, "128x128": 41.0},
    "any": {"32x32": 22.0, "64x64": 27.0, "64x128": 30.0, "128x64": 33.0, "128x128": 37.0},
}
INVOCATIONS = {"32x32": 64, "64x64": 128, "64x128": 128, "128x64": 128, "128x128": 256}


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
        return Shape(groups, rows, n * height * width, math.prod(self.w.shape[2:]), forms)

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


class Choice(NamedTuple):
    """A body ("direct" or a tile of conv2d_tile.wgsl) and the number of slices of its sums."""

    body: str
    slices: int = 1


def choose(caps: Caps, s: Shape) -> Choice:
    """The body and the slices for one call."""
    if (
        s.rows <= FEW
        and (s.depth <= 1024 or s.groups * s.pixels >= 1 << 17)
        and s.depth < MAX_ROUNDS
    ):
        return Choice("direct")
    if caps.max_invocations < 1024:  # WebGPU's defaults: small devices and software drivers
        groups = _tiles(s, "32x32")
        return Choice("32x32", max(1, min(cdiv(64, groups), s.depth // 256)))
    found = [
        (_seconds(s, tile, slices), slices, tile)
        for tile in TILES
        for slices in range(1, max(1, min(s.depth // 128, 32)) + 1)
    ]
    _, slices, tile = min(found)
    return Choice(tile, slices)


def _tiles(s: Shape, tile: str) -> int:
    rows, cols, _ = TILES[tile]
    return s.groups * cdiv(s.rows, rows) * cdiv(s.pixels, cols)


def _seconds(s: Shape, tile: str, slices: int) -> float:
    """An estimate: each multiprocessor works off its workgroups, slowly where they are few."""
    rows, cols, _ = TILES[tile]
    form = s.forms[list(TILES).index(tile)]
    each = _tiles(s, tile) * slices / UNITS
    if each < 8:  # with more, a multiprocessor that is ready early takes the work of others
        each = math.ceil(each)
    depth = cdiv(cdiv(s.depth, slices), DEEP) * DEEP + (8 if form == "any" else 4) * DEEP
    idle = max(1.0, math.sqrt(math.sqrt(256 / (each * INVOCATIONS[tile]))))
    speed = SPEED[form][tile] * 1e12
    work = each * 2 * rows * cols * depth * UNITS / speed * idle
    parts = s.groups * s.rows * s.pixels * 4 * slices
    return work + (3e-6 + 2 * parts / 3.5e12 if slices > 1 else 0.0)


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
        return [_direct(caps, c)]
    return _tiled(caps, scratch, c, choice)


def finish(caps: Caps, parts: View, c: Windows, slices: int) -> Step:
    """The sum of the slices, and the epilogue. The parts have the axes of `_by_steps`."""
    order = _by_steps(c.dst)
    bias = c.spread_bias and reorder(c.spread_bias, order)
    dst = reorder(c.dst, order)
    return mul_mat_sum.step(caps, parts, bias, None, dst, slices=slices, act=c.act)


def _by_steps(v: View) -> Ints:
    """The axes of a view from the largest step to the smallest."""
    return tuple(sorted(range(v.ndim), key=lambda a: -abs(v.strides[a])))


# -- 1x1: a plain product -------------------------------------------------------------------------


def _product(caps: Caps, scratch: Scratch, c: Windows) -> list[Step] | None:
    """A 1x1 convolution as a matrix product, where pixels lie evenly in x and dst."""
    if c.w.shape[3:] != (1, 1) or c.stride != (1, 1) or c.first != (0, 0):
        return None
    if c.x.shape[3:] != c.dst.shape[3:]:
        return None
    n, groups, rows, *image = c.dst.shape
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

    w = c.w.with_layout((*lead, rows, c.w.shape[2]), (*(0,) * (len(lead) - 1), *c.w.strides[:3]))
    bias = None
    if c.bias is not None:
        step = c.bias.strides[0]
        strides = (*(0,) * (len(lead) - 1), rows * step, 0, step)
        bias = c.bias.with_layout((*lead, size[0], rows), strides)
    name = next((k for k, v in mul_mat.ACTIVATIONS.items() if v == c.act), None)
    return mul_mat.plan(
        caps, scratch, w, matrix(c.x, x_step), bias, None, matrix(c.dst, dst_step), name
    )


def _merged(shape: Ints, x: View, dst: View, axes: Ints) -> tuple[Ints, list[Ints]]:
    return merge_axes(shape, [tuple(v.strides[a] for a in axes) for v in (x, dst)])


# -- tiles ----------------------------------------------------------------------------------------


class _K(NamedTuple):
    """The weights as rows of k, and the order of channels, tap rows and tap columns in k."""

    b: View  # (groups, rows, depth), or in vectors of rows (groups, depth, rows)
    packed: bool
    order: str  # of "c", "i" (tap rows) and "j" (tap columns), the highest digit first
    before: list[Step]


def _tiled(caps: Caps, scratch: Scratch, c: Windows, choice: Choice) -> list[Step]:
    s, tile = c.shape, choice.body
    rows, cols, _ = TILES[tile]
    form, vec = _form(c, tile)
    deep = 3 * ROW_CHANNELS[tile] if form == "row" else DEEP
    fit = max(caps.max_binding // (4 * c.dst.size), 1)  # their scratch is one binding
    slices = max(min(choice.slices, fit), cdiv(s.depth, deep * MAX_ROUNDS))
    each = cdiv(cdiv(s.depth, slices), deep) * deep
    slices = cdiv(s.depth, each)
    k = _native(c) or _packed(caps, scratch, c, form)
    out, raw, after = c.dst, 0, []
    if slices > 1 or (c.x.dtype.itemsize > c.dst.dtype.itemsize):
        order = _by_steps(c.dst)
        out = scratch.empty((slices, *(c.dst.shape[a] for a in order)), "float32")
        raw, after = 1, [finish(caps, out, c, slices)]
        out = reorder(out, (0, *(1 + order.index(a) for a in range(5))))
    dv = 4 if form == "row" or (form == "vec" and _vectors(out, out.ndim - 3, 4)) else 1
    slice_step, *dst_steps = _elements(out, dv) if raw else (0, *_elements(out, dv))
    n_s, g_s, _, h_s, w_s = _elements(c.x, vec)
    b_g, b_r, b_c = _elements(k.b, 4 if k.packed else 1)
    step = conv2d_tile.step(
        caps, c.x, k.b, None if raw else c.bias, out,
        TILE=tile, FORM=form, AV=vec, BV=4 if k.packed else 1, DV=dv,
        rows=s.rows, pixels=s.pixels, plane=c.dst.shape[3] * c.dst.shape[4],
        out_w=c.dst.shape[4], depth=s.depth, slice_depth=each, slices=slices,
        across=cdiv(s.pixels, cols), down=cdiv(s.rows, rows),
        height=c.x.shape[3], width=c.x.shape[4], stride_h=c.stride[0], stride_w=c.stride[1],
        y_first=_u32(c.first[0]), x_first=_u32(c.first[1]), **_digits(c, k.order, vec),
        a_gs=_u32(g_s), a_ns=_u32(n_s), a_hs=_u32(h_s), a_ws=_u32(w_s),
        b_gs=_u32(b_g), b_rs=_u32(b_r), b_cs=_u32(b_c),
        dst_ss=_u32(slice_step), dst_ns=_u32(dst_steps[0]), dst_os=_u32(dst_steps[2]),
        dst_hs=_u32(dst_steps[3]), dst_ws=_u32(dst_steps[4]),
        bias_os=0 if c.bias is None else _u32(_elements(c.bias)[0]),
        act=0 if raw else c.act, raw=raw,
    )  # fmt: skip
    return [*k.before, step, *after]


def _digits(c: Windows, order: str, vec: int) -> dict[str, int]:
    """The digits of k: radix, steps of the index, the row and the column; and 16 in digits."""
    _, _, c_s, h_s, w_s = _elements(c.x, vec)
    (th, tw), (kh, kw) = c.tap, c.w.shape[3:]
    digits = {
        "c": (c.w.shape[2], c_s, 0, 0),
        "i": (kh, th * h_s, th, 0),
        "j": (kw, tw * w_s, 0, tw),
    }
    high, mid, low = (digits[d] for d in order)
    return {
        "n0": low[0], "n1": mid[0],
        "e0": _u32(low[1]), "e1": _u32(mid[1]), "e2": _u32(high[1]),
        "dy1": _u32(mid[2]), "dy2": _u32(high[2]), "dx0": _u32(low[3]), "dx1": _u32(mid[3]),
        "step0": DEEP % low[0], "step1": DEEP // low[0] % mid[0],
        "step2": DEEP // low[0] // mid[0],
    }  # fmt: skip


def _form(c: Windows, tile: str) -> tuple[str, int]:
    """How a tile loads the image, and its vectors: see conv2d_tile.wgsl."""
    item, channels, per = c.x.dtype.itemsize, c.w.shape[2], TILES[tile][2]
    if _native(c):
        return "any", 1
    pixels = _row_vectors(c)
    if pixels and channels % ROW_CHANNELS.get(tile, 1 << 31) == 0:
        return "row", pixels
    if channels % DEEP:
        return "any", 1
    if c.x.strides[2] == item and c.x.aligned(per * item, (0, 1, 3, 4)):
        return "vec", per
    return "taps", 1


def _row_vectors(c: Windows) -> int:
    """Pixels of a vector where rows of three taps may be read so, else 0: lib/window_row.wgsl."""
    height, width = c.dst.shape[3:]
    same = (
        c.w.shape[4] == 3 and c.stride[1] == c.tap[1] == 1 and c.first[1] == -1
        and c.x.shape[4] == width and height * width % 4 == 0
    )  # fmt: skip
    if same and _vectors(c.x, 4, 4) and _vectors(c.dst, 4, 4):
        return 4
    item = c.dst.dtype.itemsize
    plane = c.dst.strides[4] == item and c.dst.strides[3] == width * item
    if same and _vectors(c.x, 4, 2) and plane and c.dst.aligned(4 * item, (0, 1, 2)):
        return 2
    return 0


def _vectors(v: View, axis: int, n: int) -> bool:
    """May `n` neighbours along this axis be read or written at once?"""
    item = v.dtype.itemsize
    return (
        v.strides[axis] == item
        and v.shape[axis] % n == 0
        and v.aligned(n * item, [a for a in range(v.ndim) if a != axis])
    )


def _native(c: Windows) -> _K | None:
    """The weights as they are, if their k have one step and repacking would not pay."""
    if c.operations >= PACK_FROM or c.w.dtype.name not in ("float32", c.x.dtype.name):
        return None
    for order in ("cij", "ijc"):
        axes = [2 + "cij".index(d) for d in order]
        shape = tuple(c.w.shape[a] for a in axes)
        size, (step,) = merge_axes(shape, [tuple(c.w.strides[a] for a in axes)])
        if len(size) == 1:
            b = c.w.with_layout((*c.w.shape[:2], size[0]), (*c.w.strides[:2], step[0]))
            return _K(b, False, order, [])
    return None


def _packed(caps: Caps, scratch: Scratch, c: Windows, form: str) -> _K:
    """A copy of the weights in the order of the product."""
    groups, rows, channels, kh, kw = c.w.shape
    order = "icj" if form == "row" else "ijc"
    # Digits of k: count, step in the weights, step in rows of the copy; the smallest step first.
    counts = {"c": channels, "i": kh, "j": kw}
    digits, below = [], 1
    for d in reversed(order):
        digits.append((counts[d], _elements(c.w)[2 + "cij".index(d)], below))
        below *= counts[d]
    low, mid, high = sorted(digits, key=lambda d: abs(d[1]))
    wide = cdiv(rows, 4) * 4
    copy = scratch.empty((groups, kh * kw * channels, wide), "float32")
    pack = conv2d_pack.step(
        caps, c.w, copy, n0=low[0], n1=mid[0], e0=_u32(low[1]), e1=_u32(mid[1]), e2=_u32(high[1]),
        d0=low[2], d1=mid[2], d2=high[2],
        w_gs=_u32(_elements(c.w)[0]), w_rs=_u32(_elements(c.w)[1]),
    )  # fmt: skip
    return _K(copy, True, order, [pack])


def _elements(v: View, vec: int = 1) -> Ints:
    """Strides in elements, or vectors of them."""
    return tuple(s // (v.dtype.itemsize * vec) for s in v.strides)


def _u32(v: int) -> int:
    """The word that stands for v in arithmetic modulo 2^32."""
    return v & 0xFFFFFFFF


# -- few output channels --------------------------------------------------------------------------


def _direct(caps: Caps, c: Windows) -> Step:
    n_s, g_s, c_s, h_s, w_s = _elements(c.x)
    b_g, b_o, b_c, b_h, b_w = _elements(c.w)
    d_n, d_g, d_o, d_h, d_w = _elements(c.dst)
    three = c.w.shape[3:] == (3, 3) and c.stride == c.tap == (1, 1)
    last = c.dst.shape[1] > 1 and abs(d_g) < abs(d_w)
    return conv2d_direct.step(
        caps, c.x, c.w, c.bias, c.dst, K3=c.shape.rows == 1 and three,
        channels_last=int(last), channels=c.w.shape[2],
        kernel_h=c.w.shape[3], kernel_w=c.w.shape[4], height=c.x.shape[3], width=c.x.shape[4],
        stride_h=c.stride[0], stride_w=c.stride[1],
        y_first=_u32(c.first[0]), x_first=_u32(c.first[1]),
        tap_h=_u32(c.tap[0]), tap_w=_u32(c.tap[1]),
        a_ns=_u32(n_s), a_gs=_u32(g_s), a_cs=_u32(c_s), a_hs=_u32(h_s), a_ws=_u32(w_s),
        b_gs=_u32(b_g), b_os=_u32(b_o), b_cs=_u32(b_c), b_hs=_u32(b_h), b_ws=_u32(b_w),
        dst_ns=_u32(d_n), dst_gs=_u32(d_g), dst_os=_u32(d_o), dst_hs=_u32(d_h), dst_ws=_u32(d_w),
        bias_os=0 if c.bias is None else _u32(_elements(c.bias)[0]), act=c.act,
    )  # fmt: skip
