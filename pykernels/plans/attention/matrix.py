"""flash_attn of halves on matrix units."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.bodies import attention_mma
from pykernels.dtypes import DTYPES
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS

from .blocks import partials, places, vector_dst
from .call import Call
from .select import AttentionChoice, blocks_of
from .select_mma import TILES, UNIT, longest

__all__ = ["matrix"]


def matrix(caps: Caps, scratch: Scratch, c: Call, choice: AttentionChoice) -> list[Step]:
    """The dispatches of a call in tiles of matrix units."""
    assert caps.matrix is not None
    tile = choice.body.split("/")[1]
    d, own = c.dims, TILES[tile]
    before: list[Step] = []
    q, k, v = (_units(caps, scratch, x, before) for x in (c.q, c.k, c.v))
    tiles = cdiv(d.keys, own.BC)
    split_tiles = cdiv(tiles, max(choice.splits, cdiv(tiles, MAX_ROUNDS)))
    splits = cdiv(tiles, split_tiles)
    if splits > 1:
        out, sums, after = partials(caps, scratch, c, splits)
    else:
        c, after = vector_dst(caps, scratch, c)
        out, sums = c.dst, c.lse
    blocks = blocks_of(d, own.BR, c.band.hides)
    heads, columns = d.batch * d.kv_heads, cdiv(d.value_depth, own.DEPTH)
    step = attention_mma.step(
        caps, q, k, v, c.mask, c.sinks if splits == 1 else None, c.lengths, sums.as_rank(4),
        out.as_rank(5), MMA=caps.matrix.dialect, TILE=tile, depth=d.depth,
        ranks=heads * blocks.total * columns, split_tiles=split_tiles,
        longest=longest(tile, d.keys),
        **places(caps, c, choice, blocks, heads, columns), **c.rules(),  # type: ignore[arg-type]
    )  # fmt: skip
    return [*before, step, *after]


def _units(caps: Caps, scratch: Scratch, x: View, steps: list[Step]) -> View:
    """Words of two halves in rows of whole units; copied, in `steps`, where units cannot be
    read."""
    if not x.vectorizable(UNIT):
        once = (1 if step == 0 else n for n, step in zip(x.shape[:3], x.strides, strict=False))
        source = x.with_layout((*once, x.shape[3]), x.strides)
        padded = (*source.shape[:3], cdiv(x.shape[3], UNIT) * UNIT)
        copy = scratch.empty(padded, "float16")
        steps += cpy.plan(caps, scratch, source, copy.with_layout(source.shape, copy.strides))
        lead = zip(x.shape, source.shape, copy.strides, strict=True)
        strides = (0 if n != m else step for n, m, step in lead)
        x = copy.with_layout((*x.shape[:3], padded[3]), tuple(strides))
    words = (*x.shape[:3], x.shape[3] // 2)
    return replace(x, dtype=DTYPES["uint32"], shape=words, strides=(*x.strides[:3], 4))
