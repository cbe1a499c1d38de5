"""get_rows: rows of src that the index picks, to rows of dst in order."""

from __future__ import annotations

from pykernels._generated.bodies import get_rows as body
from pykernels.errors import ShapeError
from pykernels.faults import Watch
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step

from .move_rows import check as check_rows
from .move_rows import move, repeats, spread

__all__ = ["plan"]

SHARE = body.CONFIGS["cols2"]  # of the work of one workgroup


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, check: bool = True
) -> list[Step]:
    """One dispatch; none for an empty dst."""
    shape = index.shape
    if index.ndim == 0 and dst.ndim == 1:  # one row
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
    if limit == 0:  # every index is out of range: what is read of this is not used
        src = scratch.empty((1, src.shape[-1]), src.dtype.name)
    watch = Watch("index", limit, shape, rows) if check else None
    src, index, dst = spread("get_rows", lead, (src, index, dst), (2, 1, 2))
    src, dst, how = move(src, dst, SHARE.COLS, SHARE.threads)
    last_row = max(limit - 1, 0)
    return [
        body.step(
            caps, src, index, dst, limit=limit, last_row=last_row, watch=watch, **how._asdict()
        )
    ]  # fmt: skip
