"""complex: one body over the elements of the result."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels._generated.bodies import complex as body
from pykernels.plans.parts import each_part
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, real: View, imag: View | None, dst: View) -> list[Step]:
    """One dispatch, more if a tensor is larger than one binding; none for an empty dst."""
    if dst.size == 0:
        return []
    if imag is None:
        return each_part(caps, (real, dst), _real)
    return each_part(caps, (real, imag, dst), _both)


def _real(caps: Caps, views: Sequence[View]) -> Step:
    return body.step(caps, views[0], None, views[1])


def _both(caps: Caps, views: Sequence[View]) -> Step:
    return body.step(caps, *views)
