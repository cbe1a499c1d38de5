"""schedule_step: one invocation."""

from __future__ import annotations

from pykernels._generated.bodies import schedule_step as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import check_one

__all__ = ["COLUMNS", "plan"]

COLUMNS = 6


def plan(caps: Caps, scratch: Scratch, table: View, count: View, value: View) -> list[Step]:
    """One dispatch."""
    op = "schedule_step"
    if len(table.shape) != 2 or table.shape[0] == 0 or table.shape[1] != COLUMNS:
        raise ShapeError(f"[{op}] table must have shape (segments, {COLUMNS}), not {table.shape}")
    check_one(op, "count", count)
    check_one(op, "value", value)
    return [body.step(caps, table, count, value)]
