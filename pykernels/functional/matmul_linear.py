"""The affine map of a layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pykernels._generated.kernels.mul_mat import KERNEL
from pykernels._generated.ops import Activation
from pykernels.arrays import Array, Call, Known
from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.kernels import mul_mat

__all__ = ["linear"]

_known: Known = {}
_NAMES = {"a": "w", "b": "x", "bias": "b"}
_LINEAR = replace(
    KERNEL, name="linear",
    args=tuple(replace(arg, name=_NAMES.get(arg.name, arg.name)) for arg in KERNEL.args),
)  # fmt: skip


def linear(
    x: Array, w: Array, b: Array | None = None, *, activation: Activation | None = None,
    precision: Literal["fast", "split"] | None = None, out: Tensor | None = None,
) -> Array:  # fmt: skip
    """x @ w.T + b, then an activation: one matrix product, whatever axes x has (torch).

    Sums are f32 whatever the operands are, and no operand is rounded.

    Args:
        x: Tensor or numpy array, float32 or float16, (..., k).
        w: Tensor or numpy array, float32 or float16, (n, k), or (k,) for one number of each row.
        b: float32 or float16, (n,); of a w of one axis ().
        activation, precision: as in `matmul`.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if x and w are.

    Returns:
        (..., n), of a w of one axis (...): a numpy array if all arguments are, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit.
        DTypeError, ArgumentError and what `pykernels.kernels.mul_mat` raises.
    """
    if (
        out is None
        and isinstance(x, Tensor)
        and isinstance(w, Tensor)
        and (b is None or isinstance(b, Tensor))
    ):
        known = _known.get((x._layout, w._layout, None if b is None else b._layout))
        if known is not None:
            lay, wide, tall, dst, added = known
            result = x._fresh(lay)
            mul_mat(
                w._with(wide), x._with(tall), result._with(dst),
                bias=None if b is None else b._with(added), activation=activation,
                precision=precision,
            )  # fmt: skip
            return result
    call = Call(_LINEAR, x, w, b, out=out)
    rows, weight, bias = call.tensor("x", x), call.tensor("w", w), call.tensor("b", b)
    if rows.ndim < 1 or weight.ndim not in (1, 2) or rows.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            "[linear] x must be (..., k) and w (n, k) or (k,) but they have shapes "
            f"{rows.shape} and {weight.shape}"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise ShapeError(
            f"[linear] b must have shape {weight.shape[:-1]} but has shape {bias.shape}"
        )
    halves = rows.dtype == weight.dtype == "float16"
    dtype = out.dtype if out is not None else "float16" if halves else "float32"
    result = call.out((*rows.shape[:-1], *weight.shape[:-1]), dtype)
    matrix, dst = rows, result
    if weight.ndim == 1:
        weight, bias, dst = weight[None], None if bias is None else bias[None], dst[..., None]
    if rows.ndim == 1:
        matrix, dst = matrix[None], dst[None]
    weight = weight.broadcast_to((*matrix.shape[:-2], *weight.shape))
    added = None if bias is None else bias.broadcast_to(dst.shape)
    mul_mat(weight, matrix, dst, bias=added, activation=activation, precision=precision)
    call.remember(_known, result, weight, matrix, dst, added)
    return call.leave(result)
