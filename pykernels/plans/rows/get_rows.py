"""get_rows: copies the rows of src that the index picks to the rows of dst, in order."""

from __future__ import annotations

from pykernels._generated.bodies import get_rows as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .move_rows import Share, move, repeats, shares, spread
from .move_rows import check as check_rows

__all__ = ["plan"]

SHARE = body.CONFIGS["cols2"]  # the work of one workgroup


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, check: bool = True
) -> list[Step]:
    """One dispatch; none for an empty dst, more if a tensor is larger than one binding."""
    shape = index.shape
    if index.ndim == 0 and dst.ndim == 1:  # the index picks one row
        index, dst = index.as_rank(1), dst.as_rank(2)
    if src.ndim < 2 or dst.ndim < 2 or not repeats(src.shape[:-2], dst.shape[:-2]):
        raise ShapeError(
            "[get_rows] src (..., m, k) must repeat to dst (..., n, k) along leading axes but they "
            f"have shapes {src.shape} and {dst.shape}"
        )
    lead, rows, limit = dst.shape[:-2], dst.shape[:-1], src.shape[-2]
    check_rows("get_rows", src, index, dst, rows)
    if dst.size == 0:
        return []
    if limit == 0:  # every index is out of range, so it does not matter which values are read
        src = scratch.empty((1, src.shape[-1]), src.dtype.name)
    watch = Watch("index", limit, shape, rows) if check else None
    src, index, dst = spread("get_rows", lead, (src, index, dst), (2, 1, 2))
    return [_step(caps, share, limit) for share in shares(caps, src, index, dst, "src", watch)]


def _step(caps: Caps, share: Share, limit: int) -> Step:
    src, dst, how = move(share.src, share.dst, SHARE.COLS, SHARE.threads)
    own_rows = min(src.shape[-2], limit)
    return body.step(
        caps, src, share.index, dst, limit=limit, first_row=share.first_row, own_rows=own_rows,
        last_row=max(own_rows - 1, 0), watch=share.watch, **how._asdict(),
    )  # fmt: skip
