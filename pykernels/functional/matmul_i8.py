"""Products of int8 and of uint8, by numpy's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pykernels._generated.kernels.mul_mat_i8 import KERNEL
from pykernels.arrays import Array, Call, Known
from pykernels.device import Tensor
from pykernels.dtypes import dtype_of
from pykernels.errors import DTypeError, ShapeError
from pykernels.kernels import mul_mat_i8

from ._products import matrices, product_shape, spread

__all__ = ["scaled_matmul"]

# In the kernel's order a has the columns of the result.
_MATMUL, _SCALED = (
    replace(
        KERNEL, name=name,
        args=tuple([replace(arg, same="") for arg in KERNEL.args]),
    )
    for name in ("matmul", "scaled_matmul")
)  # fmt: skip
_known: Known = {}
_known_scaled: Known = {}


def is_bytes(x: object) -> bool:
    """Is it an array or tensor of int8 or uint8?"""
    return str(getattr(x, "dtype", "")) in ("int8", "uint8")


def _same(op: str, left: Tensor, right: Tensor) -> None:
    if left.dtype != right.dtype:
        raise DTypeError(
            f"[{op}] a and b must have one dtype, int8 or uint8, but have {left.dtype} and "
            f"{right.dtype}"
        )


def integer_matmul(a: Array, b: Array, out: Tensor | None) -> Array:
    """The product of `matmul`, in int32."""
    if out is None and isinstance(a, Tensor) and isinstance(b, Tensor):
        known = _known.get((a._layout, b._layout))
        if known is not None:
            lay, wide, tall, dst = known
            result = a._fresh(lay)
            mul_mat_i8(b._with(wide), a._with(tall), result._with(dst))
            return result
    call = Call(_MATMUL, a, b, out=out)
    left, right = call.tensor("a", a), call.tensor("b", b)
    _same("matmul", left, right)
    lead, tail = product_shape("matmul", left, right)
    result = call.out((*lead, *tail), "int32")
    views = matrices(left, right, result, lead)
    mul_mat_i8(*views)
    call.remember(_known, result, *views)
    return call.leave(result)


def scaled_matmul(
    a: Array, b: Array, a_scale: Array | None = None, b_scale: Array | None = None, *,
    bias: Array | None = None, dtype: Literal["float32", "float16"] = "float32",
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The product of quantised matrices in floats: (a * a_scale) @ (b * b_scale) + bias.

    (..., n, k) and (..., k, m) give (..., n, m) by the rules of `matmul`. The product of the
    integers is exact in int32 (it wraps modulo 2^32, from K = 131,072 on for int8 and 33,026 for
    uint8). What follows is computed in f32: its product with both factors, and the bias. Factors
    are those of rows of a and of columns of b; one for a whole matrix has the shape (1,) or ().

    Args:
        a: Tensor or numpy array, int8 or uint8, one axis or more.
        b: Tensor or numpy array of a's dtype, one axis or more.
        a_scale: float32, broadcast to (..., n), where a is a vector to (...); None is 1.
        b_scale: float32, broadcast to (..., m), where b is a vector to (...); None is 1.
        bias: float32 or float16, broadcast to the result's shape.
        dtype: Of the result, 'float32' or 'float16'.
        out: The Tensor to write to, float32 or float16, in place of `dtype`.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit.
        DTypeError: if a and b do not have one dtype of both, or another argument a wrong one.
    """
    kind = dtype_of(dtype, "[scaled_matmul] dtype").name
    if kind not in ("float32", "float16"):
        raise DTypeError(f"[scaled_matmul] dtype must be float32 or float16 but is {kind}")
    added = (b_scale, a_scale, bias)  # in the kernel's order
    if (
        out is None
        and isinstance(a, Tensor)
        and isinstance(b, Tensor)
        and all(x is None or isinstance(x, Tensor) for x in added)
    ):
        more = [x._layout if isinstance(x, Tensor) else None for x in added]
        known = _known_scaled.get((a._layout, b._layout, *more, kind))
        if known is not None:
            result = a._fresh(known[0])
            views = (b._with(known[1]), a._with(known[2]), result._with(known[3]))
            extras = [
                x._with(own) if isinstance(x, Tensor) else None
                for x, own in zip(added, known[4:], strict=True)
            ]
            mul_mat_i8(*views, a_scale=extras[0], b_scale=extras[1], bias=extras[2])
            return result
    call = Call(_SCALED, a, b, b_scale, a_scale, bias, out=out)
    left, right = call.tensor("a", a), call.tensor("b", b)
    of_rows, of_cols = call.tensor("a_scale", a_scale), call.tensor("b_scale", b_scale)
    extra = call.tensor("bias", bias)
    _same("scaled_matmul", left, right)
    lead, tail = product_shape("scaled_matmul", left, right)
    if out is not None and out.dtype == "float16":
        kind = "float16"
    result = call.out((*lead, *tail), kind)
    rows, cols = left.ndim > 1, right.ndim > 1
    of_rows = _factors("a_scale", of_rows, lead, tail[:1] if rows else ())
    of_cols = _factors("b_scale", of_cols, lead, tail[-1:] if cols else ())
    extra = spread("scaled_matmul", "bias", extra, result.shape, rows, cols)
    views = matrices(left, right, result, lead)
    mul_mat_i8(*views, a_scale=of_cols, b_scale=of_rows, bias=extra)
    call.remember(_known_scaled, result, *views, of_cols, of_rows, extra, flags=(kind,))
    return call.leave(result)


def _factors(
    name: str, t: Tensor | None, lead: tuple[int, ...], tail: tuple[int, ...]
) -> Tensor | None:
    """The factors of one operand's rows or columns, which a vector has one of."""
    if t is None:
        return None
    try:
        full = t.broadcast_to((*lead, *tail))
    except ValueError:
        raise ShapeError(
            f"[scaled_matmul] {name} must broadcast to {(*lead, *tail)} but has shape {t.shape}"
        ) from None
    return full if tail else full[..., None]
