"""fill_where: one body over the elements of the mask and the view."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels._generated.bodies import fill_where as body
from pykernels.plans.parts import each_part
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, mask: View, dst: View) -> list[Step]:
    """One dispatch, more if a tensor is larger than one binding; none for an empty dst."""
    if dst.size == 0:
        return []
    return each_part(caps, (mask, dst), _step)


def _step(caps: Caps, views: Sequence[View]) -> Step:
    return body.step(caps, *views)
