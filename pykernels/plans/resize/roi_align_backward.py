"""roi_align_backward: one dispatch over pixels."""

from __future__ import annotations

from pykernels._generated.bodies import roi_align_backward as body
from pykernels.errors import ShapeError
from pykernels.plans.parts import parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .roi_align import check, shift

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, dy: View, boxes: View, index: View, dst: View,
    sampling_ratio: int = 0, aligned: bool = False,
) -> list[Step]:  # fmt: skip
    """One step, more if a tensor is larger than one binding; none for an empty dst."""
    check("roi_align_backward", dst, boxes, index, dy, "dy", sampling_ratio)
    if dst.size == 0:
        return []
    if dy.shape[2] * dy.shape[3] == 0:
        raise ShapeError(f"[roi_align_backward] dy must have bins but has shape {dy.shape}")
    views = {"dy": dy, "boxes": boxes, "index": index, "dst": dst}
    found = [part.views for part in parts(caps, views, [{"dy": 1, "dst": 1}])]
    return [
        body.step(
            caps, v["dy"], v["boxes"], v["index"], v["dst"], ratio=sampling_ratio,
            shift=shift(aligned),
        )
        for v in found
    ]  # fmt: skip
