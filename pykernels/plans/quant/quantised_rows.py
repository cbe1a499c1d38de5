"""quantised_rows: a dispatch for each part of columns and of rows that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import quantised_rows as body
from pykernels.errors import ShapeError
from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View
from pykernels.wgsl.watch import Watch

from .planes import in_fours, read
from .types import GROUP, type_of

__all__ = ["plan"]

_TILE = body.CONFIGS["rows32"]


def plan(
    caps: Caps, scratch: Scratch, low: View, scales: View, high: View | None, index: View,
    dst: View, quant: str = "q4_0", rows: int = 0, check: bool = True,
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty dst."""
    kind = type_of("quantised_rows", quant)
    if dst.ndim < 1 or dst.shape[:-1] != index.shape:
        raise ShapeError(
            f"[quantised_rows] dst must be (*index.shape, K) but dst and index have shapes "
            f"{dst.shape} and {index.shape}"
        )
    columns = dst.shape[-1]
    copies, low, scales, high = read(
        "quantised_rows", caps, scratch, kind, (rows, columns), low, scales, high
    )
    if dst.size == 0:
        return []
    shape = index.shape
    if index.ndim == 0:
        index, dst = index.as_rank(1), dst.as_rank(2)
    watch = Watch("index", rows, shape, index.shape) if check else None
    # The axis of blocks of columns may be cut, and so may the axes of the index.
    groups, last = kind.block // GROUP, dst.ndim - 1
    views = {
        "low": _in_blocks(low, 1, groups),
        "scales": scales,
        "index": index,
        "dst": _in_blocks(dst, last, kind.block),
    }
    along = {"low": 1, "scales": 1, "dst": last}
    if high is not None:
        views["high"], along["high"] = _in_blocks(high, 1, groups), 1
    lead = [{"index": axis, "dst": axis} for axis in range(index.ndim)]
    found = [
        part
        for each in parts(caps, views, [*lead, along])
        for part in in_levels(each, lead, Rows.LEVELS)
    ]
    steps = copies
    for number, part in enumerate(found):
        view, own = part.views, watch if part.first[-1] == 0 else None
        if own is not None and len(found) > 1:
            own = own.part(number, part.first[:-1], view["index"].shape, index.shape)
        out, vec = in_fours(_joined(view["dst"], last))
        above = _joined(view["high"], 1) if high is not None else None
        n = groups * view["scales"].shape[1]
        steps.append(
            body.step(
                caps, _joined(view["low"], 1), view["scales"], above, view["index"], out,
                TYPE=kind.name, LV=kind.vec, V=vec, groups_k=n, limit=rows,
                across=cdiv(n, _TILE.GROUPS), watch=own,
            )
        )  # fmt: skip
    return steps


def _in_blocks(view: View, axis: int, size: int) -> View:
    """The view with an axis split into two, the second of length `size`."""
    shape, steps = view.shape, view.strides
    return view.with_layout(
        (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :]),
        (*steps[:axis], steps[axis] * size, steps[axis], *steps[axis + 1 :]),
    )


def _joined(view: View, axis: int) -> View:
    """The view with the two axes of `_in_blocks` merged again."""
    shape, steps = view.shape, view.strides
    return view.with_layout(
        (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]),
        (*steps[:axis], *steps[axis + 1 :]),
    )
