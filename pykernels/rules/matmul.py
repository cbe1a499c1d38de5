"""The rules of products of matrices."""

from __future__ import annotations

from typing import Any, Literal

from pykernels.call.arrays import Array, Call
from pykernels.call.operation import Made
from pykernels.call.promotion import promote
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError, ShapeError

from .products import matrices, product_shape, spread

__all__ = ["affine", "are_bytes", "float_dtype", "integer_product", "product", "scaled_product"]


def product(call: Call, a: Tensor, b: Tensor, bias: Tensor | None, residual: Tensor | None) -> Made:
    """matmul."""
    lead, tail = product_shape(call.op, a, b)
    result = call.out((*lead, *tail), _dtype(call, a, b))
    rows, cols = a.ndim > 1, b.ndim > 1
    views: dict[str, Tensor | None] = dict(_matrices(a, b, result, lead))
    for name, t in (("bias", bias), ("residual", residual)):
        views[name] = spread(call.op, name, t, result.shape, rows, cols)
    return Made({"dst": result}, views)


def _matrices(a: Tensor, b: Tensor, result: Tensor, lead: tuple[int, ...]) -> dict[str, Tensor]:
    """The tensors of a product in the kernel's order: the kernel's a has the columns of the
    result."""
    return dict(zip(("a", "b", "dst"), matrices(a, b, result, lead), strict=True))


def _dtype(call: Call, a: Tensor, b: Tensor) -> DTypeName:
    """The dtype of the result: the dtype of `out`, or the common dtype of both operands, or float32
    if they differ."""
    asked = call.asked_dtype
    if asked is None:
        return promote(a.dtype, b.dtype)
    if asked not in FLOATS:
        raise DTypeError(f"[{call.op}] out must be float32, float16 or bfloat16 but is {asked}")
    return asked


def affine(call: Call, x: Tensor, w: Tensor, b: Tensor | None) -> Made:
    """linear."""
    if x.ndim < 1 or w.ndim not in (1, 2) or x.shape[-1] != w.shape[-1]:
        raise ShapeError(
            f"[{call.op}] x must be (..., k) and w (n, k) or (k,) but they have shapes {x.shape} "
            f"and {w.shape}"
        )
    if b is not None and b.shape != w.shape[:-1]:
        raise ShapeError(f"[{call.op}] b must have shape {w.shape[:-1]} but has shape {b.shape}")
    result = call.out((*x.shape[:-1], *w.shape[:-1]), _dtype(call, x, w))
    matrix, weight, bias, dst = x, w, b, result
    if w.ndim == 1:
        weight, bias, dst = w[None], None if b is None else b[None], dst[..., None]
    if x.ndim == 1:
        matrix, dst = x[None], dst[None]
    views = {
        "a": weight.broadcast_to((*matrix.shape[:-2], *weight.shape)), "b": matrix, "dst": dst,
        "bias": None if bias is None else bias.broadcast_to(dst.shape),
    }  # fmt: skip
    return Made({"dst": result}, views)


# -- bytes ----------------------------------------------------------------------------------------


def are_bytes(
    a: Array, b: Array, bias: Array | None, residual: Array | None, scale: float,
    activation: str | None, precision: str | None, out: Tensor | None,
) -> bool:  # fmt: skip
    """True if both operands of matmul are int8 or uint8."""
    if not all(str(getattr(x, "dtype", "")) in ("int8", "uint8") for x in (a, b)):
        return False
    others = (bias, residual, activation, precision)
    if scale != 1.0 or any(option is not None for option in others):
        raise ArgumentError(
            "[matmul] bias, residual, scale, activation and precision need float operands but "
            f"a is {a.dtype}: scaled_matmul has factors and a bias"
        )
    return True


def integer_product(call: Call, a: Tensor, b: Tensor) -> Made:
    """matmul of bytes."""
    _check_same(call.op, a, b)
    lead, tail = product_shape(call.op, a, b)
    result = call.out((*lead, *tail), "int32")
    return Made({"dst": result}, dict(_matrices(a, b, result, lead)))


def scaled_product(
    call: Call, a: Tensor, b: Tensor, a_scale: Tensor | None, b_scale: Tensor | None,
    bias: Tensor | None, dtype: DTypeName,
) -> Made:  # fmt: skip
    """scaled_matmul."""
    _check_same(call.op, a, b)
    lead, tail = product_shape(call.op, a, b)
    asked = call.asked_dtype
    result = call.out((*lead, *tail), asked if asked in FLOATS else dtype)
    rows, cols = a.ndim > 1, b.ndim > 1
    views: dict[str, Tensor | None] = dict(_matrices(a, b, result, lead))
    views["b_scale"] = _factors(call.op, "a_scale", a_scale, lead, tail[:1] if rows else ())
    views["a_scale"] = _factors(call.op, "b_scale", b_scale, lead, tail[-1:] if cols else ())
    views["bias"] = spread(call.op, "bias", bias, result.shape, rows, cols)
    return Made({"dst": result}, views)


def float_dtype(op: str, name: str, value: Any) -> Literal["float32", "float16", "bfloat16"]:
    """The name of a dtype of floats, in any form of a dtype."""
    found = dtype_of(value, f"[{op}] {name}").name
    if found == "float32" or found == "float16" or found == "bfloat16":
        return found
    raise DTypeError(f"[{op}] {name} must be float32, float16 or bfloat16 but is {found}")


def _check_same(op: str, a: Tensor, b: Tensor) -> None:
    if a.dtype != b.dtype:
        raise DTypeError(
            f"[{op}] a and b must have one dtype, int8 or uint8, but have {a.dtype} and {b.dtype}"
        )


def _factors(
    op: str, name: str, t: Tensor | None, lead: tuple[int, ...], tail: tuple[int, ...]
) -> Tensor | None:
    """The factors of one operand's rows or columns; a vector operand has one factor."""
    if t is None:
        return None
    try:
        full = t.broadcast_to((*lead, *tail))
    except ValueError:
        raise ShapeError(
            f"[{op}] {name} must broadcast to {(*lead, *tail)} but has shape {t.shape}"
        ) from None
    return full if tail else full[..., None]
