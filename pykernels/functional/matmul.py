"""matmul, by numpy's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from pykernels._generated.kernels.mul_mat import KERNEL
from pykernels._generated.ops import Activation
from pykernels.arrays import Array, Call, Known
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import DTypeError, ShapeError
from pykernels.kernels import mul_mat
from pykernels.scalars import real

__all__ = ["matmul"]

Precision: TypeAlias = Literal["fast"]

_MATMUL = replace(KERNEL, name="matmul")
_known: Known = {}
_CORE = "with core signature (n?,k),(k,m?)->(n?,m?)"


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

    Args:
        a: Tensor or numpy array, float32 or float16, one axis or more.
        b: Tensor or numpy array, float32 or float16, one axis or more.
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
            between 0 and 1: at most 3e-3 of sum|a||b|, 6e-4 on average.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if both operands
            are, else float32.

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
    call = Call(_MATMUL, a, b, bias, residual, out=out)
    left, right = call.tensor("a", a), call.tensor("b", b)
    extra = {"bias": call.tensor("bias", bias), "residual": call.tensor("residual", residual)}
    lead, tail = _shape(left, right)
    result = call.out((*lead, *tail), _dtype(left, right, out))
    rows, cols = left.ndim > 1, right.ndim > 1
    added, more = (_spread(name, t, result.shape, rows, cols) for name, t in extra.items())
    matrix_a = left if rows else left[None, :]
    matrix_b = right if cols else right[:, None]
    lead_b = range(matrix_b.ndim - 2)
    columns_b = matrix_b.transpose(*lead_b, matrix_b.ndim - 1, matrix_b.ndim - 2)
    views = (
        columns_b.broadcast_to((*lead, *columns_b.shape[-2:])),
        matrix_a.broadcast_to((*lead, *matrix_a.shape[-2:])),
        _with_axes(result, rows, cols),
    )
    mul_mat(
        *views, bias=added, residual=more, scale=scale, activation=activation, precision=precision
    )
    call.remember(_known, result, *views, added, more)
    return call.leave(result)


def _shape(left: Tensor, right: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The result's batch axes, and its rows and columns."""
    for number, t in enumerate((left, right)):
        if t.ndim == 0:
            raise ShapeError(
                f"[matmul] operand {number} ({'ab'[number]}) does not have enough dimensions (has "
                f"0, {_CORE} requires 1)"
            )
    cols = right.ndim > 1
    depth = right.shape[-2] if cols else right.shape[0]
    if left.shape[-1] != depth:
        raise ShapeError(
            f"[matmul] the last axis of a and the {'second last' if cols else 'only'} axis of b "
            f"must have one size but a has shape {left.shape} and b has shape {right.shape}"
        )
    try:
        lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"[matmul] operands could not be broadcast together: a has shape {left.shape}, b has "
            f"shape {right.shape}"
        ) from None
    return lead, left.shape[-2:-1] + (right.shape[-1:] if cols else ())


def _dtype(left: Tensor, right: Tensor, out: Tensor | None) -> DTypeName:
    if out is None:
        return "float16" if left.dtype == right.dtype == "float16" else "float32"
    if out.dtype not in ("float32", "float16"):
        raise DTypeError(f"[matmul] out must be float32 or float16 but is {out.dtype}")
    return out.dtype


def _spread(
    name: str, t: Tensor | None, shape: tuple[int, ...], rows: bool, cols: bool
) -> Tensor | None:
    """What is added, over the result with the axes that vectors left out."""
    if t is None:
        return None
    try:
        return _with_axes(t.broadcast_to(shape), rows, cols)
    except ValueError:
        raise ShapeError(
            f"[matmul] {name} must broadcast to {shape} but has shape {t.shape}"
        ) from None


def _with_axes(t: Tensor, rows: bool, cols: bool) -> Tensor:
    """A view with the axes that vectors left out."""
    if not rows:
        t = t[..., None, :] if cols else t[..., None]
    return t if cols else t[..., None]
