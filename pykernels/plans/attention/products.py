"""flash_attn as products: scores of some queries, their softmax, the product with the values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pykernels._generated.bodies import attention_softmax
from pykernels.dtypes import DTypeName
from pykernels.plans.copy import cpy
from pykernels.plans.matmul import mul_mat
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View, contiguous_strides

from .arguments import OPEN, Band
from .call import Call, empty
from .select import AttentionChoice
from .select_products import LEAST, heads_of, on_units
from .tiles import batches_of, heads_from

__all__ = ["products"]

WEIGHTS = 2.0**15  # attention_softmax multiplies weights that it stores as halves by this
ROWS = {own.threads: name for name, own in attention_softmax.CONFIGS.items()}


def products(caps: Caps, scratch: Scratch, c: Call, choice: AttentionChoice) -> list[Step]:
    """The dispatches of a call without a mask and lengths.

    Each chunk has `queries` queries of some heads, and all keys that any of these queries may see.
    """
    d = c.dims
    halves = all(x.dtype.name == "float16" for x in (c.q, c.k, c.v))
    units = on_units(caps, halves)
    queries = min(choice.queries or d.queries, d.queries)
    while queries > 1 and heads_of(caps, d, queries) == 0:
        queries = cdiv(queries, 2)
    some = max(heads_of(caps, d, queries), 1)
    some = some // d.kv_heads * d.kv_heads or some
    width = cdiv(d.keys, 4) * 4
    steps: list[Step] = []
    k = c.k
    if not units and d.queries >= LEAST:
        k, steps = _depth_first(caps, scratch, c.k, width)
    count = some * d.group * queries * width
    scores = scratch.empty((count,), "float32")
    weights = scratch.empty((count,), "float16") if units else None
    for kv_head, batches, heads in batches_of(d, some):
        q, dst, lse = (heads_from(x, d, kv_head, batches, heads) for x in (c.q, c.dst, c.lse))
        keys, values = (heads_from(x, d, kv_head, batches, heads) for x in (k, c.v))
        sinks = c.sinks and _part(c.sinks, 0, kv_head % d.kv_heads * d.group, heads * d.group)
        own = d._replace(batch=batches, kv_heads=heads, heads=heads * d.group)
        part = replace(c, q=q, k=keys, v=values, dst=dst, lse=lse, sinks=sinks, dims=own)
        for first, chunk in _chunks(part, queries):
            steps += _chunk(caps, scratch, chunk, c.band.of_queries(first), scores, weights)
    return steps


def _chunks(c: Call, queries: int) -> Iterator[tuple[int, Call]]:
    """The first query and the call of each chunk."""
    for first in range(0, c.dims.queries, queries):
        n = min(queries, c.dims.queries - first)
        q, dst, lse = (_part(x, 2, first, n) for x in (c.q, c.dst, c.lse))
        yield first, replace(c, q=q, dst=dst, lse=lse, dims=c.dims._replace(queries=n))


def _chunk(
    caps: Caps, scratch: Scratch, c: Call, near: Band, scores: View, weights: View | None
) -> list[Step]:
    """The dispatches of one chunk; `near` is the band of its queries among all keys."""
    d = c.dims
    first = min(max(near.low, 0), d.keys)
    last = max(min(near.highest + d.queries, d.keys), first)
    if first == last:
        return empty(caps, scratch, c)
    count = last - first
    k, v = (_part(x, 2, first, count) for x in (c.k, c.v))
    shape = (d.batch, d.heads, d.queries, count)
    s = _rows(scores, shape)
    p = s if weights is None else _rows(weights, shape)
    precision = "fast" if c.in_one_piece and weights is not None else "high"
    wide = cdiv(count, 4) * 4
    threads = next((n for n in sorted(ROWS) if 16 * n >= wide), max(ROWS))
    softmax = attention_softmax.step(
        caps, c.sinks, _widened(s, wide), None if weights is None else _widened(p, wide), c.lse,
        LENGTH=ROWS[threads], heads=d.heads, queries=d.queries, keys=count,
        band_low=near.low - first if near.low > -OPEN else -OPEN,
        band_high=near.highest - first if near.highest < OPEN else OPEN,
        scale=c.rules()["scale"], softcap=c.softcap,
    )  # fmt: skip
    before = mul_mat.plan(caps, scratch, k, c.q, None, None, s, None, precision)
    turned = v.with_layout(
        (*v.shape[:2], v.shape[3], count), (*v.strides[:2], v.strides[3], v.strides[2])
    )
    after = mul_mat.plan(caps, scratch, turned, p, None, None, c.dst, None, precision)
    factor = 1.0 if weights is None else 1.0 / WEIGHTS
    first_product, last_product = (
        [_scaled(step, by) for step in steps] for steps, by in ((before, 1.0), (after, factor))
    )
    return [*first_product, softmax, *last_product]


def _scaled(step: Step, factor: float) -> Step:
    """The step of a product, with this factor as the product's scalar argument."""
    return replace(step, scalars=(factor,)) if step.body.args else step


def _rows(room: View, shape: tuple[int, int, int, int]) -> View:
    """The start of scratch memory in this shape, with rows of whole vectors."""
    wide = cdiv(shape[3], 4) * 4
    return room.with_layout(shape, contiguous_strides((*shape[:3], wide), room.dtype.itemsize))


def _widened(v: View, wide: int) -> View:
    return v.with_layout((*v.shape[:3], wide), v.strides)


def _part(v: View, axis: int, first: int, count: int) -> View:
    """The `count` indices of an axis from `first` on."""
    shape = (*v.shape[:axis], count, *v.shape[axis + 1 :])
    return replace(v, shape=shape, offset=v.offset + first * v.strides[axis])


def _depth_first(caps: Caps, scratch: Scratch, k: View, width: int) -> tuple[View, list[Step]]:
    """The keys in the layout that the large tiles of products read, D before T; all chunks share
    one copy. The keys themselves are returned if they have this layout, or if no binding holds the
    copy."""
    batch, heads, _, depth = k.shape
    name: DTypeName = k.dtype.name
    nbytes = batch * heads * depth * width * k.dtype.itemsize
    if abs(k.strides[3]) > abs(k.strides[2]) or nbytes + caps.alignment > caps.max_binding:
        return k, []
    copy = scratch.empty((batch, heads, depth, width), name)
    b, h, low, high = copy.strides
    turned = copy.with_layout(k.shape, (b, h, high, low))
    return turned, cpy.plan(caps, scratch, k, turned)
