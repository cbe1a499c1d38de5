"""Rotary position embedding: gradients are rotated back by the same angles."""

from __future__ import annotations

from pykernels import functional as F
from pykernels._generated.operations.rope import rope as _rope
from pykernels.tape import Taped, reads


@reads("positions", "table")
def rope(call: Taped) -> None:
    turned = _rope(
        call.dy(), call.saved("positions"), table=call.saved("table"),
        style=call.option("style"), backward=not call.scalar("backward"), out=call.room("x")[0],
    )  # fmt: skip
    call.give("x", turned)


@reads("positions", "table")
def rope_append(call: Taped) -> None:
    """Gradients of queries and keys are rotated back. Keys and values get the gradients of the rows
    of the cache to which they were written; the cache keeps the gradients of its other rows."""
    shape, cache = call.shape("x"), call.shape("cache")
    assert shape is not None and cache is not None
    dq, dcache = call.dy(), call.dy("cache")
    given = dq if dcache is None else dcache
    device, dtype = given.device, given.dtype
    lead, (tokens, width), kept = shape[:-3], shape[-2:], cache[-3]
    queries = shape[-3] - kept
    positions = call.saved("positions")
    index = positions if positions.ndim == 1 else positions[..., None, :]
    new = device.zeros((*lead, kept, tokens, width), dtype)
    if dcache is not None:
        left = dcache.copy()
        F.set_rows(new, index, left, check=False, distinct=True)
        call.give("cache", left)
        F.get_rows(dcache, index, check=False, out=new)
    if dq is None:
        dq = device.zeros((*lead, queries, tokens, width), dtype)
    dx = F.concatenate([dq, new], axis=-3)
    turned = dx[..., : queries + kept // 2, :, :]
    _rope(
        turned, positions, table=call.saved("table"), style=call.option("style"), backward=True,
        out=turned,
    )  # fmt: skip
    call.give("x", dx)
