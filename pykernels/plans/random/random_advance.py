"""random_advance: one invocation."""

from __future__ import annotations

from pykernels._generated.bodies import random_advance as body
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .state import check_state

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, dst: View) -> list[Step]:
    """One dispatch."""
    check_state("random_advance", dst)
    return [body.step(caps, dst)]
