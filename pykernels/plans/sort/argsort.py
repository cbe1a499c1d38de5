"""argsort: the positions of the sorted elements of each row."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .order import check, ordered

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View, descending: bool = False) -> list[Step]:
    """The steps: one dispatch for short rows; for longer rows dispatches that sort and merge
    pieces, or several dispatches for each four bits of an element."""
    check("argsort", x)
    return ordered(caps, scratch, x, None, dst, descending)
