"""Resizing, and windows: gradients are summed at the elements that the forward pass reads, with the
same weights."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels._generated.operations.matmul import matmul
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


def _resized(call: Taped, x: Any, size: tuple[int, int]) -> Any:
    return _resize(
        x, size, call.option("mode"), coordinates=call.option("coordinates"),
        nearest=call.option("nearest"), antialias=call.option("antialias"),
    )  # fmt: skip
