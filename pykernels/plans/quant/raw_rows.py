"""raw_rows: a dispatch for each part of the rows and the index that bindings hold."""

from __future__ import annotations

from pykernels._generated.bodies import raw_rows as body
from pykernels.errors import LimitError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import MAX_PARTS, in_levels, narrow, parts
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View
from pykernels.wgsl.watch import Watch

from .planes import has_fours, in_fours
from .raw_types import RawType, raw_type_of, row_bytes

__all__ = ["plan"]

_TILE = body.CONFIGS["rows4"]


def plan(
    caps: Caps, scratch: Scratch, data: View, table: View | None, index: View, dst: View,
    quant: str = "iq2_xxs", check: bool = True,
) -> list[Step]:  # fmt: skip
    """One dispatch; none for an empty dst."""
    kind = raw_type_of("raw_rows", quant)
    _check(kind, data, table, index, dst)
    if dst.size == 0:
        return []
    limit, shape = data.shape[0], index.shape
    # If rows are not vectors of four numbers, a temporary gets them first. Rows of an index that is
    # out of range keep their values.
    own, before, after = dst, [], []
    if not has_fours(dst):
        wide = scratch.empty((*shape, cdiv(dst.shape[-1], 4) * 4), dst.dtype.name)
        own = wide
        inner = narrow(wide, wide.ndim - 1, 0, dst.shape[-1])
        before, after = cpy.plan(caps, scratch, dst, inner), cpy.plan(caps, scratch, inner, dst)
    watch = Watch("index", limit, shape, index.shape) if check else None
    lead = [{"index": axis, "dst": axis} for axis in range(index.ndim)]
    found = [
        (row, some, part)
        for row, some in _rows(caps, data)
        for each in parts(caps, {"index": index, "dst": own}, lead)
        for part in in_levels(each, lead, Rows.LEVELS)
    ]
    if len(found) > MAX_PARTS:
        raise LimitError(f"the call needs more than {MAX_PARTS} parts")
    steps = []
    for number, (row, some, (view, first)) in enumerate(found):
        seen = watch if row == 0 else None
        if seen is not None and len(found) > 1:
            seen = seen.part(number, first, view["index"].shape, index.shape)
        out, _ = in_fours(view["dst"])
        n = out.shape[-1]
        steps.append(
            body.step(
                caps, some, table, view["index"], out, TYPE=kind.name, fours=n, limit=limit,
                first_row=row, own_rows=some.shape[0], across=cdiv(n, _TILE.FOURS), watch=seen,
            )
        )  # fmt: skip
    return before + steps + after


def _check(kind: RawType, data: View, table: View | None, index: View, dst: View) -> None:
    if dst.ndim < 1 or dst.shape[:-1] != index.shape:
        raise ShapeError(
            f"[raw_rows] dst must be (*index.shape, K) but dst and index have shapes {dst.shape} "
            f"and {index.shape}"
        )
    want = row_bytes("raw_rows", kind, (1, dst.shape[-1]))
    if data.ndim != 2 or data.shape[1] != want or (data.size and data.strides[1] != 1):
        raise ShapeError(
            f"[raw_rows] data must be (rows, {want}) with the bytes of a row one after the other "
            f"for {dst.shape[-1]} numbers of {kind.name} but has shape {data.shape}"
        )
    given = None if table is None else table.shape
    wanted = (kind.words,) if kind.words else None
    if given != wanted:
        raise ShapeError(
            f"[raw_rows] table of {kind.name} must have shape {wanted} but has {given}"
        )


def _rows(caps: Caps, data: View) -> list[tuple[int, View]]:
    """The first row and the data of each part; an index may name a row of any of them."""
    return [
        (part.first[0], part.views["data"]) for part in parts(caps, {"data": data}, [{"data": 0}])
    ]
