"""Non-maximum suppression of a detector's boxes, on the host."""

from __future__ import annotations

import numpy as np

from .errors import ModelError
from .graph import Array

__all__ = ["selected_boxes"]


def selected_boxes(
    boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None,
    least: Array | None = None, *, center: bool = False,
) -> Array:  # fmt: skip
    """ONNX's NonMaxSuppression: rows of (batch, class, box), int64.

    Args:
        boxes: (batches, boxes, 4): two opposite corners, or center and size.
        scores: (batches, classes, boxes).
        most: The largest number of boxes of a class and batch; None means 0.
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
    rows = []
    for batch in range(boxes.shape[0]) if count > 0 else ():
        corners = _corners(boxes[batch].astype(np.float32), center)
        for kind in range(scores.shape[1]):
            for box in _kept(corners, scores[batch, kind], count, bound, floor):
                rows.append((batch, kind, box))
    return np.array(rows, np.int64).reshape(-1, 3)


def _corners(boxes: Array, center: bool) -> Array:
    """(4, boxes): the smaller and the larger corner."""
    a, b, c, d = boxes.T
    if center:
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    low, high = (np.minimum(a, c), np.minimum(b, d)), (np.maximum(a, c), np.maximum(b, d))
    return np.stack([*low, *high])


def _kept(
    corners: Array, scores: Array, count: int, bound: float, floor: float | None
) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    if floor is not None:
        order = order[scores[order] > floor]
    area = (corners[2] - corners[0]) * (corners[3] - corners[1])
    kept: list[int] = []
    while order.size and len(kept) < count:
        best, order = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(corners[:2, order], corners[:2, best, None])
        high = np.minimum(corners[2:, order], corners[2:, best, None])
        shared = np.prod(np.maximum(high - low, 0), axis=0)
        union = area[order] + area[best] - shared
        with np.errstate(divide="ignore", invalid="ignore"):
            order = order[~((shared > 0) & (union > 0) & (shared / union > bound))]
    return kept
