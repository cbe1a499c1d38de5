"""The rule of reductions over axes."""

from __future__ import annotations

from pykernels._generated.ops.reductions import RESULTS
from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.plans.reduce.axes import reduced_shape
from pykernels.plans.reduce.values import results

__all__ = ["reduced"]


def reduced(call: Call, x: Tensor, axis: int | tuple[int, ...] | None, keepdims: bool) -> Made:
    """The result lacks the reduced axes, or has them with size 1; `out` may decide the dtype."""
    shape = reduced_shape(call.op, x.shape, axis, keepdims)
    allowed = results(RESULTS[call.op][0], x.dtype)
    asked = call.asked_dtype
    return Made({"dst": call.out(shape, asked if asked in allowed else allowed[0])})
