"""The inverse of max_pool2d and max_pool1d, except for the elements that they dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pykernels import kernels
from pykernels._generated.kernels.scatter import KERNEL as SCATTER
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.rules.images import Images, numbers
from pykernels.rules.pool import Windows, result_of, steps
from pykernels.runtime.whole import whole
from pykernels.tensors.host import shape_of

__all__ = ["max_unpool1d", "max_unpool2d"]


@whole
def max_unpool1d(
    x: Array,
    indices: Array,
    kernel_size: int,
    stride: int | None = None,
    padding: int = 0,
    output_size: Sequence[int] | None = None,
    *,
    out: Tensor | None = None,
) -> Array:
    """The inverse of max_pool1d: zeros, and x at the positions that it returned, as
    torch.nn.functional.max_unpool1d.

    Where several elements have one position, it gets one of them.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, L) or (C, L).
        indices: Tensor or numpy array, int32 or int64, of the shape of x: positions in the elements
            of a signal of the result. Others raise IndexRangeError at the next synchronisation.
        kernel_size: The size of a window, as in the forward call; so are stride and padding.
        stride: Steps between windows; None is kernel_size.
        padding: The number of elements around the signal.
        output_size: The size of the result, (L,) or its whole shape, where several have windows of
            this number; None is (size - 1) stride - 2 padding + kernel_size.
        out: The Tensor to write to, of the dtype of x; None makes one.

    Returns:
        (N, C, L). A numpy array if x and indices are, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: output_size differs by a stride or more, or another argument is unusable.
        DTypeError and the errors of `pykernels.kernels.scatter`.
    """
    w = _windows("max_unpool1d", 1, kernel_size, stride, padding)
    return _unpooled(w, 1, x, indices, output_size, out)


@whole
def max_unpool2d(
    x: Array,
    indices: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
    *,
    out: Tensor | None = None,
) -> Array:
    """The inverse of max_pool2d: zeros, and x at the positions that it returned, as
    torch.nn.functional.max_unpool2d.

    Where several elements have one position, it gets one of them.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W) or (C, H, W).
        indices: Tensor or numpy array, int32 or int64, of the shape of x: positions in the H x W
            elements of an image of the result. Others raise IndexRangeError at the next
            synchronisation.
        kernel_size: The size of a window, as in the forward call; so are stride and padding.
        stride: Steps between windows; None is kernel_size.
        padding: Rows and columns around the image.
        output_size: The size of the result, (H, W) or its whole shape, where several have windows
            of this number; None is (size - 1) stride - 2 padding + kernel_size.
        out: The Tensor to write to, of the dtype of x; None makes one.

    Returns:
        (N, C, H, W). A numpy array if x and indices are, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: output_size differs by a stride or more, or another argument is unusable.
        DTypeError and the errors of `pykernels.kernels.scatter`.
    """
    w = _windows("max_unpool2d", 2, kernel_size, stride, padding)
    return _unpooled(w, 2, x, indices, output_size, out)


def _windows(op: str, axes: int, kernel_size: Any, stride: Any, padding: Any) -> Windows:
    size, step = numbers(op, "kernel_size", kernel_size), steps(op, "stride", stride)
    return Windows(op, axes, size, step, numbers(op, "padding", padding))


def _unpooled(
    w: Windows, axes: int, x: Array, indices: Array, output_size: Sequence[int] | None,
    out: Tensor | None,
) -> Array:  # fmt: skip
    """Zeros, with x at its places along rows of whole images."""
    call = Call(replace(SCATTER, name=w.op), x, indices, out=out)
    images = Images(call, axes)
    t = images.of("x", call.tensor("src", x))
    at = images.of("indices", call.tensor("index", indices))
    if t.dtype not in ("float32", "float16"):
        raise DTypeError(f"[{call.op}] x must be float32 or float16 but is {t.dtype}")
    if t.shape != at.shape:
        raise ShapeError(
            f"[{call.op}] indices must have the shape of x, {x.shape}, but have {indices.shape}"
        )
    size = _size(images, w, (t.shape[2], t.shape[3]), output_size)
    n, c, rows, cols = t.shape
    result, whole = result_of(images, t, size, t.dtype)
    # The fill must not overwrite elements that the scatter reads.
    direct = whole.contiguous and whole._block not in (t._block, at._block)
    planes = whole if direct else t.device.empty(whole.shape, t.dtype)
    planes = planes.reshape(n, c, size[0] * size[1])
    kernels.fill(planes, 0)
    kernels.scatter(t.reshape(n, c, rows * cols), at.reshape(n, c, rows * cols), planes)
    if not direct:
        kernels.cpy(planes.reshape(whole.shape), whole)
    return call.leave(result)


def _size(
    images: Images, w: Windows, size: tuple[int, int], output_size: Sequence[int] | None
) -> tuple[int, int]:
    """The size of the result as images: torch's default, or one less than a stride from it."""
    usual = tuple((size[a] - 1) * w.stride[a] - 2 * w.padding[a] + w.kernel[a] for a in range(2))
    if output_size is not None:
        given = shape_of(output_size)
        given = given[2:] if len(given) == images.axes + 2 else given
        if len(given) != images.axes:
            raise ArgumentError(
                f"[{images.op}] output_size must have {images.axes} or {images.axes + 2} sizes "
                f"but is {output_size!r}"
            )
        given = (1, *given) if images.axes == 1 else given
        if any(abs(given[a] - usual[a]) >= w.stride[a] for a in range(2)):
            raise ArgumentError(
                f"[{images.op}] output_size must be less than a stride from "
                f"{usual[-images.axes :]} but is {output_size!r}"
            )
        usual = given
    if min(usual) < 1:
        raise ShapeError(f"[{images.op}] the result must have elements but has size {usual}")
    return usual[0], usual[1]
