"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pykernels._generated.kernels.cumprod import KERNEL as CUMPROD
from pykernels._generated.kernels.cumsum import KERNEL as CUMSUM
from pykernels.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.kernels import cumprod as _cumprod
from pykernels.kernels import cumsum as _cumsum
from pykernels.plan import Kernel

__all__ = ["cumprod", "cumsum"]

# Narrow integers are summed in 32 bits.
_WIDE: dict[str, DTypeName] = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "uint32",
    "uint16": "uint32",
}


def cumsum(x: Array, axis: int | None = None, *, out: Tensor | None = None) -> Array:
    """Running sums: result[i] = x[0] + ... + x[i] along an axis.

    float32 and float16 are summed in f32, as trees of blocks: an error is at most about 1e-6 of the
    sum of |x|. int32 and uint32 wrap; bool, int8 and int16 give int32, uint8 and uint16 uint32. Two
    runs give the same bits.

    Args:
        x: Tensor or numpy array; float32, float16, or integers of up to 32 bits, or bool.
        axis: The axis; None runs over all elements in C order, and gives one axis (numpy).
        out: The Tensor to write to, which may be x; None makes one.

    Returns:
        A numpy array if x is one, else a Tensor.

    Raises:
        ShapeError: an axis that x does not have, or an `out` of another shape.
        DTypeError and what `pykernels.kernels.cumsum` raises.
    """
    return _running(CUMSUM, _cumsum, x, axis, out)


def cumprod(x: Array, axis: int | None = None, *, out: Tensor | None = None) -> Array:
    """Running products: result[i] = x[0] * ... * x[i] along an axis; all else as in `cumsum`.

    Products of blocks are computed on their own: where one of them leaves the range of f32, so does
    what it is part of.
    """
    return _running(CUMPROD, _cumprod, x, axis, out)


def _running(
    kernel: Kernel,
    function: Callable[[Tensor, Tensor], None],
    x: Array,
    axis: int | None,
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
    function(call.moved("x", given), call.moved("dst", result))
    return call.leave(result)
