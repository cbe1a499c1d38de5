"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pykernels._generated.kernels.cumprod import KERNEL as CUMPROD
from pykernels._generated.kernels.cumsum import KERNEL as CUMSUM
from pykernels._generated.kernels.fill import KERNEL as _FILL
from pykernels.arrays import Array, Call
from pykernels.call.operation import either
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.kernels import cumprod as _cumprod
from pykernels.kernels import cumsum as _cumsum
from pykernels.plan import Kernel
from pykernels.runtime.launch import run
from pykernels.scalars import bits_of, flag

__all__ = ["cumprod", "cumsum"]

# Narrow integers are summed in 32 bits.
_WIDE: dict[str, DTypeName] = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "uint32",
    "uint16": "uint32",
}


def cumsum(
    x: Array, axis: int | None = None, *, exclusive: bool = False, dim: int | None = None,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """Running sums: result[i] = x[0] + ... + x[i] along an axis.

    float32 and float16 are summed in f32, as trees of blocks: an error is at most about 1e-6 of the
    sum of |x|. int32 and uint32 wrap; bool, int8 and int16 give int32, uint8 and uint16 uint32. Two
    runs give the same bits.

    Args:
        x: Tensor or numpy array; float32, float16, or integers of up to 32 bits, or bool.
        axis: The axis; None runs over all elements in C order, and gives one axis (numpy).
        exclusive: Leave out x[i] itself: result[0] is 0, and the last element counts nowhere.
        dim: Another name for axis.
        out: The Tensor to write to, which may be x; None makes one.

    Returns:
        A numpy array if x is a numpy array, else a Tensor.

    Raises:
        ShapeError: an axis that x does not have, or an `out` of another shape.
        DTypeError and the errors of `pykernels.kernels.cumsum`.
    """
    if dim is not None:
        axis = either("cumsum", "axis", axis, None, "dim", dim)
    return _running(CUMSUM, _cumsum, x, axis, exclusive, 0, out)


def cumprod(
    x: Array, axis: int | None = None, *, exclusive: bool = False, dim: int | None = None,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """Running products: result[i] = x[0] * ... * x[i] along an axis; all else as in `cumsum`.

    Products of blocks are computed on their own: where one of them leaves the range of f32, so does
    what it is part of. Exclusive ones begin with 1.
    """
    if dim is not None:
        axis = either("cumprod", "axis", axis, None, "dim", dim)
    return _running(CUMPROD, _cumprod, x, axis, exclusive, 1, out)


def _running(
    kernel: Kernel,
    function: Callable[[Tensor, Tensor], None],
    x: Array,
    axis: int | None,
    exclusive: bool,
    first: int,  # of what runs without the element itself
    out: Tensor | None,
) -> Array:
    if isinstance(x, (Tensor, np.ndarray)) and str(x.dtype) in _WIDE:
        x = x.astype(_WIDE[str(x.dtype)])
    call = Call(kernel, x, out=out)
    given = call.tensor("x", x)
    if axis is None:
        given, axis = given.reshape(-1), -1
    call.over(given, axis, None)
    result = call.out(given.shape, given.dtype)
    src, dst = call.moved("x", given), call.moved("dst", result)
    if flag(kernel.name, "exclusive", exclusive):
        if not src.ndim:
            src, dst = src.reshape((1,)), dst.reshape((1,))
        src = src[..., :-1].copy() if src._block is dst._block else src[..., :-1]
        run(_FILL, (dst[..., :1],), bits_of(kernel.name, first, result.dtype))
        dst = dst[..., 1:]
    function(src, dst)
    return call.leave(result)
