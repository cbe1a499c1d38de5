"""flash_attn: few query rows read q, k and v without packing; more rows are computed in tiles, from
q and k packed with the depth as the first axis."""

from __future__ import annotations

from dataclasses import replace

from pykernels.errors import ArgumentError
from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.groups import by_group, ungrouped
from pykernels.plans.parts import Part
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .arguments import Causal, Window, alibi_heads, band, dims, expect, number, scale_of, sizes
from .call import Call, empty
from .decode import decode
from .matrix import matrix
from .products import products
from .select import DECODE, MMA, PRODUCTS, choose
from .tiles import tiles

__all__ = ["HEADS", "call_of", "choose", "plan", "steps_of"]

OP = "flash_attn"
# The axis of the query heads of each tensor. It is cut into two axes: KV heads, and the query heads
# that share a KV head.
HEADS = {"q": 1, "mask": 1, "sinks": 0, "lse": 1, "dst": 1}
# The axes along which a call may be cut if a tensor is larger than one binding: batches, KV heads,
# query heads of one KV head, and queries. KV heads come before query heads, because cutting them
# also cuts keys and values.
AXES = (
    {"q": 0, "k": 0, "v": 0, "mask": 0, "lengths": 0, "lse": 0, "dst": 0},
    {"q": 1, "k": 1, "v": 1, "mask": 1, "sinks": 0, "lse": 1, "dst": 1},
    {"q": 2, "mask": 2, "sinks": 1, "lse": 2, "dst": 2},
    {"q": 3, "mask": 3, "lse": 3, "dst": 3},
)


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
    precision: str | None = None,
) -> list[Step]:
    """The dispatches of one call."""
    if precision not in (None, "fast", "high"):
        raise ArgumentError(f"[{OP}] precision must be None, 'fast' or 'high' but is {precision!r}")
    call = call_of(
        OP, scratch, q, k, v, mask, sinks, lengths, lse, dst, scale, causal, window, max_bias,
        softcap,
    )  # fmt: skip
    if call is None:
        return []
    call = replace(call, in_one_piece=precision == "fast")
    tensors = (q, k, v, call.mask, sinks, lengths, call.lse, dst)
    found = whole(caps, scratch, tensors, lambda: steps_of(caps, scratch, call))
    return _in_parts(caps, scratch, call) if found is None else found


def call_of(
    op: str, scratch: Scratch, q: View, k: View, v: View, mask: View | None, sinks: View | None,
    lengths: View | None, lse: View | None, dst: View, scale: float | None, causal: Causal,
    window: Window, max_bias: float, softcap: float,
) -> Call | None:  # fmt: skip
    """The call of these arguments, checked; None if it has no output."""
    d = dims(op, q, k, v, mask, sinks)
    expect(op, "dst", dst, (d.batch, d.heads, d.queries, d.value_depth))
    expect(op, "lse", lse, dst.shape[:3])
    expect(op, "lengths", lengths, (d.batch,))
    near = band(op, d, causal, window)
    factor = scale_of(op, d, scale)
    bias, cap = number(op, "max_bias", max_bias), number(op, "softcap", softcap)
    if dst.size == 0 and (lse is None or lse.size == 0):
        return None
    if mask is not None:
        mask = mask.broadcast_to((d.batch, d.heads, d.queries, d.keys))
    sums = lse or scratch.empty(dst.shape[:3], "float32")
    slopes = alibi_heads(d.heads)
    return Call(q, k, v, mask, sinks, lengths, sums, dst, d, near, factor, bias, cap, slopes)


def _in_parts(caps: Caps, scratch: Scratch, c: Call) -> list[Step]:
    """The dispatches of a call with a tensor, or a temporary, that is larger than one binding."""
    given = {
        "q": c.q, "k": c.k, "v": c.v, "mask": c.mask, "sinks": c.sinks, "lengths": c.lengths,
        "lse": c.lse, "dst": c.dst,
    }  # fmt: skip
    views = {
        name: by_group(view, c.dims.kv_heads, HEADS[name]) if name in HEADS else view
        for name, view in given.items() if view is not None
    }  # fmt: skip
    axes = [{name: at for name, at in axis.items() if name in views} for axis in AXES]

    def steps(part: Part) -> list[Step]:
        _, kv_head, member, query = part.first
        own = {n: ungrouped(x, HEADS[n]) if n in HEADS else x for n, x in part.views.items()}
        q, k, v = own["q"], own["k"], own["v"]
        call = replace(
            c, q=q, k=k, v=v, mask=own.get("mask"), sinks=own.get("sinks"),
            lengths=own.get("lengths"), lse=own["lse"], dst=own["dst"], dims=sizes(q, k, v),
            band=c.band.of_queries(query), first_head=kv_head * c.dims.group + member,
        )  # fmt: skip
        return steps_of(caps, scratch, call, in_part=True)

    return in_parts(caps, scratch, views, axes, steps, ("lse", "dst"))


def steps_of(caps: Caps, scratch: Scratch, call: Call, in_part: bool = False) -> list[Step]:
    """The dispatches of a call whose tensors fit one binding each. `in_part`: the call is a part of
    a larger call, and may use only few dispatches."""
    d = call.dims
    if d.value_depth == 0:  # only lse is computed, so the values do not matter
        d = d._replace(value_depth=1)
        v = call.k.with_layout((*call.k.shape[:3], 1), call.k.strides)
        dst = scratch.empty((*call.dst.shape[:3], 1), "float32")
        call = replace(call, v=v, dst=dst, dims=d)
    if d.keys == 0 or d.depth == 0:
        return empty(caps, scratch, call)
    halves = all(x.dtype.name == "float16" for x in (call.q, call.k, call.v))
    hidden = in_part or call.mask is not None or call.lengths is not None
    choice = choose(caps, d, call.band.hides or call.lengths is not None, halves, hidden)
    if choice.body == DECODE:
        return decode(caps, scratch, call, choice.splits)
    if choice.body.startswith(MMA):
        return matrix(caps, scratch, call, choice)
    if choice.body == PRODUCTS:
        return products(caps, scratch, call, choice)
    return tiles(caps, scratch, call, choice)
