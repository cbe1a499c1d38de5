"""What the plans of gather and scatter share: one side whose place along an axis an index gives."""

from __future__ import annotations

from pykernels.errors import DTypeError, ShapeError
from pykernels.layout import View

__all__ = ["check", "picked"]


def check(op: str, src: View, index: View, dst: View, axis: int, name: str) -> int:
    """The axis from the front; `name` says which of src and dst the index picks from."""
    side, other = (src, dst) if name == "src" else (dst, src)
    if not -side.ndim <= axis < side.ndim:
        raise ShapeError(f"[{op}] axis {axis} does not exist in shape {side.shape}")
    at = axis % side.ndim
    rest = "dst" if name == "src" else "src"
    if other.shape != index.shape:
        raise ShapeError(
            f"[{op}] {rest} must have the shape of index, {index.shape}, but has {other.shape}"
        )
    if side.ndim != index.ndim or not all(
        a == at or index.shape[a] <= side.shape[a] for a in range(side.ndim)
    ):
        raise ShapeError(
            f"[{op}] index must have as many axes as {name} and, but for axis {axis}, no larger "
            f"sizes than {side.shape} but has shape {index.shape}"
        )
    if src.dtype != dst.dtype:
        raise DTypeError(
            f"[{op}] dst must have the dtype of src, {src.dtype.name}, but is {dst.dtype.name}"
        )
    return at


def picked(side: View, index: View, at: int) -> View:
    """The side with the axis `at` as its last one, behind those of index, where it has size 1."""
    shape = (*index.shape[:at], 1, *index.shape[at + 1 :], side.shape[at])
    strides = (*side.strides[:at], 0, *side.strides[at + 1 :], side.strides[at])
    return side.with_layout(shape, strides)
