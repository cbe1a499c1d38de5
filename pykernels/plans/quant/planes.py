"""Views of the planes of quantised weights, as bodies bind them."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels.errors import ShapeError
from pykernels.tensors.block_types import BlockType, planes
from pykernels.tensors.layout import View, contiguous_strides

__all__ = ["bound", "low_rows"]


def bound(
    op: str, kind: BlockType, shape: tuple[int, ...], low: View, scales: View, high: View | None
) -> tuple[View, View, View | None]:
    """The planes of a tensor of this shape, checked; `low` counts its rows in vectors."""
    wanted = planes(op, kind, shape)
    given = {"low": low, "scales": scales, "high": high}
    for name, want in zip(given, wanted, strict=True):
        view = given[name]
        if (None if view is None else view.shape) != want:
            raise ShapeError(
                f"[{op}] {name} of {kind.name} {shape} must have shape {want} but has "
                f"{None if view is None else view.shape}"
            )
        if view is not None and view.strides != contiguous_strides(view.shape, 4):
            raise ShapeError(f"[{op}] {name} must be contiguous")
    if low.offset % (4 * kind.vec):
        raise ShapeError(f"[{op}] low must begin at a multiple of {4 * kind.vec} bytes")
    return low_rows(low), scales, high


def low_rows(low: View) -> View:
    """The plane `low` with a vector of each row as one element along its last axis."""
    return low.with_layout(low.shape[:-1], low.strides[:-1])


def flat(shape: Sequence[int]) -> tuple[int, int, int]:
    """Batches, rows and numbers of a row."""
    batches = 1
    for size in shape[:-2]:
        batches *= size
    return batches, shape[-2], shape[-1]
