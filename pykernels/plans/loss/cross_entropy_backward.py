"""cross_entropy_backward: one dispatch for each part that a binding holds."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .classes import check_classes, numbers_of
from .gradient import gradient

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    target: View,
    stats: View,
    dy: View,
    total: View | None,
    weight: View | None,
    dst: View,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> list[Step]:
    """One step; more if a tensor is larger than one binding."""
    op = "cross_entropy_backward"
    check_classes(op, x, target, weight)
    lead = x.shape[:-1]
    if stats.shape != (*lead, 2):
        raise ShapeError(f"[{op}] stats must have shape {(*lead, 2)} but has {stats.shape}")
    numbers = numbers_of(op, ignore_index, label_smoothing, x.shape[-1])
    return gradient(op, caps, scratch, x, target, stats, dy, total, weight, dst, numbers)
