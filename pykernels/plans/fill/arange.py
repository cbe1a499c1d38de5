"""arange: an invocation writes four neighbours, as a vector if dst has whole vectors."""

from __future__ import annotations

from pykernels._generated.bodies import arange as body
from pykernels.plans.fours import pieces
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, dst: View) -> list[Step]:
    """One dispatch, more if a tensor is larger than one binding; none for an empty dst."""
    kind = "f32" if dst.dtype.kind == "f" else "u32"
    return [body.step(caps, view, T=kind, V=v, first=first) for view, v, first in pieces(caps, dst)]
