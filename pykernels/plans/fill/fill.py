"""fill: memset fills a contiguous view; other views are filled element by element."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels._generated.bodies import fill as fill_body
from pykernels._generated.bodies import memset as memset_body
from pykernels.plans.parts import each_part
from pykernels.plans.runs import chunks
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, dst: View) -> list[Step]:
    """One or more dispatches that write every element once."""
    if dst.size == 0:
        return []
    if dst.contiguous:
        return [memset_body.step(caps, part) for (part,) in chunks(caps, [dst])]
    return each_part(caps, [dst], _step)


def _step(caps: Caps, views: Sequence[View]) -> Step:
    return fill_body.step(caps, views[0])
