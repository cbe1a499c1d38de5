"""Products with quantised weights: matmul and linear of a QTensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pykernels._generated.kernels.mul_mat_quant import KERNEL
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.quant.types import type_of
from pykernels.runtime.launch import run
from pykernels.steps import Kernel
from pykernels.tensors.quantised import QTensor, Transposed

from .products import spread

__all__ = [
    "is_quantised_affine", "is_quantised_product", "quantised_affine", "quantised_product",
]  # fmt: skip


def _as(op: str, names: dict[str, str]) -> Kernel:
    """The kernel under the name `op`, with renamed arguments; errors then show these names."""
    args = tuple([replace(a, name=names.get(a.name, a.name)) for a in KERNEL.args])
    return replace(KERNEL, name=op, args=args)


_LINEAR, _MATMUL = _as("linear", {"b": "x", "bias": "b"}), _as("matmul", {"b": "a"})


def is_quantised_product(a: Any, b: Any, *_: Any) -> bool:
    """True if an operand of matmul is a QTensor."""
    return isinstance(b, Transposed | QTensor) or isinstance(a, Transposed | QTensor)


def is_quantised_affine(x: Any, w: Any, *_: Any) -> bool:
    """True if the weights of linear are a QTensor."""
    return isinstance(w, Transposed | QTensor)


def quantised_product(
    a: Any, b: Any, bias: Array | None, residual: Array | None, scale: float,
    activation: str | None, precision: str | None, out: Tensor | None,
) -> Array:  # fmt: skip
    """The rule of matmul for x and the transpose of a QTensor."""
    if not isinstance(b, Transposed):
        raise ShapeError(
            "[matmul] a QTensor takes part as b, transposed: matmul(x, q.T) for q of shape (m, k)"
        )
    return _product(_MATMUL, a, b.of, bias, residual, scale, activation, precision, out)


def quantised_affine(
    x: Any, w: Any, b: Array | None, activation: str | None, precision: str | None,
    out: Tensor | None,
) -> Array:  # fmt: skip
    """The rule of linear with a QTensor as weights."""
    if not isinstance(w, QTensor):
        raise ShapeError("[linear] w must be (n, k): a QTensor itself, not its transpose")
    if isinstance(b, Tensor | np.ndarray) and b.shape != w.shape[:-1]:
        raise ShapeError(f"[linear] b must have shape {w.shape[:-1]} but has shape {b.shape}")
    return _product(_LINEAR, x, w, b, None, 1.0, activation, precision, out)


def _product(
    kernel: Kernel, x: Any, w: QTensor, bias: Array | None, residual: Array | None,
    scale: float, activation: str | None, precision: str | None, out: Tensor | None,
) -> Tensor:  # fmt: skip
    op, (name, added) = kernel.name, [kernel.args[i].name for i in (3, 4)]
    type_of(op, w.type)
    if precision in ("split", "high"):
        precision = None  # by default, products with blocks are as exact as float32
    if w.ndim != 2:
        raise ShapeError(f"[{op}] a QTensor must be (n, k) but has shape {w.shape}")
    call = Call(kernel, w.low, x, bias, residual, out=out)
    matrix = call.tensor(name, x)
    if matrix.ndim < 1 or matrix.shape[-1] != w.shape[-1]:
        raise ShapeError(f"[{op}] {name} must be (..., {w.shape[-1]}) but has shape {matrix.shape}")
    dtype = call.asked_dtype or matrix.dtype
    if dtype not in FLOATS:
        raise DTypeError(f"[{op}] out must be float32, float16 or bfloat16 but is {dtype}")
    result = call.out((*matrix.shape[:-1], w.shape[0]), dtype)
    extras = [
        spread(op, key, None if value is None else call.tensor(key, value), result.shape,
               matrix.ndim > 1, True)
        for key, value in ((added, bias), ("residual", residual))
    ]  # fmt: skip
    rows, dst = (matrix, result) if matrix.ndim > 1 else (matrix[None], result[None])
    tensors = (w.low, w.scales, w.high, rows, *extras, dst)
    run(KERNEL, tensors, (scale,), (w.type, activation, precision))
    return result
