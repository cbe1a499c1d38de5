"""flash_attn: few rows straight from q, k and v; more in tiles, from q and k packed depth first."""

from __future__ import annotations

from dataclasses import replace

from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step
from pykernels.plans.bindings import in_parts
from pykernels.plans.groups import by_group, ungrouped
from pykernels.plans.parts import Part

from .arguments import Causal, Window, alibi_heads, band, dims, expect, number, scale_of, sizes
from .call import Call, empty
from .decode import decode
from .select import DECODE, choose
from .tiles import tiles

__all__ = ["choose", "plan"]

OP = "flash_attn"
# The axis of the query heads, which becomes two: KV heads, and the query heads of one.
HEADS = {"q": 1, "mask": 1, "sinks": 0, "lse": 1, "dst": 1}
# What a call may be cut along where a tensor is larger than one binding: batches, KV heads, query
# heads of one KV head (these come later, since KV heads reach further), and queries.
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
    if mask is not None:
        mask = mask.broadcast_to((d.batch, d.heads, d.queries, d.keys))
    given = {
        "q": q, "k": k, "v": v, "mask": mask, "sinks": sinks, "lengths": lengths, "lse": lse,
        "dst": dst,
    }  # fmt: skip
    views = {
        name: by_group(view, d.kv_heads, HEADS[name]) if name in HEADS else view
        for name, view in given.items() if view is not None
    }  # fmt: skip
    axes = [{name: at for name, at in axis.items() if name in views} for axis in AXES]

    def steps(part: Part) -> list[Step]:
        _, kv_head, member, query = part.first
        own = {n: ungrouped(x, HEADS[n]) if n in HEADS else x for n, x in part.views.items()}
        call = Call(
            own["q"], own["k"], own["v"], own.get("mask"), own.get("sinks"), own.get("lengths"),
            own.get("lse") or scratch.empty(own["dst"].shape[:3], "float32"), own["dst"],
            sizes(own["q"], own["k"], own["v"]), near.of_queries(query), factor, bias, cap,
            alibi_heads(d.heads), kv_head * d.group + member,
        )  # fmt: skip
        return _steps(caps, scratch, call)

    return in_parts(caps, scratch, views, axes, steps, ("q", "k", "v"))


def _steps(caps: Caps, scratch: Scratch, call: Call) -> list[Step]:
    """The dispatches of a call whose tensors fit one binding each."""
    d = call.dims
    if d.value_depth == 0:  # lse alone: any values do
        d = d._replace(value_depth=1)
        v = call.k.with_layout((*call.k.shape[:3], 1), call.k.strides)
        dst = scratch.empty((*call.dst.shape[:3], 1), "float32")
        call = replace(call, v=v, dst=dst, dims=d)
    if d.keys == 0 or d.depth == 0:
        return empty(caps, scratch, call)
    choice = choose(caps, d, call.band.hides or call.lengths is not None)
    if choice.body == DECODE:
        return decode(caps, scratch, call, choice.splits)
    return tiles(caps, scratch, call, choice)
