"""A norm and the matrix product that follows it, in one dispatch if there is one row."""

from __future__ import annotations

from typing import Any

from pykernels._generated.kernels.rms_norm_linear import KERNEL
from pykernels._generated.operations.matmul import linear
from pykernels._generated.operations.norm import rms_norm
from pykernels._generated.ops import Activation
from pykernels.call import autocast
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag, real
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.quant.types import type_of
from pykernels.rules.norm import rms_eps
from pykernels.runtime.launch import run
from pykernels.runtime.observe import recording
from pykernels.runtime.whole import whole
from pykernels.tensors.quantised import QTensor

from .elementwise import elementwise

__all__ = ["rms_norm_linear"]

# For calls of several dispatches: the activation of the gates `a`, times the other half `c`.
GATES = {
    None: "a * c", "relu": "where(a > 0, a, 0.0) * c", "silu": "silu(a) * c",
    "gelu": "gelu(a) * c", "gelu_tanh": "gelu_tanh(a) * c",
}  # fmt: skip


@again
@whole
def rms_norm_linear(
    x: Array,
    weight: Array,
    w: Array,
    b: Array | None = None,
    eps: float | None = None,
    *,
    activation: Activation | None = None,
    gated: bool = False,
    out: Tensor | None = None,
) -> Array:
    """linear(rms_norm(x, k, weight, eps), w, b, activation=...), for a step of a language model. A
    single row takes one dispatch, which does not round the normalised numbers to x's dtype.

    For more rows, for numpy arrays and under a tape, the call is a norm and a product, with the
    gradients of both.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (..., k).
        weight: x's dtype, (k,): the weight of the norm.
        w: float32, float16 or bfloat16, (n, k); or a QTensor (n, k).
        b: float32, float16 or bfloat16, (n,).
        eps: Added to the mean of the squares; None is the distance from 1 to the next number of x's
            dtype.
        activation: Applied to the product plus the bias.
        gated: With True, the first n / 2 columns are gates, and the result is their activation
            times the other columns, (..., n / 2). With activation="silu" this is `swiglu`.
        out: The Tensor to write to; None makes one.

    Raises:
        ShapeError, DTypeError, ArgumentError: for arguments that do not fit.
    """
    gated = flag("rms_norm_linear", "gated", gated)
    if isinstance(w, QTensor):
        type_of("rms_norm_linear", w.type)
    shape = tuple(getattr(w, "shape", ()))
    if len(shape) != 2 or tuple(getattr(x, "shape", ()))[-1:] != shape[-1:]:
        raise ShapeError(
            f"[rms_norm_linear] x must be (..., k) and w (n, k) but they have shapes "
            f"{getattr(x, 'shape', None)} and {shape}"
        )
    if activation not in GATES:
        names = ", ".join(map(repr, GATES))
        raise ArgumentError(
            f"[rms_norm_linear] activation must be one of {names} but is {activation!r}"
        )
    if gated and shape[0] % 2:
        raise ShapeError(f"[rms_norm_linear] a gated w must have an even n but has {shape[0]}")
    if eps is not None:
        eps = real("rms_norm_linear", "eps", eps)
    if _is_one_row(x, weight, w, b, out):
        return _in_one(x, weight, w, b, eps, activation, gated, out)
    y: Any = rms_norm(x, shape[-1], weight, eps)
    if not gated:
        return linear(y, w, b, activation=activation, out=out)
    y = linear(y, w, b)
    half = shape[0] // 2
    return elementwise(GATES[activation], a=y[..., :half], c=y[..., half:], out=out)


def _is_one_row(x: Any, weight: Any, w: Any, b: Any, out: Any) -> bool:
    """True if one dispatch can compute the call."""
    if not isinstance(x, Tensor) or not isinstance(weight, Tensor) or weight.dtype != x.dtype:
        return False
    if recording() or autocast.live or x.size != x.shape[-1] or x.size == 0 or x.size % 8:
        return False
    if x.dtype not in FLOATS or not (b is None or isinstance(b, Tensor)):
        return False
    if out is not None and (not isinstance(out, Tensor) or out.dtype != x.dtype):
        return False
    most = x._context.caps.max_binding
    if isinstance(w, QTensor):
        return w.low.nbytes + 1024 < most
    kinds = {("float32", "float32"), ("float32", "float16"), ("float16", "float16")}
    return isinstance(w, Tensor) and (x.dtype, w.dtype) in kinds and w.nbytes + 1024 < most


def _in_one(
    x: Any, weight: Any, w: Any, b: Any, eps: float | None, activation: str | None, gated: bool,
    out: Tensor | None,
) -> Tensor:  # fmt: skip
    quant = w.type if isinstance(w, QTensor) else ""
    call = Call(KERNEL, x, weight, b, out=out)
    columns = w.shape[0] // 2 if gated else w.shape[0]
    mixed = not quant and w.dtype != x.dtype
    result = call.out((*x.shape[:-1], columns), "float32" if mixed else x.dtype)
    row, dst = x.reshape(x.shape[-1:]), result.reshape((columns,))
    first: tuple[Any, ...] = (w.low, w.scales, w.high) if quant else (w, None, None)
    tensors = (row, call.tensor("gain", weight), *first, call.tensor("bias", b), dst)
    options = (rms_eps(eps, x), quant, activation, gated)
    run(KERNEL, tensors, (), options)
    return result
