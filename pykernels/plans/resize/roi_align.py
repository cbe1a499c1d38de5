"""roi_align: one dispatch over bins and channels."""

from __future__ import annotations

from typing import Literal

from pykernels._generated.bodies import roi_align as body
from pykernels.errors import ArgumentError, DTypeError, LimitError, ShapeError
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.parts import parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

__all__ = ["check", "plan", "shift"]

_ROIS, _CHANNELS = {"boxes": 0, "index": 0}, {"x": 1}


def plan(
    caps: Caps, scratch: Scratch, x: View, boxes: View, index: View, winner: View | None,
    share: View | None, dst: View, sampling_ratio: int = 0, aligned: bool = False,
    mode: Literal["avg", "max"] = "avg",
) -> list[Step]:  # fmt: skip
    """One step, more if a tensor is larger than one binding; none for an empty dst."""
    check("roi_align", x, boxes, index, dst, "dst", sampling_ratio)
    if mode not in ("avg", "max"):
        raise ArgumentError(f"[roi_align] mode must be 'avg' or 'max' but is {mode!r}")
    if (winner is None) != (share is None) or (winner is not None and mode != "max"):
        raise ArgumentError("[roi_align] winner and share go together, and with mode 'max'")
    for name, t in (("winner", winner), ("share", share)):
        if t is not None and t.shape != dst.shape:
            raise ShapeError(f"[roi_align] {name} must have shape {dst.shape} but has {t.shape}")
    if dst.size == 0:
        return []
    if x.shape[2] * x.shape[3] == 0:
        raise ShapeError(f"[roi_align] x must have pixels but has shape {x.shape}")
    views = {"x": x, "boxes": boxes, "index": index, "dst": dst}
    rois, channels = {**_ROIS, "dst": 0}, {**_CHANNELS, "dst": 1}
    if winner is not None and share is not None:
        views |= {"winner": winner, "share": share}
        rois |= {"winner": 0, "share": 0}
        channels |= {"winner": 1, "share": 1}
    watch = Watch("index", x.shape[0], index.shape, index.shape)
    steps: list[Step] = []
    found = parts(caps, views, [rois, channels])
    for number, part in enumerate(found):
        own = part.views
        seen = watch if part.first[1] == 0 else None
        # If several parts have the same boxes, only the first part reports indices out of range.
        if seen is not None and len(found) > 1:
            seen = seen.part(number, (part.first[0],), own["index"].shape, index.shape)
        steps.append(
            body.step(
                caps, own["x"], own["boxes"], own["index"], own.get("winner"), own.get("share"),
                own["dst"], MAX=mode == "max", ratio=sampling_ratio, shift=shift(aligned),
                watch=seen,
            )
        )  # fmt: skip
    return steps


def check(
    op: str, images: View, boxes: View, index: View, bins: View, name: str, ratio: int
) -> None:
    """Raise unless boxes, indices and bins fit images; `name` is the argument of the bins."""
    if images.ndim != 4 or boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ShapeError(
            f"[{op}] images must be (N, C, H, W) and boxes (R, 4) but they have shapes "
            f"{images.shape} and {boxes.shape}"
        )
    if index.shape != boxes.shape[:1]:
        raise ShapeError(f"[{op}] index must have shape {boxes.shape[:1]} but has {index.shape}")
    if bins.ndim != 4 or bins.shape[:2] != (boxes.shape[0], images.shape[1]):
        raise ShapeError(
            f"[{op}] {name} must be ({boxes.shape[0]}, {images.shape[1]}, OH, OW) but has shape "
            f"{bins.shape}"
        )
    if images.dtype != bins.dtype:
        raise DTypeError(
            f"[{op}] dst must be {'dy' if name == 'dy' else 'x'}'s dtype but they are "
            f"{images.dtype.name} and {bins.dtype.name}"
        )
    if ratio < 0:
        raise ArgumentError(f"[{op}] sampling_ratio must be 0 or more but is {ratio}")
    if ratio * ratio > MAX_ROUNDS:
        raise LimitError(
            f"[{op}] sampling_ratio {ratio} makes more than {MAX_ROUNDS} samples of a bin"
        )


def shift(aligned: bool) -> float:
    """The number that is subtracted from the corners."""
    return 0.5 if aligned else 0.0
