"""set_rows: copies the rows of src, in order, to the rows of dst that the index picks."""

from __future__ import annotations

from pykernels._generated.bodies import set_rows as body
from pykernels.errors import ShapeError
from pykernels.plans.move.last_index import lasts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .move_rows import Share, move, shares, spread
from .move_rows import check as check_rows

__all__ = ["plan"]

SHARE = body.CONFIGS["cols2"]  # the work of one workgroup


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, check: bool = True,
    distinct: bool = False,
) -> list[Step]:  # fmt: skip
    """The dispatches of last_index and one more; none for an empty src, several if a tensor is
    larger than one binding. In that case, later dispatches write later rows."""
    if src.ndim < 2 or dst.ndim != src.ndim or dst.shape[:-2] != src.shape[:-2]:
        raise ShapeError(
            "[set_rows] src and dst must have two or more axes, all but the last two the same, but "
            f"have shapes {src.shape} and {dst.shape}"
        )
    lead, rows, limit = src.shape[:-2], src.shape[:-1], dst.shape[-2]
    check_rows("set_rows", src, index, dst, rows)
    if src.size == 0:
        return []
    if limit == 0:  # every index is out of range, so nothing is written to this view
        dst = scratch.empty((*lead, 1, dst.shape[-1]), dst.dtype.name)
    watch = Watch("index", limit, index.shape, rows) if check else None
    single = distinct or rows[-1] == 1
    src, index, dst = spread("set_rows", lead, (src, index, dst), (2, 1, 2))
    found = shares(caps, src, index, dst, "dst", watch, table=not single)
    last = None if single else lasts(scratch, [share.index for share in found], index.ndim - 1)
    steps: list[Step] = []
    for share in found:
        places, left = share.index, share.watch
        if last is not None:
            places, left, before = last.steps(caps, places, limit, left)
            steps += before
        steps.append(_step(caps, share, places, limit, left))
    return steps


def _step(caps: Caps, share: Share, places: View, limit: int, watch: Watch | None) -> Step:
    src, dst, how = move(share.src, share.dst, SHARE.COLS, SHARE.threads)
    return body.step(
        caps, src, places, dst, limit=limit, first_row=share.first_row,
        own_rows=min(dst.shape[-2], limit), watch=watch, **how._asdict(),
    )  # fmt: skip
