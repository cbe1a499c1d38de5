"""softmax: rows in registers; longer rows in pieces; columns far apart through a transpose."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import softmax, softmax_apply, softmax_combine, softmax_partial
from pykernels.errors import ShapeError
from pykernels.layout import Rows, View
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.copy import cpy

__all__ = ["config", "plan"]

# Pieces of a long row: how softmax_partial and softmax_apply cut it, each its own way.
READ = softmax_partial.CONFIGS["piece1024"]
WRITTEN = softmax_apply.CONFIGS["piece1024"]


def config(cols: int, vec: int) -> str | None:
    """The first configuration that holds a row in registers."""
    rows = softmax.CONFIGS
    return next((name for name, c in rows.items() if c.LANES * c.N * vec >= cols), None)


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
) -> list[Step]:
    """The dispatches of one softmax."""
    if x.ndim == 0:
        raise ShapeError("[softmax] x must have at least one axis but has none")
    heads = x.shape[-3] if x.ndim >= 3 else 1
    if sinks is not None and sinks.shape != (heads,):
        raise ShapeError(f"[softmax] sinks must have shape ({heads},) but has {sinks.shape}")
    if x.size == 0:
        return []
    head = _Heads(heads, x.shape[-2] if x.ndim >= 3 else x.size)
    it = Rows(dst.shape, {"x": x, "mask": mask, "dst": dst}, ("mask",))
    found = config(it.cols, 4 if it.vec(4) else 1)
    most = caps.tuning.softmax.transpose_lanes
    if (found is None or softmax.CONFIGS[found].LANES > most) and it.columns_apart("x"):
        return _transposed(caps, scratch, x, mask, sinks, dst, head)
    return _rows(caps, scratch, x, mask, sinks, dst, head)


class _Heads(NamedTuple):
    """Number of heads (axis -3) and rows of one head; the second one starts the next head."""

    heads: int
    head_rows: int

    @property
    def alibi_heads(self) -> int:
        """The largest power of two up to the number of heads."""
        return 1 << (max(self.heads, 1).bit_length() - 1)


def _rows(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
    head: _Heads,
) -> list[Step]:
    """Rows in registers, or in pieces where they are too long for that."""
    it = Rows(dst.shape, {"x": x, "mask": mask, "dst": dst}, ("mask",))
    vec = 4 if it.vec(4) else 1
    named = {"head_rows": head.head_rows, "heads": head.heads}
    alibi = {**named, "alibi_heads": head.alibi_heads}
    found = config(it.cols, vec)
    if found is not None:
        return [softmax.step(caps, x, mask, sinks, dst, LENGTH=found, **alibi)]
    pieces = cdiv(it.cols, READ.threads * READ.N * vec)
    written = cdiv(it.cols, WRITTEN.threads * WRITTEN.N * vec)
    partials = scratch.empty((it.rows, pieces, 2), "float32")
    stats = scratch.empty((it.rows, 3), "float32")
    return [
        softmax_partial.step(caps, x, mask, partials, VEC=vec, pieces=pieces, **alibi),
        softmax_combine.step(caps, partials, sinks, stats, pieces=pieces, **named),
        softmax_apply.step(caps, x, mask, stats, dst, VEC=vec, pieces=written, **alibi),
    ]


def _transposed(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
    head: _Heads,
) -> list[Step]:
    """Columns far apart: three passes with coalesced access beat one without."""
    given = scratch.empty(x.shape, x.dtype.name)
    result = scratch.empty(x.shape, x.dtype.name)
    return [
        *cpy.plan(caps, scratch, x, given),
        *_rows(caps, scratch, given, mask, sinks, result, head),
        *cpy.plan(caps, scratch, result, dst),
    ]
