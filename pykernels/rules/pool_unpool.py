"""max_unpool1d and max_unpool2d: zeros, and x at the positions that a pool returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pykernels import kernels
from pykernels._generated.kernels.scatter import KERNEL as SCATTER
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.whole import whole
from pykernels.tensors.host import shape_of

from .images import Images
from .pool import Windows, result_of

__all__ = ["unpooled"]


@whole
def unpooled(
    op: str, x: Array, indices: Array, kernel_size: Any, stride: Any, padding: Any,
    output_size: Sequence[int] | None, out: Tensor | None, axes: int,
) -> Array:  # fmt: skip
    """A result of zeros, with x at the positions in `indices`; a position is the number of an
    element in its image, in C order."""
    w = Windows(op, axes, kernel_size, stride, padding)
    call = Call(replace(SCATTER, name=w.op), x, indices, out=out)
    images = Images(call, axes)
    t = images.of("x", call.tensor("src", x))
    at = images.of("indices", call.tensor("index", indices))
    if t.dtype not in FLOATS:
        raise DTypeError(f"[{call.op}] x must be float32, float16 or bfloat16 but is {t.dtype}")
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
    """The size of the result as images: torch's default, or an `output_size` that differs from it
    by less than a stride."""
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
