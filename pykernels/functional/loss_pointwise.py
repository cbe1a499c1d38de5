"""Losses of each element: expressions, and their sum or mean."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import numpy as np

from pykernels.call.apply import evaluate, reduce
from pykernels.call.arrays import Array
from pykernels.call.autocast import live, recast
from pykernels.call.promotion import result_type
from pykernels.call.scalars import flag, real
from pykernels.device import Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import expanded

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "smooth_l1_loss",
]  # fmt: skip

Reduction: TypeAlias = Literal["none", "mean", "sum"]
Batch: TypeAlias = Literal["none", "mean", "sum", "batchmean"]
Out: TypeAlias = Tensor | None

# Each loss is a `text` over input, target and other names in it. No term is a difference of large
# terms, and gradients exist at every point where torch has them.
_MSE = "square(input - target)"
_L1 = "abs(input - target)"
_BELOW = "minimum(abs(input - target), delta)"
_HUBER = f"{_BELOW} * (abs(input - target) - 0.5 * {_BELOW})"
_BCE = "(target - 1) * logsigmoid(-input) - {}target * logsigmoid(input)"
# Logarithms down to -100, torch's least one; what devices take for 0 counts as 0.
_LOG = "where({0} < 1.2e-38, -100, log(maximum({0}, 1.2e-38)))"
_OF_P = f"(target - 1) * {_LOG.format('(1 - input)')} - target * {_LOG.format('input')}"
# 0 for a target of 0: above the smallest number that no device takes for 0.
_KL = "target * (log(maximum(target, 1.2e-38)) - input)"
_KL_LOG = "exp(target) * (target - input)"


def mse_loss(
    input: Array, target: Array, *, reduction: Reduction = "mean", out: Out = None
) -> Array:
    """The squared error, (input - target)^2, as in torch.

    Computed and summed in f32; the result has the dtype of the operands.

    Args:
        input: Tensor or numpy array, float32 or float16.
        target: As `input`; both broadcast by numpy's rule, with a UserWarning where their
            shapes differ.
        reduction: 'mean' over all elements, 'sum', or 'none' for the loss of each element.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or the common shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    if live and out is None:
        input, target = recast("mse_loss", input, target)
    return _loss("mse_loss", _MSE, reduction, out, input=input, target=target)


def l1_loss(
    input: Array, target: Array, *, reduction: Reduction = "mean", out: Out = None
) -> Array:
    """The absolute error, |input - target|, as in torch; its gradient at 0 is 0.

    Computed and summed in f32; the result has the dtype of the operands.

    Args:
        input: Tensor or numpy array, float32 or float16.
        target: As `input`; both broadcast by numpy's rule, with a UserWarning where their
            shapes differ.
        reduction: 'mean' over all elements, 'sum', or 'none' for the loss of each element.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or the common shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    if live and out is None:
        input, target = recast("l1_loss", input, target)
    return _loss("l1_loss", _L1, reduction, out, input=input, target=target)


def huber_loss(
    input: Array, target: Array, *, reduction: Reduction = "mean", delta: float = 1.0,
    out: Out = None,
) -> Array:  # fmt: skip
    """Half the squared error up to an error of `delta`, beyond it delta (|error| - delta / 2).

    As in torch. Computed and summed in f32; the result has the dtype of the operands.

    Args:
        input: Tensor or numpy array, float32 or float16.
        target: As `input`; both broadcast by numpy's rule, with a UserWarning where their
            shapes differ.
        reduction: 'mean' over all elements, 'sum', or 'none' for the loss of each element.
        delta: Where the loss becomes linear, above 0.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or the common shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    size = real("huber_loss", "delta", delta)
    if not size > 0:
        raise ArgumentError(f"[huber_loss] delta must be above 0 but is {delta}")
    if live and out is None:
        input, target = recast("huber_loss", input, target)
    return _loss("huber_loss", _HUBER, reduction, out, input=input, target=target, delta=size)


def smooth_l1_loss(
    input: Array, target: Array, *, reduction: Reduction = "mean", beta: float = 1.0,
    out: Out = None,
) -> Array:  # fmt: skip
    """`huber_loss` with delta = beta, divided by beta: |error| - beta / 2 beyond beta, as in torch.

    Computed and summed in f32; the result has the dtype of the operands.

    Args:
        input: Tensor or numpy array, float32 or float16.
        target: As `input`; both broadcast by numpy's rule, with a UserWarning where their
            shapes differ.
        reduction: 'mean' over all elements, 'sum', or 'none' for the loss of each element.
        beta: Where the loss becomes linear; 0 is `l1_loss`.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or the common shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    op, size = "smooth_l1_loss", real("smooth_l1_loss", "beta", beta)
    if not size >= 0:
        raise ArgumentError(f"[smooth_l1_loss] beta must be 0 or more but is {beta}")
    if live and out is None:
        input, target = recast(op, input, target)
    if size == 0:
        return _loss(op, _L1, reduction, out, input=input, target=target)
    text = f"({_HUBER}) / delta"
    return _loss(op, text, reduction, out, input=input, target=target, delta=size)


def binary_cross_entropy(
    input: Array, target: Array, weight: Array | None = None, *, reduction: Reduction = "mean",
    out: Out = None,
) -> Array:  # fmt: skip
    """Cross entropy of probabilities, as in torch:
    -weight * (target * log(input) + (1 - target) * log(1 - input)).

    Logarithms are -100 at least, and the gradient divides by input * (1 - input) or by 1e-12 if
    that is larger, so both are finite at 0 and 1. Computed and summed in f32; the result has the
    dtype of the operands. `binary_cross_entropy_with_logits` loses no bits near 0 and 1.

    Args:
        input: Tensor or numpy array of probabilities, float32 or float16. Outside [0, 1] the loss
            is NaN.
        target: Probabilities, of input's shape.
        weight: A factor of each element; repeats to input's shape by numpy's rule.
        reduction: 'mean' over all elements, whatever their weights, 'sum', or 'none' for the loss
            of each element.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or input's shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    op = "binary_cross_entropy"
    if live and out is None:
        input, target, weight = recast(op, input, target, weight)
    text, given = f"where(input >= 0 and input <= 1, {_OF_P}, nan)", {
        "input": input, "target": target
    }  # fmt: skip
    if weight is not None:
        text, given["weight"] = f"weight * ({text})", weight
    _same_shape(op, input, target)
    _check(op, reduction, given)
    if reduction == "none":
        return evaluate(op, text, given, out)  # type: ignore[no-any-return]
    # The gradient is a rule for each element, which a reduction of the expression would not have.
    each = evaluate(op, f"float32({text})", given, None)
    total = reduce(op, "each", reduction, {"each": each}, None, False, None)
    dtype = result_type([str(a.dtype) for a in given.values() if str(a.dtype) != "float64"])
    if out is None:
        return total.astype(dtype)  # type: ignore[no-any-return]
    if out.shape != () or out.dtype != dtype:
        raise ShapeError(f"[{op}] out must be {dtype} () but is {out.dtype} {out.shape}")
    out[...] = total
    return out


def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Array | None = None, *, reduction: Reduction = "mean",
    pos_weight: Array | None = None, out: Out = None,
) -> Array:  # fmt: skip
    """Cross entropy of the logistic function of logits, as in torch.

    -weight * (pos_weight * target * log(sigmoid(input)) + (1 - target) * log(sigmoid(-input))),
    with logarithms that do not overflow, and without differences of large terms. Computed and
    summed in f32; the result has the dtype of the operands.

    Args:
        input: Tensor or numpy array of logits, float32 or float16.
        target: Probabilities, of input's shape.
        weight: A factor of each element; repeats to input's shape by numpy's rule.
        reduction: 'mean' over all elements, whatever their weights, 'sum', or 'none' for the loss
            of each element.
        pos_weight: A factor of the target; repeats in the same way, (classes,) as a rule.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or input's shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    op = "binary_cross_entropy_with_logits"
    if live and out is None:
        input, target, weight, pos_weight = recast(op, input, target, weight, pos_weight)
    given = {"input": input, "target": target}
    text = _BCE.format("" if pos_weight is None else "pos_weight * ")
    if pos_weight is not None:
        given["pos_weight"] = pos_weight
    if weight is not None:
        text, given["weight"] = f"weight * ({text})", weight
    _same_shape(op, input, target)
    return _loss(op, text, reduction, out, **given)


def kl_div(
    input: Array, target: Array, *, reduction: Batch = "mean", log_target: bool = False,
    out: Out = None,
) -> Array:  # fmt: skip
    """Kullback-Leibler divergence, target * (log(target) - input), as in torch.

    A target of 0 costs 0. Computed and summed in f32; the result has the dtype of the operands.

    Args:
        input: Tensor or numpy array of logarithms of probabilities, float32 or float16.
        target: Probabilities; both repeat to one shape by numpy's rule, with a UserWarning where
            their shapes differ.
        reduction: 'batchmean', the sum divided by the size of the first axis, is the mathematical
            definition; 'mean' over all elements, 'sum', or 'none' for the loss of each element.
        log_target: target holds logarithms too: the loss is exp(target) * (target - input).
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or the common shape.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    if live and out is None:
        input, target = recast("kl_div", input, target)
    text = _KL_LOG if flag("kl_div", "log_target", log_target) else _KL
    if not isinstance(reduction, str) or reduction != "batchmean":
        return _loss("kl_div", text, reduction, out, input=input, target=target)
    shape = _shape(input)
    if not shape:
        raise ShapeError("[kl_div] input must have an axis for reduction 'batchmean' but has ()")
    share = 1 / max(shape[0], 1)
    return _loss("kl_div", f"({text}) * share", "sum", out, input=input, target=target, share=share)


def _same_shape(op: str, input: Array, target: Array) -> None:
    shapes = [_shape(a) for a in (input, target)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"[{op}] target must have the shape of input, {shapes[0]}, but has {shapes[1]}"
        )


def _shape(a: object) -> tuple[int, ...]:
    return a.shape if isinstance(a, (Tensor, np.ndarray)) else ()


def _loss(op: str, text: str, reduction: str, out: Out, **operands: Any) -> Array:
    """An expression over operands, and what becomes of its values."""
    _check(op, reduction, operands)
    shapes = [a.shape for n in ("input", "target") if not isinstance(a := operands[n], float)]
    if len(shapes) == 2 and shapes[0] != shapes[1]:
        _warn_of_repeats(op, *shapes)
    if reduction == "none":
        return evaluate(op, text, operands, out)  # type: ignore[no-any-return]
    return reduce(op, text, reduction, operands, None, False, out)  # type: ignore[no-any-return]


def _check(op: str, reduction: str, operands: Mapping[str, Any]) -> None:
    """Errors of a reduction and of dtypes that losses do not take."""
    if not isinstance(reduction, str) or reduction not in ("none", "mean", "sum"):
        allowed = "'none', 'mean', 'sum' or 'batchmean'" if op == "kl_div" else _REDUCTIONS
        raise ArgumentError(f"[{op}] reduction must be {allowed} but is {reduction!r}")
    on_device = any(isinstance(a, Tensor) for a in operands.values())
    for name, a in operands.items():
        if isinstance(a, float):
            continue
        dtype = str(a.dtype) if hasattr(a, "dtype") else type_name(a)
        if on_device and dtype == "float64":  # becomes float32 beside a tensor
            continue
        if dtype not in DTYPES or DTYPES[dtype].kind != "f":
            raise DTypeError(f"[{op}] {name} must be float32 or float16 but is {dtype}")


def _warn_of_repeats(op: str, input: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Warn the caller of a loss whose operands repeat, as torch does: (3, 1) and (3,) make nine
    errors. The expression raises for shapes that do not fit."""
    with suppress(ValueError):
        whole = expanded(input, target)
        warnings.warn(
            f"[{op}] input has shape {input} and target {target}: both repeat to {whole}, which is "
            "seldom meant; reshape one of them, or say so with broadcast_to",
            UserWarning,
            stacklevel=4,
        )


_REDUCTIONS = "'none', 'mean' or 'sum'"
