"""add_rms_norm: a norm over rows, planned in rows.py."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import rows
from .statistics import Norm

__all__ = ["plan"]


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    residual: View,
    weight: View | None,
    summed: View,
    dst: View,
    eps: float,
) -> list[Step]:
    """One dispatch for rows that registers hold."""
    norm = Norm("add_rms_norm", False, eps)
    return rows.plan(caps, scratch, norm, x, residual, weight, None, summed, dst)
