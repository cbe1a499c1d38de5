"""The dispatches of one call of `Windows`, body by body."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import (
    conv_depthwise,
    conv_direct,
    conv_pack,
    conv_stem,
    splitk_reduce,
)
from pykernels._generated.bodies import implicit_gemm as gemm_body
from pykernels._generated.bodies import implicit_gemm_3x3 as gemm_3x3_body
from pykernels.plans.cost import Split, split_k
from pykernels.plans.matmul.select import reduce_bits
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Ints, View

from .call import Windows
from .geometry import reorder
from .select import BK

__all__ = [
    "Target", "Weights", "depthwise", "direct", "elements", "implicit_gemm",
    "implicit_gemm_3x3", "reduce", "stem", "stem_config", "target", "u32",
]  # fmt: skip


class Weights(NamedTuple):
    """The weights as rows of k, and the order of channels, tap rows and tap columns in k."""

    b: View  # (groups, rows, depth), or in vectors of rows (groups, depth, rows)
    packed: bool
    # "c" (channels), "i" (tap rows) and "j" (tap columns), beginning with the highest digit of k
    order: str
    before: list[Step]


def elements(v: View, vec: int = 1) -> Ints:
    """Strides in elements, or in vectors of `vec` elements."""
    return tuple(s // (v.dtype.itemsize * vec) for s in v.strides)


def u32(v: int) -> int:
    """v as a word, in arithmetic modulo 2^32."""
    return v & 0xFFFFFFFF


def reduce(caps: Caps, partials: View, c: Windows, splits: int) -> Step:
    """The step that adds the splits and applies the epilogue. The partials have the axes of dst in
    the order of `_by_steps`."""
    order = _by_steps(c.dst)
    bias = c.spread_bias and reorder(c.spread_bias, order)
    residual = c.residual and reorder(c.residual, order)
    dst = reorder(c.dst, order)
    bits = reduce_bits(caps.tuning, splits, dst.size)
    return splitk_reduce.step(
        caps, partials, bias, residual, dst, splits=splits, lane_bits=bits,
        activation=c.activation,
    )  # fmt: skip


def _by_steps(v: View) -> Ints:
    """The axes of a view, sorted from the largest step to the smallest."""
    return tuple(sorted(range(v.ndim), key=lambda a: -abs(v.strides[a])))


# -- products -------------------------------------------------------------------------------------


def implicit_gemm(
    caps: Caps, scratch: Scratch, c: Windows, tile: str, form: tuple[str, int],
    splits: int, native: Weights | None,
) -> list[Step]:  # fmt: skip
    """The step of implicit_gemm; `tile` is its configuration, and `form` is the form of its loads
    and their vector width."""
    own, (load, vec) = gemm_body.CONFIGS[tile], form
    splits, each = _split(caps, c, c.depth, splits, BK)
    k = native or _packed(caps, scratch, c.w, "ijc")
    t = target(caps, scratch, c, splits)
    dv = 4 if load == "vec" and t.out.vectorizable(4, 3) else 1
    step = gemm_body.step(
        caps, c.x, k.b, t.bias, t.out,
        TILE=tile, FORM=load, AV=vec, BV=4 if k.packed else 1, DV=dv,
        rows=c.rows, pixels=c.pixels, plane=c.dst.shape[3] * c.dst.shape[4],
        out_w=c.dst.shape[4], depth=c.depth, split_depth=each, splits=splits,
        across=cdiv(c.pixels, own.BN), down=cdiv(c.rows, own.BM),
        height=c.x.shape[3], width=c.x.shape[4], stride_h=c.stride[0], stride_w=c.stride[1],
        y_first=u32(c.origin[0]), x_first=u32(c.origin[1]), **_digits(c, k.order, vec),
        **t.epilogue,
    )  # fmt: skip
    return [*k.before, step, *t.after]


def implicit_gemm_3x3(
    caps: Caps, scratch: Scratch, c: Windows, tile: str, vec: int, splits: int
) -> list[Step]:
    """The step of implicit_gemm_3x3, for 3 x 3 taps that keep the width; a vector of the image has
    `vec` pixels."""
    own = gemm_3x3_body.CONFIGS[tile]
    channels = c.w.shape[2]
    splits, each = _split(caps, c, channels, splits, 1)
    k = _packed(caps, scratch, c.w, "cij")
    t = target(caps, scratch, c, splits)
    step = gemm_3x3_body.step(
        caps, c.x, k.b, t.bias, t.out, TILE=tile, AV=vec,
        rows=c.rows, pixels=c.pixels, plane=c.dst.shape[3] * c.dst.shape[4],
        out_w=c.dst.shape[4], channels=channels, split_channels=each, splits=splits,
        across=cdiv(c.pixels, own.BN), down=cdiv(c.rows, own.BM),
        height=c.x.shape[3], width=c.x.shape[4], stride_h=c.stride[0],
        y_first=u32(c.origin[0]), tap_h=u32(c.tap[0]),
        **t.epilogue,
    )  # fmt: skip
    return [*k.before, step, *t.after]


def _split(caps: Caps, c: Windows, length: int, splits: int, unit: int) -> Split:
    """The number of splits (at most as many as one binding holds), and the length of each split."""
    return split_k(length, min(splits, max(caps.max_binding // (4 * c.dst.size), 1)), unit)


class Target(NamedTuple):
    """The target of sums: dst, or scratch for partial sums and the step that adds them."""

    out: View  # its axes: an axis of splits, then the axes of dst
    bias: View | None  # the bias that the body adds
    epilogue: dict[str, int]  # the epilogue's params of the body
    after: list[Step]


def target(caps: Caps, scratch: Scratch, c: Windows, splits: int, direct: bool = False) -> Target:
    """`direct`: the body has texts for every layout of dst. A residual is added only to complete
    sums."""
    direct = direct or c.x.dtype.itemsize <= c.dst.dtype.itemsize
    if splits == 1 and direct and c.residual is None:
        out = c.dst.with_layout((1, *c.dst.shape), (0, *c.dst.strides))
        return Target(out, c.bias, {"activation": c.activation, "is_partial": 0}, [])
    order = _by_steps(c.dst)
    out = scratch.empty((splits, *(c.dst.shape[a] for a in order)), "float32")
    after = reduce(caps, out, c, splits)
    out = reorder(out, (0, *(1 + order.index(a) for a in range(5))))
    return Target(out, None, {"activation": 0, "is_partial": 1}, [after])


def _unsplit(t: Target) -> View:
    """The target of a body without splits: dst with its own axes."""
    return t.out.with_layout(t.out.shape[1:], t.out.strides[1:])


def _digits(c: Windows, order: str, vec: int) -> dict[str, int]:
    """The digits of k: for each digit its radix, and its steps in the index, the row and the column
    of the image; and BK written in these digits."""
    _, _, c_s, h_s, w_s = elements(c.x, vec)
    (th, tw), (kh, kw) = c.tap, c.w.shape[3:]
    digits = {
        "c": (c.w.shape[2], c_s, 0, 0),
        "i": (kh, th * h_s, th, 0),
        "j": (kw, tw * w_s, 0, tw),
    }
    high, mid, low = (digits[d] for d in order)
    return {
        "n0": low[0], "n1": mid[0],
        "e0": u32(low[1]), "e1": u32(mid[1]), "e2": u32(high[1]),
        "dy1": u32(mid[2]), "dy2": u32(high[2]), "dx0": u32(low[3]), "dx1": u32(mid[3]),
        "step0": BK % low[0], "step1": BK // low[0] % mid[0],
        "step2": BK // low[0] // mid[0],
    }  # fmt: skip


def _packed(caps: Caps, scratch: Scratch, w: View, order: str) -> Weights:
    """A copy of the weights in this order of k."""
    groups, rows, channels, kh, kw = w.shape
    # For each digit of k: its count, its step in the weights, and its step in rows of the copy; the
    # smallest step comes first.
    counts = {"c": channels, "i": kh, "j": kw}
    digits, below = [], 1
    for d in reversed(order):
        digits.append((counts[d], elements(w)[2 + "cij".index(d)], below))
        below *= counts[d]
    low, mid, high = sorted(digits, key=lambda d: abs(d[1]))
    padded_rows = cdiv(rows, 4) * 4
    copy = scratch.empty((groups, kh * kw * channels, padded_rows), "float32")
    pack = conv_pack.step(
        caps, w, copy, n0=low[0], n1=mid[0], e0=u32(low[1]), e1=u32(mid[1]), e2=u32(high[1]),
        d0=low[2], d1=mid[2], d2=high[2],
    )  # fmt: skip
    return Weights(copy, True, order, [pack])


def stem(caps: Caps, scratch: Scratch, c: Windows, name: str) -> list[Step]:
    """The step of conv_stem; `name` is its configuration."""
    own = conv_stem.CONFIGS[name]
    t = target(caps, scratch, c, 1)
    out = _unsplit(t)
    images, _, count, out_h, out_w = c.dst.shape
    down, across = cdiv(count, own.BM), cdiv(out_w, own.PIXEL_COLS)
    row_blocks = cdiv(out_h, own.PIXEL_ROWS)
    last = out.vectorizable(4, 2)
    dv = 4 if last or out.vectorizable(4, 4) else 1
    step = conv_stem.step(
        caps, c.x, c.w, t.bias, out, TILE=name, DV=dv, LAST=last,
        rows=count, down=down, across=across, row_blocks=row_blocks, row_groups=across * down,
        image_groups=row_blocks * across * down,
        group_groups=images * row_blocks * across * down,
        images=images, channels=c.w.shape[2], height=c.x.shape[3], width=c.x.shape[4],
        out_h=out_h, out_w=out_w, y_first=u32(c.origin[0]), x_first=u32(c.origin[1]),
        **t.epilogue,
    )  # fmt: skip
    return [step, *t.after]


def stem_config(c: Windows, rows: int) -> str:
    """The configuration of conv_stem for tiles of `rows` rows, "" if it does not support this
    call."""
    square = c.w.shape[3] == c.w.shape[4] and c.stride[0] == c.stride[1] and c.tap == (1, 1)
    same = c.w.dtype is c.x.dtype and c.x.dtype.itemsize <= c.dst.dtype.itemsize
    if not square or not same:
        return ""
    wanted = (rows, c.w.shape[3], c.stride[0])
    found = (n for n, own in conv_stem.CONFIGS.items() if (own.BM, own.K, own.S) == wanted)
    return next(found, "")


# -- few output channels --------------------------------------------------------------------------


def depthwise(caps: Caps, scratch: Scratch, c: Windows) -> list[Step]:
    """The steps of conv_depthwise, for one channel in each group and 3 x 3 taps; no steps if it
    does not support c."""
    if c.w.shape[1:] != (1, 1, 3, 3) or c.stride != (1, 1) or c.tap != (1, 1):
        return []
    last = c.x.vectorizable(4, 1) and c.dst.vectorizable(4, 1)
    same_width = c.origin[1] == -1 and c.x.shape[4] == c.dst.shape[4]
    if not last and not (same_width and c.x.vectorizable(4, 4) and c.dst.vectorizable(4, 4)):
        return []
    w = c.w
    before: list[Step] = []
    if last:
        # All channels as one group: rows of taps, in vectors of channels.
        g_s, o_s, *others = w.strides
        whole = w.with_layout((1, w.shape[0], *w.shape[2:]), (o_s, g_s, *others))
        packed, _, _, before = _packed(caps, scratch, whole, "cij")
        _, row, item = packed.strides
        w = packed.with_layout((packed.shape[2], 1, 1, 3, 3), (item, 0, 0, 3 * row, row))
    t = target(caps, scratch, c, 1, direct=True)
    step = conv_depthwise.step(
        caps, c.x, w, t.bias, _unsplit(t),
        FORM="channels" if last else "rows",
        height=c.x.shape[3], width=c.x.shape[4],
        y_first=u32(c.origin[0]), x_first=u32(c.origin[1]),
        **t.epilogue,
    )  # fmt: skip
    return [*before, step, *t.after]


def direct(caps: Caps, scratch: Scratch, c: Windows) -> list[Step]:
    """The step of conv_direct, whose sums read the image directly."""
    three = c.w.shape[3:] == (3, 3) and c.stride == c.tap == (1, 1)
    last = c.dst.shape[1] > 1 and abs(c.dst.strides[1]) < abs(c.dst.strides[4])
    t = target(caps, scratch, c, 1, direct=True)
    step = conv_direct.step(
        caps, c.x, c.w, t.bias, _unsplit(t), K3=c.rows == 1 and three,
        channels_last=int(last), channels=c.w.shape[2],
        kernel_h=c.w.shape[3], kernel_w=c.w.shape[4], height=c.x.shape[3], width=c.x.shape[4],
        stride_h=c.stride[0], stride_w=c.stride[1],
        y_first=u32(c.origin[0]), x_first=u32(c.origin[1]),
        tap_h=u32(c.tap[0]), tap_w=u32(c.tap[1]),
        **t.epilogue,
    )  # fmt: skip
    return [step, *t.after]
