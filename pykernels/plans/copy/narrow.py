"""narrow: converts each element once, in the order of dst's memory."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels._generated.bodies import narrow as body
from pykernels.plans.parts import each_part
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, src: View, dst: View) -> list[Step]:
    """The steps: one dispatch, or more if a tensor is larger than one binding; none for an empty
    dst."""
    return each_part(caps, (src, dst), _step) if dst.size else []


def _step(caps: Caps, views: Sequence[View]) -> Step:
    shape = views[-1].shape
    watch = Watch("int64", 1 << 31, shape, shape, least=-(1 << 31))
    return body.step(caps, *views, watch=watch)
