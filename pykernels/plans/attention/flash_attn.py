"""flash_attn: few rows straight from q, k and v; more in tiles, from q and k packed depth first."""

from __future__ import annotations

from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step

from .arguments import Causal, Window, band, dims, expect, number, scale_of
from .call import Call, empty
from .decode import decode
from .select import DECODE, choose
from .tiles import tiles

__all__ = ["choose", "plan"]

OP = "flash_attn"


def plan(
    caps: Caps,
    scratch: Scratch,
    q: View,
    k: View,
    v: View,
    mask: View | None,
    sinks: View | None,
    lengths: View | None,
    lse: View | None,
    dst: View,
    scale: float | None = None,
    causal: Causal = False,
    window: Window = None,
    max_bias: float = 0.0,
    softcap: float = 0.0,
) -> list[Step]:
    """The dispatches of one call."""
    d = dims(OP, q, k, v, mask, sinks)
    expect(OP, "dst", dst, (d.batch, d.heads, d.queries, d.value_depth))
    expect(OP, "lse", lse, dst.shape[:3])
    expect(OP, "lengths", lengths, (d.batch,))
    near = band(OP, d, causal, window)
    factor = scale_of(OP, d, scale)
    bias, cap = number(OP, "max_bias", max_bias), number(OP, "softcap", softcap)
    if dst.size == 0 and (lse is None or lse.size == 0):
        return []
    if d.value_depth == 0:  # lse alone: any values do
        v = k.with_layout((*k.shape[:3], 1), k.strides)
        d = d._replace(value_depth=1)
        dst = scratch.empty((*dst.shape[:3], 1), "float32")
    if mask is not None:
        mask = mask.broadcast_to((d.batch, d.heads, d.queries, d.keys))
    sums = lse or scratch.empty(dst.shape[:3], "float32")
    call = Call(q, k, v, mask, sinks, lengths, sums, dst, d, near, factor, bias, cap)
    if d.keys == 0 or d.depth == 0:
        return empty(caps, scratch, call)
    choice = choose(caps, d, near.hides or lengths is not None)
    if choice.body == DECODE:
        return decode(caps, scratch, call, choice.splits)
    return tiles(caps, scratch, call, choice)
