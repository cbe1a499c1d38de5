"""flash_attn of quantised keys and values: few query rows read the blocks directly, more rows read
dequantised keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pykernels.dtypes import DTypeName
from pykernels.errors import ShapeError
from pykernels.plans.bindings import in_parts, whole
from pykernels.plans.groups import by_group, ungrouped
from pykernels.plans.parts import Part
from pykernels.plans.quant import dequantize
from pykernels.plans.quant.rope_append_quant import kept
from pykernels.plans.quant.types import GROUP, BlockType, planes
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View, contiguous_strides

from .arguments import Causal, Window
from .call import Call
from .decode import decode_blocks
from .flash_attn import HEADS, call_of, steps_of
from .select import DECODE, MMA, choose

__all__ = ["plan"]

OP = "flash_attn_quant"
PLANES = ("k_low", "k_scales", "v_low", "v_scales")
# As in flash_attn: batches, KV heads, query heads of one KV head, and queries.
AXES = (
    {"q": 0, **{name: 0 for name in PLANES}, "mask": 0, "lengths": 0, "lse": 0, "dst": 0},
    {"q": 1, **{name: 1 for name in PLANES}, "mask": 1, "sinks": 0, "lse": 1, "dst": 1},
    {"q": 2, "mask": 2, "sinks": 1, "lse": 2, "dst": 2},
    {"q": 3, "mask": 3, "lse": 3, "dst": 3},
)


class _Blocks(NamedTuple):
    """Quantised keys and values, as planes (B, Hkv, ...)."""

    kind: BlockType
    k_low: View
    k_scales: View
    v_low: View
    v_scales: View


def plan(
    caps: Caps, scratch: Scratch, q: View, k_low: View, k_scales: View, v_low: View,
    v_scales: View, mask: View | None, sinks: View | None, lengths: View | None,
    lse: View | None, dst: View, quant: str = "q8_0", keys: int = 0, scale: float | None = None,
    causal: Causal = False, window: Window = None, max_bias: float = 0.0, softcap: float = 0.0,
) -> list[Step]:  # fmt: skip
    """The dispatches of one call."""
    kind = kept(OP, quant)
    if q.ndim != 4:
        raise ShapeError(f"[{OP}] q must have four axes but has shape {q.shape}")
    batch, _, _, depth = q.shape
    value_depth = v_low.shape[-4] * GROUP if v_low.ndim > 3 else 0
    heads = k_low.shape[-5] if k_low.ndim > 5 else k_low.shape[0] // max(batch, 1)
    k = _as_numbers(q, (batch, heads, keys, depth))
    v = _as_numbers(q, (batch, heads, keys, value_depth))
    blocks = _Blocks(
        kind,
        *(_by_head("k", kind, k.shape, k_low, k_scales)),
        *(_by_head("v", kind, v.shape, v_low, v_scales)),
    )
    call = call_of(
        OP, scratch, q, k, v, mask, sinks, lengths, lse, dst, scale, causal, window, max_bias,
        softcap,
    )  # fmt: skip
    if call is None:
        return []
    tensors = (q, *blocks[1:], call.mask, sinks, lengths, call.lse, dst)
    found = whole(caps, scratch, tensors, lambda: _steps(caps, scratch, call, blocks))
    return _in_parts(caps, scratch, call, blocks) if found is None else found


def _as_numbers(q: View, shape: tuple[int, ...]) -> View:
    """A view that stands for dequantised keys or values when shapes are checked."""
    return q.with_layout(shape, (0,) * len(shape))


def _by_head(
    name: str, kind: BlockType, shape: tuple[int, ...], low: View, scales: View
) -> tuple[View, View]:
    """Check planes, and return them as (B, Hkv, ...)."""
    wanted = planes(OP, kind, shape)
    found = []
    for part, view, want in (("low", low, wanted.low), ("scales", scales, wanted.scales)):
        ranks = (want, (*shape[:2], *want[1:]))
        if view.shape not in ranks:
            raise ShapeError(
                f"[{OP}] {name}_{part} of {kind.name} {shape} must have shape {ranks[0]} or "
                f"{ranks[1]} but has {view.shape}"
            )
        if view.shape == ranks[0]:
            step = view.strides[0]
            view = view.with_layout(ranks[1], (shape[1] * step, step, *view.strides[1:]))
        if view.size and view.strides[3:] != contiguous_strides(view.shape[3:], 4):
            raise ShapeError(f"[{OP}] rows of {name}_{part} must lie one after the other")
        if part == "low" and not view.aligned(16, range(5)):
            raise ShapeError(f"[{OP}] {name}_low must begin at a multiple of 16 bytes")
        found.append(view)
    return found[0], found[1]


def _in_parts(caps: Caps, scratch: Scratch, c: Call, blocks: _Blocks) -> list[Step]:
    """The dispatches of a call with a tensor, or a temporary, that is larger than one binding."""
    given = {
        "q": c.q, "mask": c.mask, "sinks": c.sinks, "lengths": c.lengths, "lse": c.lse,
        "dst": c.dst, **blocks._asdict(),
    }  # fmt: skip
    views = {
        name: by_group(view, c.dims.kv_heads, HEADS[name]) if name in HEADS else view
        for name, view in given.items() if isinstance(view, View)
    }  # fmt: skip
    axes = [{name: at for name, at in axis.items() if name in views} for axis in AXES]

    def steps(part: Part) -> list[Step]:
        _, kv_head, member, query = part.first
        own = {n: ungrouped(x, HEADS[n]) if n in HEADS else x for n, x in part.views.items()}
        q, held = own["q"], _Blocks(blocks.kind, *[own[n] for n in PLANES])
        batch, heads = held.k_low.shape[:2]
        d = c.dims._replace(batch=batch, heads=q.shape[1], kv_heads=heads, queries=q.shape[2])
        call = replace(
            c, q=q, k=_as_numbers(q, (batch, heads, d.keys, d.depth)),
            v=_as_numbers(q, (batch, heads, d.keys, d.value_depth)), mask=own.get("mask"),
            sinks=own.get("sinks"), lengths=own.get("lengths"), lse=own["lse"], dst=own["dst"],
            dims=d, band=c.band.of_queries(query), first_head=kv_head * c.dims.group + member,
        )  # fmt: skip
        return _steps(caps, scratch, call, held)

    return in_parts(caps, scratch, views, axes, steps, ("lse", "dst"))


def _steps(caps: Caps, scratch: Scratch, call: Call, blocks: _Blocks) -> list[Step]:
    """The dispatches of a call whose tensors fit one binding each."""
    d = call.dims
    halves = call.q.dtype.name == "float16"
    hidden = call.mask is not None or call.lengths is not None
    choice = choose(caps, d, call.band.hides or call.lengths is not None, halves, hidden)
    if d.keys == 0 or d.depth == 0 or d.value_depth == 0:
        return steps_of(caps, scratch, call)
    if choice.body == DECODE and call.mask is None:
        found = decode_blocks(caps, scratch, call, choice.splits, blocks.kind.name, blocks[1:])
        if found is not None:
            return found
    dtype: DTypeName = "float16" if choice.body.startswith(MMA) else "float32"
    steps: list[Step] = []
    numbers = []
    for view, low, scales in ((call.k, *blocks[1:3]), (call.v, *blocks[3:])):
        numbers.append(scratch.empty(view.shape, dtype))
        for b in range(d.batch):
            own, *parts = (_batch(x, b) for x in (numbers[-1], low, scales))
            steps += dequantize.plan(caps, scratch, parts[0], parts[1], None, own, blocks.kind.name)
    return steps + steps_of(caps, scratch, replace(call, k=numbers[0], v=numbers[1]))


def _batch(view: View, b: int) -> View:
    """The view of one batch, without the batch axis."""
    one = view.with_layout(view.shape[1:], view.strides[1:])
    return replace(one, offset=view.offset + b * view.strides[0])
