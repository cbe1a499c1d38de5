"""Products of rows with the weights of the expert that is given for each row."""

from __future__ import annotations

from typing import Any

from pykernels._generated.kernels.mul_mat_id import KERNEL
from pykernels._generated.ops import ACTIVATIONS, Activation
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call, array_of
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.quant.types import type_of
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.quantised import QTensor

__all__ = ["expert_linear"]


@again
@whole
def expert_linear(
    x: Array, w: Array | QTensor, experts: Array, b: Array | None = None, *,
    activation: Activation | None = None, gated: bool = False, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A mixture of experts: a linear layer that multiplies each row by the weights of its expert.

    result[t, s, :] = x[t, s, :] @ w[experts[t, s]].T + b[experts[t, s]], then an activation, with
    float32 sums. The device reads the experts, and the host reads nothing back. Few rows (up to 8,
    or up to half as many as there are experts) take one dispatch, which reads only the weights of
    their experts; more rows are sorted by expert first. If x is float16 and has few rows, sums of
    eight products are float16 for some types of w. The gradients of x, b and float weights compute
    a product of all rows for each expert.

    Args:
        x: float32, float16 or bfloat16 (tokens, slots, k), or (tokens, k): one row for all slots of
            a token.
        w: (experts, n, k): a QTensor, or float32, float16 or bfloat16 with k a multiple of 16.
        experts: int32 or int64 (tokens, slots), the expert of each row, for example from top_k of a
            router's scores.
        b: float32, float16 or bfloat16, (experts, n).
        activation: applied to the product plus the bias.
        gated: True: the first n / 2 columns are gates, and the result is their activation times the
            other columns, (tokens, slots, n / 2). With activation="silu" this is `swiglu`.
        out: the Tensor (tokens, slots, n) to write to, float32, float16 or bfloat16; None makes one
            of x's dtype.

    Raises:
        IndexRangeError: at the next synchronisation, for an expert out of range.
        ShapeError: other shapes.
        DTypeError: other dtypes.
        ArgumentError: an unknown activation.
        LimitError: more than 1024 experts, or more than 2^23 rows.
    """
    op = "expert_linear"
    kind = type_of(op, w.type).name if isinstance(w, QTensor) else None
    gated = flag(op, "gated", gated)
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[{op}] activation must be one of {names} but is {activation!r}")
    call = Call(KERNEL, x, w.low if isinstance(w, QTensor) else w, experts, b, out=out)
    rows, ids = call.tensor("b", x), call.tensor("ids", experts)
    w = w if isinstance(w, QTensor) else call.tensor("w", array_of(op, "w", w))
    if w.ndim != 3 or ids.ndim != 2 or rows.ndim not in (2, 3):
        raise ShapeError(
            f"[{op}] x, w and experts must be (tokens, [slots,] k), (experts, n, k) and "
            f"(tokens, slots) but have shapes {rows.shape}, {tuple(w.shape)} and {ids.shape}"
        )
    if rows.ndim == 2:
        rows = rows[:, None]
    if rows.shape[-1] != w.shape[-1] or rows.shape[:2] not in (ids.shape, (ids.shape[0], 1)):
        raise ShapeError(
            f"[{op}] x {rows.shape} fits neither experts {ids.shape} nor weights {tuple(w.shape)}"
        )
    bias = call.tensor("bias", b)
    if bias is not None and bias.shape != tuple(w.shape[:2]):
        raise ShapeError(f"[{op}] b must have shape {tuple(w.shape[:2])} but has {bias.shape}")
    if gated and w.shape[1] % 2:
        raise ShapeError(f"[{op}] a gated w must have an even n but has {w.shape[1]}")
    dtype = call.asked_dtype or rows.dtype
    if dtype not in FLOATS:
        raise DTypeError(f"[{op}] out must be float32, float16 or bfloat16 but is {dtype}")
    result = call.out((*ids.shape, w.shape[1] // (2 if gated else 1)), dtype)
    given: tuple[Any, ...]
    if isinstance(w, QTensor):
        given = None, w.low, w.scales, w.high
    else:
        given = w, None, None, None
    run(KERNEL, (ids, rows, *given, bias, None, result), (), (kind, activation, gated))
    return result
