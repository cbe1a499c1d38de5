"""Boxes in images: selects the boxes that a detector keeps, and cuts boxes out as images of one
size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pykernels._generated.kernels import roi_align as _roi_align
from pykernels._generated.wrappers import roi_align as _wrapper
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import choice, flag, integer, real
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, ShapeError
from pykernels.rules.resize import sides
from pykernels.runtime.whole import whole

from ._boxes import kept_boxes

__all__ = ["nms", "roi_align"]

_FLOATS: tuple[DTypeName, ...] = ("float32", "float16")
_X, _BOXES, _INDEX, *_REST = _roi_align.KERNEL.args
_ROI = replace(
    _roi_align.KERNEL,
    args=(_X, replace(_BOXES, dtypes=_FLOATS), replace(_INDEX, optional=True), *_REST),
)
_NMS = replace(
    _ROI,
    name="nms",
    args=tuple([replace(_BOXES, name=name, dtypes=_FLOATS) for name in ("boxes", "scores")]),
)


@whole
def roi_align(
    x: Array, boxes: Array, index: Array | None, output_size: int | Sequence[int],
    spatial_scale: float = 1.0, sampling_ratio: int = 0, aligned: bool = False, *,
    mode: Literal["avg", "max"] = "avg", out: Tensor | None = None,
) -> Array:  # fmt: skip
    """Cuts boxes out of images, as images of one size; corners are not rounded (torchvision.ops).

    A box is divided into OH x OW bins. Each bin has samples at places between pixels. A sample is a
    mix of four pixels, or 0 if it is more than a pixel outside of the image. Computed in f32. The
    gradient of x is deterministic; boxes have no gradient.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W).
        boxes: float32 or float16, (R, 4): x1, y1, x2, y2; or (R, 5), whose first column is the
            index, if `index` is None.
        index: int32 or int64, (R,): the image of each box. None is allowed for boxes (R, 5), or if
            x has one image.
        output_size: (OH, OW), or one integer for both.
        spatial_scale: The factor from the boxes' unit to pixels of x.
        sampling_ratio: The number of samples of a bin in each direction; 0 or less means the bin's
            size in pixels, rounded up.
        aligned: True subtracts half a pixel from the corners. False makes boxes at least one pixel
            high and wide.
        mode: 'avg' is the mean of the samples. 'max' is the largest product of a pixel and its
            share in a sample, as ONNX defines it.
        out: The Tensor to write to; None makes one.

    Returns:
        (R, C, OH, OW), of the dtype of x. A numpy array if all arguments are, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
        IndexRangeError: at the next synchronisation, for an index outside [0, N).
        LimitError: sampling_ratio is above 173.

    Source: He and others 2017; ONNX RoiAlign.
    """
    op = "roi_align"
    size = sides(op, "output_size", output_size)
    ratio = max(integer(op, "sampling_ratio", sampling_ratio), 0)
    half, scale = flag(op, "aligned", aligned), real(op, "spatial_scale", spatial_scale)
    choice(op, "mode", mode, ("avg", "max"))
    call = Call(_ROI, x, boxes, index, out=out)
    images, corners = call.tensor("x", x), call.tensor("boxes", boxes)
    places = call.tensor("index", index)
    if images.ndim != 4:
        raise ShapeError(f"[{op}] x must be (N, C, H, W) but has shape {images.shape}")
    corners = corners if corners.dtype == "float32" else corners.astype("float32")
    if places is None:
        if corners.ndim == 2 and corners.shape[1] == 5:
            places, corners = corners[:, 0].astype("int32"), corners[:, 1:]
        elif images.shape[0] == 1 and corners.ndim == 2:
            places = images.device.zeros((1,), "int32").broadcast_to(corners.shape[:1])
        else:
            raise ArgumentError(
                f"[{op}] index must be given for boxes of shape {corners.shape} of "
                f"{images.shape[0]} images"
            )
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ShapeError(f"[{op}] boxes must be (R, 4) but have shape {corners.shape}")
    if places.shape != corners.shape[:1]:
        raise ShapeError(f"[{op}] index must have shape {corners.shape[:1]} but has {places.shape}")
    result = call.out((corners.shape[0], images.shape[1], *size), images.dtype)
    _wrapper.roi_align(
        images, corners, places, result, spatial_scale=scale, sampling_ratio=ratio, aligned=half,
        mode=mode,
    )  # fmt: skip
    return call.leave(result)


@whole
def nms(
    boxes: Array, scores: Array, iou_threshold: float, *, score_threshold: float | None = None,
    max_boxes: int | None = None, center: bool = False,
) -> Array:  # fmt: skip
    """The boxes that are left when every kept box removes the boxes of lower scores that overlap it
    (non-maximum suppression; torchvision.ops, ONNX NonMaxSuppression).

    Boxes are taken by descending score, and boxes with equal scores in their order. A box is
    removed if its intersection with a box that is kept, divided by their union, is above
    `iou_threshold`. The host reads both arguments and computes the result, so the call waits for
    the device, and captures refuse it.

    Args:
        boxes: Tensor or numpy array, float32 or float16, (boxes, 4): two opposite corners x1, y1,
            x2, y2. Or (batches, boxes, 4).
        scores: float32 or float16, (boxes,), or (batches, classes, boxes). Each class of each batch
            is handled by itself.
        iou_threshold: from 0 to 1.
        score_threshold: Only boxes with a score above this number count; None means all boxes.
        max_boxes: The largest number of boxes that are kept of each class and batch; None means no
            limit.
        center: With True, boxes are (x, y, width, height) around the centre (x, y).

    Returns:
        int32. The numbers of the boxes that are kept, by descending score. With batches, the result
        has rows of (batch, class, box), sorted by batch, class and score. A numpy array if both
        arguments are, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
    """
    op = "nms"
    bound = real(op, "iou_threshold", iou_threshold)
    if not 0 <= bound <= 1:
        raise ArgumentError(f"[{op}] iou_threshold must be from 0 to 1 but is {iou_threshold}")
    least = None if score_threshold is None else real(op, "score_threshold", score_threshold)
    most = None if max_boxes is None else integer(op, "max_boxes", max_boxes)
    if most is not None and most < 0:
        raise ArgumentError(f"[{op}] max_boxes must be 0 or more but is {max_boxes}")
    middle = flag(op, "center", center)
    call = Call(_NMS, boxes, scores)
    b, s = call.tensor("boxes", boxes), call.tensor("scores", scores)
    many = b.ndim == 3
    wanted = (b.shape[0], s.shape[1], b.shape[1]) if many and s.ndim == 3 else b.shape[:1]
    if b.ndim not in (2, 3) or b.shape[-1] != 4 or s.shape != wanted or many != (s.ndim == 3):
        raise ShapeError(
            f"[{op}] boxes and scores must be (boxes, 4) and (boxes,), or (batches, boxes, 4) and "
            f"(batches, classes, boxes), but they have shapes {b.shape} and {s.shape}"
        )
    corners, marks = (t.numpy() for t in (b, s))
    if not many:
        corners, marks = corners[None], marks[None, None]
    found = kept_boxes(corners, marks, most, bound, least, middle).astype(np.int32)
    result = b.device.tensor(found if many else found[:, 2])
    return call.leave(result)
