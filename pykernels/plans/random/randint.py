"""randint: each invocation writes four neighbours, as a vector if dst has vectors."""

from __future__ import annotations

from pykernels._generated.bodies import randint as body
from pykernels.plans.fours import pieces
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .state import check_state

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, state: View | None, dst: View) -> list[Step]:
    """One dispatch, more if dst is larger than a binding; none for an empty dst."""
    check_state("randint", state)
    return [
        body.step(caps, state, view, S=4, V=v, first=first) for view, v, first in pieces(caps, dst)
    ]
