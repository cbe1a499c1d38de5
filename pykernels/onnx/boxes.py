"""ONNX's NonMaxSuppression, on the host."""

from __future__ import annotations

from pykernels.functional._boxes import kept_boxes

from .errors import ModelError
from .graph import Array

__all__ = ["selected_boxes"]


def selected_boxes(
    boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None,
    least: Array | None = None, *, center: bool = False,
) -> Array:  # fmt: skip
    """The kept boxes: rows of (batch, class, box), int64.

    Args:
        boxes: (batches, boxes, 4): two opposite corners, or center and size.
        scores: (batches, classes, boxes).
        most: The largest number of boxes that are kept of each class and batch; None means 0.
        overlap: The largest intersection, relative to the union, of two boxes that are both kept.
        least: Boxes are kept only if their score is above this number.
        center: Boxes have the form (x, y, width, height).
    """
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[::2] != (scores.shape[0], 4):
        raise ModelError(f"boxes of shape {boxes.shape} and scores of {scores.shape}")
    if boxes.shape[1] != scores.shape[2]:
        raise ModelError(f"boxes of shape {boxes.shape} and scores of {scores.shape}")
    count = 0 if most is None or not most.size else int(most.item())
    bound = 0.0 if overlap is None or not overlap.size else float(overlap.item())
    floor = None if least is None or not least.size else float(least.item())
    return kept_boxes(boxes, scores, count, bound, floor, center)
