"""Non-maximum suppression of a detector's boxes, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["kept_boxes"]

Array = np.ndarray[Any, Any]


def kept_boxes(
    boxes: Array, scores: Array, most: int | None, overlap: float, least: float | None,
    center: bool = False,
) -> Array:  # fmt: skip
    """The boxes that `nms` keeps, as rows of (batch, class, box), int64. Arguments are as in `nms`,
    with boxes (batches, boxes, 4) and scores (batches, classes, boxes)."""
    rows = []
    count = boxes.shape[1] if most is None else most
    for batch in range(boxes.shape[0]) if count > 0 else ():
        corners = _corners(boxes[batch].astype(np.float32), center)
        for kind in range(scores.shape[1]):
            for box in _kept(corners, scores[batch, kind], count, overlap, least):
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
