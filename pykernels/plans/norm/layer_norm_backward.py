"""layer_norm_backward: the gradient of a norm over rows, planned in rows_backward.py."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import rows_backward
from .rows_backward import choose
from .statistics import Norm

__all__ = ["choose", "plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    dy: View,
    x: View,
    weight: View | None,
    ds: View | None,
    dweight: View | None,
    dbias: View | None,
    dst: View,
    eps: float,
) -> list[Step]:
    """One pass for rows that fit into registers, then the sums of its partial results."""
    norm = Norm("layer_norm_backward", True, eps)
    return rows_backward.plan(caps, scratch, norm, dy, x, weight, ds, dweight, dbias, dst)
