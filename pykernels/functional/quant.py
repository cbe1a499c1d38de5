"""Quantised weights: conversions from and to numbers."""

from __future__ import annotations

from pykernels._generated.kernels import quantize as _quantize
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeLike
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.quant.types import TYPES, type_of
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name
from pykernels.tensors.quantised import QTensor

__all__ = ["dequantize", "quantize"]


@again
@whole
def quantize(x: Array, type: str) -> QTensor:
    """Quantise numbers to blocks along the last axis, by ggml's rule.

    Scales are computed by ggml's rule. A number half-way between two steps may become either step.
    A block with a NaN becomes NaN (mxfp4 cannot store NaN).

    Args:
        x: Tensor or numpy array (..., rows, K), float32, float16 or bfloat16, K a multiple of 32.
            An array is copied to the default device.
        type: one of q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, mxfp4. Other types are read from files
            only.

    Raises:
        ArgumentError: another type.
        ShapeError: x has less than two axes, or a row is not a whole number of blocks.
        DTypeError: another dtype.
    """
    kind = type_of("quantize", type)
    if not kind.made:
        made = ", ".join(t.name for t in TYPES.values() if t.made)
        raise ArgumentError(
            f"[quantize] {kind.name} is read from files and not made of numbers: type must be one "
            f"of {made}"
        )
    call = Call(_quantize.KERNEL, x)
    t = call.tensor("x", x)
    if t.ndim < 2 or t.shape[-1] % kind.block:
        raise ShapeError(
            f"[quantize] x must have two axes or more, the last one a multiple of {kind.block}, "
            f"but has shape {t.shape}"
        )
    q = QTensor.empty(kind, t.shape, t.device)
    run(_quantize.KERNEL, (t, q.scales, q.high, q.low), (), (kind.name,))
    return q


@again
def dequantize(q: QTensor, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
    """The numbers of quantised weights, bit for bit as ggml computes them.

    Args:
        q: The weights.
        dtype: float32 (the default) or float16, rounded to nearest even.
        out: The Tensor of q's shape to write to; None makes one.

    Raises:
        DTypeError: q is not a QTensor, or the dtype is not supported or differs from the dtype of
            out.
        ShapeError: out has another shape.
    """
    if not isinstance(q, QTensor):
        raise DTypeError(f"[dequantize] q must be a pykernels.QTensor but is {type_name(q)}")
    if out is None:
        return q.dequantize("float32" if dtype is None else dtype)
    if not isinstance(out, Tensor):
        raise DTypeError(f"[dequantize] out must be a pykernels.Tensor but is {type_name(out)}")
    if dtype is not None and out.dtype != dtype:
        raise DTypeError(f"[dequantize] out must be {dtype} but is {out.dtype}")
    if out.shape != q.shape:
        raise ShapeError(f"[dequantize] out must have shape {q.shape} but has {out.shape}")
    q.dequantize_to(out)
    return out
