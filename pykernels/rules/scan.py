"""The rules of running sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels._generated.kernels.fill import KERNEL as _FILL
from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.call.scalars import bits_of
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.runtime.launch import run

__all__ = ["running", "wide"]

# Narrow integers are summed in 32 bits.
_WIDE: dict[str, DTypeName] = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "uint32",
    "uint16": "uint32",
}


def wide(op: str, name: str, value: Any) -> Any:
    """The array, converted to the dtype of its sums."""
    if isinstance(value, Tensor):
        dtype: str = value._layout.dtype.name
    elif isinstance(value, np.ndarray):
        dtype = str(value.dtype)
    else:
        return value
    return value.astype(_WIDE[dtype]) if dtype in _WIDE else value


def running(call: Call, x: Tensor, axis: int | None, exclusive: bool, first: int) -> Made:
    """The rule of cumsum and cumprod; `first` is the first result of an exclusive scan."""
    if axis is None:
        x, axis = x.reshape(-1), -1
    call.over(x, axis)
    result = call.out(x.shape, x.dtype)
    src, dst = call.moved("x", x), call.moved("dst", result)
    made = Made({"dst": result})
    if exclusive:
        if not src.ndim:
            src, dst = src.reshape((1,)), dst.reshape((1,))
        src = src[..., :-1].copy() if src._block is dst._block else src[..., :-1]
        run(_FILL, (dst[..., :1],), bits_of(call.op, first, result.dtype))
        dst = dst[..., 1:]
        made.after = _nothing  # a call that runs two kernels is not cached
    made.views = {"x": src, "dst": dst}
    return made


def _nothing() -> None:
    pass
