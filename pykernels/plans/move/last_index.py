"""last_index: if there are few indices, they are compared with each other; else a hash table keeps
the last of equal indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pykernels._generated.bodies import bincount_clear, last_claim, last_keep, last_pairs
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Ints, View, contiguous_strides
from pykernels.wgsl.watch import Watch

__all__ = ["Lasts", "lasts", "plan", "table_of"]

MOST_PAIRS = 1 << 18  # most comparisons; up to this number they cost less than two more dispatches


def plan(
    caps: Caps, scratch: Scratch, index: View, kept: View, axis: int = -1, limit: int = 2**31 - 1,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """The steps: one dispatch, or three for many indices; none for an empty index."""
    if kept.shape != index.shape:
        raise ShapeError(
            f"[last_index] kept must have the shape of index, {index.shape}, but has {kept.shape}"
        )
    if index.ndim == 0:
        index, kept = index.as_rank(1), kept.as_rank(1)
    if not -index.ndim <= axis < index.ndim:
        raise ShapeError(f"[last_index] axis {axis} does not exist in shape {index.shape}")
    if not 0 <= limit < 2**31:
        raise ArgumentError(f"[last_index] limit must be in [0, 2**31) but is {limit}")
    if index.size == 0:
        return []
    watch = Watch("index", limit, index.shape, index.shape) if check else None
    at = axis % index.ndim
    table = scratch.empty((2 * index.size,), "int32") if _many(index, at) else None
    return _steps(caps, index, kept, table, at, limit, watch)


@dataclass(frozen=True)
class Lasts:
    """Temporaries shared by all steps whose index must not name a place twice.

    `kept` and `table` are slots of scratch; the indices count along `axis`.
    """

    axis: int
    kept: int
    table: int | None

    def steps(
        self, caps: Caps, index: View, limit: int, watch: Watch | None
    ) -> tuple[View, Watch | None, list[Step]]:
        """For one step, the index without repeats, the watch that is still needed, and the steps
        that make this index."""
        if index.shape[self.axis] == 1:
            return index, watch, []
        own = _once(index)
        kept = _temporary(self.kept, own.shape)
        table = None if self.table is None else _temporary(self.table, (2 * own.size,))
        if watch is not None:
            first, whole = (watch.first, watch.whole) if watch.whole else (None, index.shape)
            watch = watch.part(watch.step, first or (0,) * index.ndim, own.shape, whole)
            watch = replace(watch, each=index.size // own.size)
        made = _steps(caps, own, kept, table, self.axis, limit, watch)
        return kept.broadcast_to(index.shape), None, made


def lasts(scratch: Scratch, indices: Sequence[View], axis: int) -> Lasts:
    """The temporaries of steps with these indices."""
    own = [_once(index) for index in indices if index.shape[axis] > 1]
    kept = scratch.reserve(4 * max([i.size for i in own], default=0))
    tables = [8 * i.size for i in own if _many(i, axis)]
    return Lasts(axis, kept, scratch.reserve(max(tables)) if tables else None)


def table_of(index: View) -> View:
    """A view with the size of the hash table of an index, with the index's axes. If a call is cut,
    one binding must hold the table of each part."""
    item = DTYPES["int64"]
    return View(index.slot, item, index.shape, contiguous_strides(index.shape, item.itemsize), 0)


def _many(index: View, axis: int) -> bool:
    return index.size * index.shape[axis] > MOST_PAIRS


def _once(index: View) -> View:
    """The index with one element along each axis on which it does not change."""
    pairs = zip(index.shape, index.strides, strict=True)
    shape = tuple([1 if s == 0 else n for n, s in pairs])
    return index.with_layout(shape, index.strides)


def _temporary(slot: int, shape: Ints) -> View:
    item = DTYPES["int32"]
    return View(slot, item, shape, contiguous_strides(shape, item.itemsize), 0)


def _steps(
    caps: Caps, index: View, kept: View, table: View | None, axis: int, limit: int,
    watch: Watch | None,
) -> list[Step]:  # fmt: skip
    length, inner = index.shape[axis], math.prod(index.shape[axis + 1 :])
    if table is None or not _many(index, axis):
        pitch = index.strides[axis] // index.dtype.itemsize % (1 << 32)
        return [
            last_pairs.step(
                caps, index, kept, limit=limit, length=length, inner=inner, pitch=pitch,
                watch=watch,
            )
        ]  # fmt: skip
    slots = table.size
    return [
        bincount_clear.step(caps, table),
        last_claim.step(
            caps, index, table, limit=limit, length=length, inner=inner, slots=slots, watch=watch
        ),
        last_keep.step(caps, index, table, kept, limit=limit, length=length, inner=inner,
                       slots=slots),
    ]  # fmt: skip
