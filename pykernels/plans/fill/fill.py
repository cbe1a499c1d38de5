"""fill: a contiguous view is memset's work, any other goes element by element."""

from __future__ import annotations

from pykernels._generated.bodies import fill as fill_body
from pykernels._generated.bodies import memset as memset_body
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step
from pykernels.plans.runs import chunks

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, dst: View) -> list[Step]:
    """One or more dispatches that write every element once."""
    if dst.size == 0:
        return []
    if dst.contiguous:
        return [memset_body.step(caps, part) for (part,) in chunks(caps, [dst])]
    return [fill_body.step(caps, dst)]
