"""The order of blocks of query rows and their results, for all bodies that compute such blocks."""

from __future__ import annotations

from dataclasses import replace

from pykernels.plans.copy import cpy
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .call import Call, combine, combine_tiles, in_vectors, whole_depth
from .select import AttentionChoice, RowBlocks, order

__all__ = ["partials", "places", "vector_dst"]


def places(
    caps: Caps, c: Call, choice: AttentionChoice, blocks: RowBlocks, heads: int, columns: int
) -> dict[str, int]:
    """Params with the sizes and the order of blocks, for a dispatch of `heads` KV heads whose
    values need `columns` workgroups."""
    d = c.dims
    run, spread, rest = 1, 1, 0
    if c.band.hides:
        run = blocks.head_blocks
        spread, rest = choice.order or order(caps.tuning, choice.body, d, blocks, heads)
    return {
        "kv_heads": d.kv_heads, "group": d.group, "queries": d.queries, "keys": d.keys,
        "value_depth": d.value_depth, "pitch": blocks.pitch, "columns": columns,
        "run": run, "breadth": blocks.total // run * columns, "spread": spread, "rest": rest,
    }  # fmt: skip


def partials(caps: Caps, scratch: Scratch, c: Call, splits: int) -> tuple[View, View, list[Step]]:
    """The scratch for results and lse of the splits of the keys, and the step that combines
    them."""
    partials = scratch.empty((splits, *c.dst.shape[:3], whole_depth(c.dims)), "float32")
    sums = scratch.empty((splits, *c.dst.shape[:3]), "float32")
    few = splits <= caps.tuning.attention.combine.tile_splits
    finish = combine_tiles if few else combine
    return partials, sums, [finish(caps, partials, sums, c)]


def vector_dst(caps: Caps, scratch: Scratch, c: Call) -> tuple[Call, list[Step]]:
    """The call with dst in rows of whole vectors. If dst has no such rows, scratch replaces it, and
    the steps copy the scratch to dst."""
    if in_vectors(c.dst, 4 * c.dst.dtype.itemsize):
        return c, []
    rows = scratch.empty((*c.dst.shape[:3], whole_depth(c.dims)), c.dst.dtype.name)
    copy = cpy.plan(caps, scratch, rows.with_layout(c.dst.shape, rows.strides), c.dst)
    return replace(c, dst=rows), copy
