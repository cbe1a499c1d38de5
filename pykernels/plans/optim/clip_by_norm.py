"""clip_by_norm: one dispatch, more if a tensor is larger than a binding."""

from __future__ import annotations

from pykernels._generated.bodies import clip_by_norm as body
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import check_one
from .cut import cut

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, norm: View, x: View) -> list[Step]:
    """One dispatch for each part."""
    check_one("clip_by_norm", "norm", norm)
    return [body.step(caps, norm, part["x"]) for part in cut(caps, x.shape, {"x": x})]
