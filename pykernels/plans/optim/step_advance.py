"""step_advance: one invocation."""

from __future__ import annotations

from pykernels._generated.bodies import step_advance as body
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import check_one

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, skip: View | None, count: View) -> list[Step]:
    """One dispatch."""
    check_one("step_advance", "skip", skip)
    check_one("step_advance", "count", count)
    return [body.step(caps, skip, count)]
