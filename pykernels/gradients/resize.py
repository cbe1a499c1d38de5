"""Resizing, and windows: gradients are summed at the elements that the forward pass reads, with the
same weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pykernels import functional as F
from pykernels import kernels
from pykernels._generated.operations.matmul import matmul
from pykernels.functional.elementwise import elementwise
from pykernels.functional.resize import resize as _resize
from pykernels.tape import Taped, reads


@reads()
def im2col(call: Taped) -> None:
    kernel, stride, padding, dilation = _window(call)
    size = (call.shape("x") or ())[-2:]
    call.give("x", F.fold(call.dy(), size, kernel, dilation, padding, stride))


@reads()
def col2im(call: Taped) -> None:
    kernel, stride, padding, dilation = _window(call)
    call.give("x", F.unfold(call.dy(), kernel, dilation, padding, stride))


def _window(call: Taped) -> Any:
    return (call.option(name) for name in ("kernel", "stride", "padding", "dilation"))


@reads()
def resize(call: Taped) -> None:
    """Resizing is a product with a matrix along each axis; resizing an identity matrix gives this
    matrix. The gradient is the product with the transposed matrices."""
    dy = call.dy()
    shape = call.shape("x")
    assert shape is not None
    rows, cols = shape[-2], shape[-1]
    out_rows, out_cols = dy.shape[-2:]
    down = _resized(call, F.eye(rows, device=dy.device)[..., None], (out_rows, 1))[..., 0]
    across = _resized(call, F.eye(cols, device=dy.device)[:, None], (1, out_cols))[:, 0]
    call.give("x", matmul(matmul(down, dy), across.T))


@reads("x", "boxes", "index")
def roi_align(call: Taped) -> None:
    """The mean of samples is linear in x. In mode max, a bin is one pixel times its share."""
    dy, shape = call.dy(), call.shape("x")
    assert shape is not None
    boxes, index, options = call.saved("boxes"), call.saved("index"), _boxes(call)
    if call.option("mode") == "avg":
        dx = dy.device.empty(shape, dy.dtype)
        kernels.roi_align_backward(dy, boxes, index, dx, **options)
        call.give("x", dx)
        return
    x = call.saved("x")
    winner, share = (dy.device.empty(dy.shape, kind) for kind in ("int32", "float32"))
    kernels.roi_align(
        x, boxes, index, dy.device.empty(dy.shape, x.dtype), winner=winner, share=share,
        mode="max", **options,
    )  # fmt: skip
    plane = dy.device.tensor(np.arange(shape[1], dtype=np.int32))[:, None, None]
    text = "(n * c + plane) * size + winner"
    at = elementwise(text, n=index[:, None, None, None], c=shape[1], plane=plane,
                     size=shape[2] * shape[3], winner=winner)  # fmt: skip
    nothing = dy.device.zeros((math.prod(shape),))
    each = (dy.astype("float32") * share).reshape(-1)
    call.give("x", F.scatter_add(nothing, 0, at.reshape(-1), each, check=False).reshape(shape))


@reads("boxes", "index")
def roi_align_backward(call: Taped) -> None:
    shape, g = call.shape("dy"), call.dy()
    assert shape is not None
    ddy = g.device.empty(shape, g.dtype)
    boxes, index = call.saved("boxes"), call.saved("index")
    kernels.roi_align(g, boxes, index, ddy, **_boxes(call))
    call.give("dy", ddy)


def _boxes(call: Taped) -> dict[str, Any]:
    options = {name: call.option(name) for name in ("sampling_ratio", "aligned")}
    return {**options, "spatial_scale": call.scalar("spatial_scale")}


def _resized(call: Taped, x: Any, size: tuple[int, int]) -> Any:
    return _resize(
        x, size, call.option("mode"), coordinates=call.option("coordinates"),
        nearest=call.option("nearest"), antialias=call.option("antialias"),
    )  # fmt: skip
