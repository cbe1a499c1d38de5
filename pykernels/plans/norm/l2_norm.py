"""l2_norm: a norm over rows, planned in rows.py."""

from __future__ import annotations

from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import rows
from .statistics import Norm

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View, eps: float) -> list[Step]:
    """One dispatch for rows that registers hold."""
    if not eps >= 0:
        raise ArgumentError(f"[l2_norm] eps must be 0 or more but is {eps}")
    norm = Norm("l2_norm", False, eps, l2=True)
    return rows.plan(caps, scratch, norm, x, None, None, None, None, dst)
