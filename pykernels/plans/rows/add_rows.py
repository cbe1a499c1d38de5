"""add_rows: a stable sort of the index, then sums of runs of equal keys, list by list."""

from __future__ import annotations

from pykernels._generated.bodies import segment_rows
from pykernels.errors import ShapeError
from pykernels.plans.parts import parts
from pykernels.plans.sort.sorted_index import sorted_index
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

__all__ = ["plan"]

PIECE = 32  # rows that an invocation of segment_rows adds
NONE = 0xFFFFFFFF


def plan(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, skip: int | None = None,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """The sort, and a dispatch for each list; a list has 1/16 of the rows of the previous list."""
    if src.ndim != 2 or index.shape != src.shape[:1] or dst.shape[1:] != src.shape[1:]:
        raise ShapeError(
            "[add_rows] src, index and dst must have shapes (n, k), (n,) and (m, k) but have "
            f"{src.shape}, {index.shape} and {dst.shape}"
        )
    if src.shape[0] == 0:
        return []
    limit, k = dst.shape[0], src.shape[1]
    watch = Watch("index", limit, index.shape, index.shape) if check else None
    steps, keys, order = sorted_index(caps, scratch, index, 0, limit, watch)
    if dst.size == 0:  # an empty dst needs only the step that checks the index
        return steps[:1]
    vectors = all(v.vectorizable(4) for v in (src, dst))
    v = 4 if vectors else 1
    if vectors:
        src, dst = _in_fours(src), _in_fours(dst)
    values, first = src, True
    # If no binding holds dst, each dispatch has some rows of dst; all of them write the same next
    # list.
    shares = parts(caps, {"dst": dst}, [{"dst": 0}])
    none = NONE if skip is None or not 0 <= skip < limit else skip
    while True:
        pieces = cdiv(keys.shape[0], PIECE)
        last = pieces == 1
        next_keys, next_values, given = None, None, None
        if not last:
            next_keys = scratch.empty((2 * pieces,), "uint32")
            next_values = scratch.empty((2 * pieces, k), "float32")
            given = _in_fours(next_values) if vectors else next_values
        steps += [
            segment_rows.step(
                caps, keys, order if first else None, values, next_keys, given, part.views["dst"],
                V=v, FIRST=first, LAST=last, first_row=part.first[0], skip=none,
            )
            for part in shares
        ]  # fmt: skip
        if next_keys is None or given is None:
            return steps
        keys, values, first = next_keys, given, False


def _in_fours(view: View) -> View:
    """The view in which four columns are one element."""
    shape = (view.shape[0], view.shape[1] // 4)
    return view.with_layout(shape, (view.strides[0], 4 * view.dtype.itemsize))
