"""Losses of each element: expressions, and their sum or mean."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from pykernels.call.again import not_kept
from pykernels.call.apply import evaluate, reduce
from pykernels.call.arrays import Array
from pykernels.call.promotion import result_type
from pykernels.call.scalars import real
from pykernels.device import Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.tensors.host import stacklevel, type_name
from pykernels.tensors.layout import expanded

__all__ = [
    "above_zero", "beyond", "divergence", "entropy_of_logits", "entropy_of_probabilities",
    "pointwise", "smooth",
]  # fmt: skip

Out: TypeAlias = Tensor | None


def pointwise(op: str, input: Array, target: Array, reduction: str, out: Out, text: str) -> Array:
    """The rule of mse_loss and l1_loss."""
    return _loss(op, text, reduction, out, input=input, target=target)


def above_zero(op: str, name: str, value: Any) -> float:
    """A number above 0."""
    size = real(op, name, value)
    if not size > 0:
        raise ArgumentError(f"[{op}] {name} must be above 0 but is {value}")
    return size


def beyond(
    op: str, input: Array, target: Array, reduction: str, delta: float, out: Out, text: str
) -> Array:
    """huber_loss."""
    return _loss(op, text, reduction, out, input=input, target=target, delta=delta)


def smooth(
    op: str, input: Array, target: Array, reduction: str, beta: float, out: Out, text: str,
    at_zero: str,
) -> Array:  # fmt: skip
    """smooth_l1_loss."""
    if not beta >= 0:
        raise ArgumentError(f"[{op}] beta must be 0 or more but is {beta}")
    if beta == 0:
        return _loss(op, at_zero, reduction, out, input=input, target=target)
    return _loss(op, text, reduction, out, input=input, target=target, beta=beta)


def entropy_of_probabilities(
    op: str, input: Array, target: Array, weight: Array | None, reduction: str, out: Out, text: str
) -> Array:
    """binary_cross_entropy."""
    given = {"input": input, "target": target}
    if weight is not None:
        text, given["weight"] = f"weight * ({text})", weight
    _same_shape(op, input, target)
    _check(op, given)
    if reduction == "none":
        return evaluate(op, text, given, out)  # type: ignore[no-any-return]
    # binary_cross_entropy has a gradient rule of its own, for each element. A reduction of the
    # expression would not use this rule, so each loss is computed first.
    each = evaluate(op, f"float32({text})", given, None)
    total = reduce(op, "each", reduction, {"each": each}, None, False, None)
    dtype = result_type([str(a.dtype) for a in given.values() if str(a.dtype) != "float64"])
    if out is None:
        return total.astype(dtype)  # type: ignore[no-any-return]
    if out.shape != () or out.dtype != dtype:
        raise ShapeError(f"[{op}] out must be {dtype} () but is {out.dtype} {out.shape}")
    out[...] = total
    return out


def entropy_of_logits(
    op: str, input: Array, target: Array, weight: Array | None, reduction: str,
    pos_weight: Array | None, out: Out,
) -> Array:  # fmt: skip
    """The rule of binary_cross_entropy_with_logits."""
    given = {"input": input, "target": target}
    factor = "" if pos_weight is None else "pos_weight * "
    text = f"(target - 1) * logsigmoid(-input) - {factor}target * logsigmoid(input)"
    if pos_weight is not None:
        given["pos_weight"] = pos_weight
    if weight is not None:
        text, given["weight"] = f"weight * ({text})", weight
    _same_shape(op, input, target)
    return _loss(op, text, reduction, out, **given)


def divergence(
    op: str, input: Array, target: Array, reduction: str, log_target: bool, out: Out, text: str,
    of_logarithms: str,
) -> Array:  # fmt: skip
    """kl_div."""
    text = of_logarithms if log_target else text
    if reduction != "batchmean":
        return _loss(op, text, reduction, out, input=input, target=target)
    shape = _shape(input)
    if not shape:
        raise ShapeError(f"[{op}] input must have an axis for reduction 'batchmean' but has ()")
    share = 1 / max(shape[0], 1)
    return _loss(op, f"({text}) * share", "sum", out, input=input, target=target, share=share)


def _same_shape(op: str, input: Array, target: Array) -> None:
    shapes = [_shape(a) for a in (input, target)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"[{op}] target must have the shape of input, {shapes[0]}, but has {shapes[1]}"
        )


def _shape(a: object) -> tuple[int, ...]:
    return a.shape if isinstance(a, (Tensor, np.ndarray)) else ()


def _loss(op: str, text: str, reduction: str, out: Out, **operands: Any) -> Array:
    """The value of an expression of operands, reduced."""
    _check(op, operands)
    shapes = [a.shape for n in ("input", "target") if not isinstance(a := operands[n], float)]
    if len(shapes) == 2 and shapes[0] != shapes[1]:
        not_kept(operands.values())
        _warn_of_repeats(op, *shapes)
    if reduction == "none":
        return evaluate(op, text, operands, out)  # type: ignore[no-any-return]
    return reduce(op, text, reduction, operands, None, False, out)  # type: ignore[no-any-return]


def _check(op: str, operands: Mapping[str, Any]) -> None:
    """Raise an error for dtypes that losses do not support."""
    on_device = any(isinstance(a, Tensor) for a in operands.values())
    for name, a in operands.items():
        if isinstance(a, float):
            continue
        dtype = str(a.dtype) if hasattr(a, "dtype") else type_name(a)
        if on_device and dtype == "float64":  # float64 becomes float32 beside a tensor
            continue
        if dtype not in DTYPES or DTYPES[dtype].kind != "f":
            raise DTypeError(f"[{op}] {name} must be float32, float16 or bfloat16 but is {dtype}")


def _warn_of_repeats(op: str, input: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Warn the caller of a loss whose operands repeat, as torch does: (3, 1) and (3,) give nine
    elements. If the shapes do not fit, the expression raises the error."""
    with suppress(ValueError):
        whole = expanded(input, target)
        warnings.warn(
            f"[{op}] input has shape {input} and target {target}: both repeat to {whole}, which is "
            "rarely intended; reshape one of them, or repeat it with broadcast_to",
            UserWarning,
            stacklevel=stacklevel(),
        )
