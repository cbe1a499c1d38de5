"""One call of flash_attn, and the steps that combine the splits of its keys."""

from __future__ import annotations

from dataclasses import dataclass

from pykernels._generated.bodies import attention_combine, attention_combine_tiles
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .arguments import Band, Dims

__all__ = ["Call", "combine", "combine_tiles", "empty", "in_vectors", "whole_depth"]

LOG2E = 1.4426950408889634
COLUMNS = attention_combine.CONFIGS["cols32"].COLS  # columns that one workgroup computes


@dataclass(frozen=True)
class Call:
    """One call: its tensors, sizes and rules.

    `lse` is scratch if the caller did not ask for it. `mask` is broadcast to (B, H, S, T). If
    `lengths` (B,) is given, `band` is the band of a batch that has all T keys. For ALiBi slopes,
    heads are numbered from `first_head` on, and `alibi_heads` is computed from all heads of the
    caller's call.
    """

    q: View
    k: View
    v: View
    mask: View | None
    sinks: View | None
    lengths: View | None
    lse: View
    dst: View
    dims: Dims
    band: Band
    scale: float
    max_bias: float
    softcap: float
    alibi_heads: int
    first_head: int = 0
    in_one_piece: bool = False  # True: matrix units may add a sum of any length in one piece

    def rules(self) -> dict[str, float]:
        """Params for the visible keys and the scales of logits."""
        return {
            "band_low": self.band.low,
            "band_high": self.band.highest if self.lengths is None else self.band.high,
            "band_top": self.band.top,
            "alibi_heads": self.alibi_heads,
            "alibi_first": self.first_head,
            "scale": self.scale * LOG2E,
            "max_bias": self.max_bias,
            "softcap": self.softcap,
        }


def combine(caps: Caps, partials: View, sums: View, c: Call) -> Step:
    """Combine the sums of all splits into one result."""
    d = c.dims
    plain = c.dst.contiguous and c.lse.contiguous and c.sinks is None
    return attention_combine.step(
        caps, partials, sums, c.sinks, c.lse, c.dst,
        rows=d.batch * d.heads * d.queries,
        column_bits=(max(cdiv(d.value_depth, COLUMNS), 1) - 1).bit_length(),
        row_step=d.value_depth if plain else 0,
    )  # fmt: skip


def combine_tiles(caps: Caps, partials: View, sums: View, c: Call, before: int = 0) -> Step:
    """Like `combine`, but for few splits of many rows, and only for the rows of dst from `before`
    on."""
    rows = c.dims.batch * c.dims.heads * c.dims.queries - before
    width = partials.shape[partials.ndim - 1]
    return attention_combine_tiles.step(
        caps, partials, sums, c.sinks, c.lse, c.dst,
        splits=partials.shape[0], rows=rows, width=width, first_row=before,
    )  # fmt: skip


def empty(caps: Caps, scratch: Scratch, c: Call) -> list[Step]:
    """The result if there are no keys: zeros, made by combining no splits."""
    partials = scratch.empty((1, 1, 1, 1, 4), "float32")
    sums = scratch.empty((1,), "float32")
    none = partials.with_layout((0, *partials.shape[1:]), partials.strides)
    return [combine(caps, none, sums, c)]


def in_vectors(view: View, nbytes: int = 16) -> bool:
    """True if rows consist of whole vectors of `nbytes` bytes and are aligned to them."""
    return view.vectorizable(nbytes // view.dtype.itemsize)


def whole_depth(d: Dims) -> int:
    """The depth of values in whole vectors."""
    return cdiv(d.value_depth, 4) * 4
