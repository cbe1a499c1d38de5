"""flash_attn of halves on matrix units."""

from __future__ import annotations

from pykernels._generated.bodies import attention_mma
from pykernels.plans.copy.padded import padded
from pykernels.plans.cost import tile_of
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.mma import UNIT, words
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .blocks import partials, places, vector_dst
from .call import Call
from .select import AttentionChoice, blocks_of
from .select_mma import TILES, longest

__all__ = ["matrix"]


def matrix(caps: Caps, scratch: Scratch, c: Call, choice: AttentionChoice) -> list[Step]:
    """The dispatches of a call in tiles of matrix units."""
    assert caps.matrix is not None
    tile = tile_of(choice.body)
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
        longest=tiles if c.in_one_piece else longest(tile, d.keys),
        RULES="all" if c.mask is not None or c.softcap else "band",
        **places(caps, c, choice, blocks, heads, columns), **c.rules(),  # type: ignore[arg-type]
    )  # fmt: skip
    return [*before, step, *after]


def _units(caps: Caps, scratch: Scratch, x: View, steps: list[Step]) -> View:
    """The tensor as words of two halves in rows of whole 16-byte units. If its rows are not whole
    units, a copy replaces it, whose steps are appended to `steps`."""
    if not x.vectorizable(UNIT):
        x, copied = padded(caps, scratch, x, UNIT)
        steps += copied
    return words(x)
