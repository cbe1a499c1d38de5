"""randn: each invocation writes four neighbours, as a vector if dst has vectors."""

from __future__ import annotations

from pykernels._generated.bodies import randn as body
from pykernels.plans.fours import pieces
from pykernels.plans.runs import KINDS
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .state import check_state

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, state: View | None, dst: View) -> list[Step]:
    """One dispatch, more if dst is larger than a binding; none for an empty dst."""
    check_state("randn", state)
    size, kind = dst.dtype.itemsize, KINDS[dst.dtype.name]
    return [
        body.step(caps, state, view, S=size, V=v, first=first, kind=kind)
        for view, v, first in pieces(caps, dst)
    ]
