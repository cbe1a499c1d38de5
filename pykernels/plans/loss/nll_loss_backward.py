"""nll_loss_backward: one dispatch for each part that a binding holds; the input is not read."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .classes import check_classes, numbers_of
from .gradient import gradient

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    target: View,
    dy: View,
    total: View | None,
    weight: View | None,
    dst: View,
    ignore_index: int = -100,
) -> list[Step]:
    """One step; more if a tensor is larger than one binding."""
    op = "nll_loss_backward"
    check_classes(op, dst, target, weight, "dst")
    numbers = numbers_of(op, ignore_index, 0.0, dst.shape[-1])
    return gradient(op, caps, scratch, None, target, None, dy, total, weight, dst, numbers)
