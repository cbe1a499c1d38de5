"""matmul, by numpy's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from pykernels._generated.kernels.mul_mat import KERNEL
from pykernels._generated.ops import Activation
from pykernels.arrays import Array, Call, Known
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, DTypeError
from pykernels.kernels import mul_mat
from pykernels.scalars import real

from ._products import matrices, product_shape, spread
from .matmul_i8 import integer_matmul, is_bytes

__all__ = ["matmul"]

Precision: TypeAlias = Literal["fast", "split"]

_MATMUL = replace(KERNEL, name="matmul")
_known: Known = {}


def matmul(
    a: Array,
    b: Array,
    *,
    bias: Array | None = None,
    residual: Array | None = None,
    scale: float = 1.0,
    activation: Activation | None = None,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Array:
    """The matrix product act(scale * (a @ b) + bias + residual), with numpy's rules for a and b.

    (..., n, k) and (..., k, m) give (..., n, m); leading axes broadcast; an operand of one axis is
    a vector and its axis is not in the result. Sums are f32 whatever the operands are, and no
    operand is rounded; any strides will do (large products may pack an operand in scratch memory).
    Two operands of int8, or two of uint8, give their exact product in int32, which wraps modulo
    2^32 (numpy would wrap to the dtype of the operands); `scaled_matmul` makes floats of it.

    Args:
        a: Tensor or numpy array, float32 or float16, one axis or more; int8 or uint8.
        b: Tensor or numpy array, float32 or float16, one axis or more; of a's dtype if that is
            int8 or uint8.
        bias: float32 or float16, added to the scaled sums; broadcast to the result's shape.
        residual: As bias: a second one, such as what the product is an update of. May be out.
        scale: Factor of the sums.
        activation: Applied last; 'gelu' is by erf.
        precision: On devices opened for their matrix units, 'fast' rounds float32 operands to
            float16 and sums in one piece what else is summed in splits of K: measured errors grow
            to 5e-9 of sum|a||b| for each k where all numbers have one sign. Elsewhere 'fast' lets
            large products on devices with f16 round float32 operands to float16 (beyond 65,504 they
            are inf) and sum 32 products at a time in float16, 64 from K = 256 on, 128 from 1024 on,
            256 from 4096 on; those sums must stay below 65,504 as well. Measured errors, on numbers
            between 0 and 1: at most 3e-3 of sum|a||b|, 6e-4 on average. 'split' lets large products
            of float32, or of float16 and float32, run on matrix units, each float32 as two halves:
            within the bound of plain float32, (sqrt(K) + 4) 2^-23 sum|a||b|, and 2^-38 (max|a|
            sum|b| + max|b| sum|a|) of a row of a and a column of b on top. Elsewhere it is plain
            float32.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if both operands
            are, else float32. Of bytes int32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit by numpy's rules.
        DTypeError, ArgumentError and what `pykernels.kernels.mul_mat` raises.
    """
    if type(scale) is not float:
        scale = real("matmul", "scale", scale)
    if (
        out is None
        and isinstance(a, Tensor)
        and isinstance(b, Tensor)
        and (bias is None or isinstance(bias, Tensor))
        and (residual is None or isinstance(residual, Tensor))
    ):
        known = _known.get((
            a._layout, b._layout, None if bias is None else bias._layout,
            None if residual is None else residual._layout,
        ))  # fmt: skip
        if known is not None:
            lay, wide, tall, dst, added, more = known
            result = a._fresh(lay)
            mul_mat(
                b._with(wide), a._with(tall), result._with(dst),
                bias=None if bias is None else bias._with(added),
                residual=None if residual is None else residual._with(more), scale=scale,
                activation=activation, precision=precision,
            )  # fmt: skip
            return result
    if is_bytes(a) and is_bytes(b):
        others = (bias, residual, activation, precision)
        if scale != 1.0 or any(option is not None for option in others):
            raise ArgumentError(
                "[matmul] bias, residual, scale, activation and precision need float operands but "
                f"a is {a.dtype}: scaled_matmul has factors and a bias"
            )
        return integer_matmul(a, b, out)
    call = Call(_MATMUL, a, b, bias, residual, out=out)
    left, right = call.tensor("a", a), call.tensor("b", b)
    extra = {"bias": call.tensor("bias", bias), "residual": call.tensor("residual", residual)}
    lead, tail = product_shape("matmul", left, right)
    result = call.out((*lead, *tail), _dtype(left, right, out))
    rows, cols = left.ndim > 1, right.ndim > 1
    added, more = (spread("matmul", name, t, result.shape, rows, cols) for name, t in extra.items())
    views = matrices(left, right, result, lead)
    mul_mat(
        *views, bias=added, residual=more, scale=scale, activation=activation, precision=precision
    )
    call.remember(_known, result, *views, added, more)
    return call.leave(result)


def _dtype(left: Tensor, right: Tensor, out: Tensor | None) -> DTypeName:
    if out is None:
        return "float16" if left.dtype == right.dtype == "float16" else "float32"
    if out.dtype not in ("float32", "float16"):
        raise DTypeError(f"[matmul] out must be float32 or float16 but is {out.dtype}")
    return out.dtype
