"""The affine map of a layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, overload

from pykernels._generated.kernels.mul_mat import KERNEL
from pykernels._generated.ops import Activation
from pykernels.arrays import Array, Call, NDArray
from pykernels.device import Tensor
from pykernels.errors import ShapeError

from .matmul import matmul

__all__ = ["linear"]

_NAMES = {"a": "w", "b": "x", "bias": "b"}
_LINEAR = replace(
    KERNEL, name="linear",
    args=tuple(replace(arg, name=_NAMES.get(arg.name, arg.name)) for arg in KERNEL.args),
)  # fmt: skip


@overload
def linear(
    x: Tensor, w: Array, b: Array | None = None, *, activation: Activation | None = None,
    precision: Literal["fast"] | None = None, out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def linear(
    x: Array, w: Tensor, b: Array | None = None, *, activation: Activation | None = None,
    precision: Literal["fast"] | None = None, out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def linear(
    x: NDArray, w: NDArray, b: NDArray | None = None, *, activation: Activation | None = None,
    precision: Literal["fast"] | None = None, out: None = None,
) -> NDArray: ...  # fmt: skip
@overload
def linear(
    x: Array, w: Array, b: Array | None = None, *, activation: Activation | None = None,
    precision: Literal["fast"] | None = None, out: Tensor | None = None,
) -> Array: ...  # fmt: skip
def linear(
    x: Array, w: Array, b: Array | None = None, *, activation: Activation | None = None,
    precision: Literal["fast"] | None = None, out: Tensor | None = None,
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
    result = matmul(rows, weight.T, bias=bias, activation=activation, precision=precision, out=out)
    return call.leave(result)
