"""The rules of losses of classes."""

from __future__ import annotations

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import DTypeError, ShapeError

__all__ = ["entropy", "likelihood"]


def entropy(
    call: Call, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str
) -> Made:
    """The rule of cross_entropy: like `likelihood`, with one more output: for each row, the numbers
    that the gradient needs."""
    made = likelihood(call, input, target, weight, reduction)
    made.results["stats"] = call.empty((*_lead(input), 2), "float32")
    if target.dtype in FLOATS:
        made.views["target"] = _classes_last(target)
    return made


def likelihood(
    call: Call, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str
) -> Made:
    """The rule of nll_loss: a loss for each row or for all rows, and an output for the divisor of a
    mean."""
    for name, t in (("target", target), ("weight", weight)):
        if t is not None and t.dtype in FLOATS and t.dtype != input.dtype:
            raise DTypeError(
                f"[{call.op}] {name} must have the dtype of input, {input.dtype}, but is {t.dtype}"
            )
    if input.ndim < 1:
        raise ShapeError(f"[{call.op}] input must be (C,), (N, C) or (N, C, ...) but has shape ()")
    lead = _lead(input)
    is_classes = target.dtype not in FLOATS
    wanted = lead if is_classes else input.shape
    if target.shape != wanted:
        kind = "classes" if is_classes else "probabilities"
        raise ShapeError(
            f"[{call.op}] target of {kind} must have shape {wanted} for input of shape "
            f"{input.shape} but has {target.shape}"
        )
    result = call.out(lead if reduction == "none" else (), input.dtype)
    total = call.empty((), "float32") if reduction == "mean" else None
    return Made({"dst": result, "total": total}, {"x": _classes_last(input)})


def _lead(x: Tensor) -> tuple[int, ...]:
    """The shape of x without the axis of classes."""
    return (*x.shape[:1], *x.shape[2:]) if x.ndim > 1 else ()


def _classes_last(t: Tensor) -> Tensor:
    """A view in which the second axis of t is the last."""
    return t if t.ndim <= 2 else t.transpose(0, *range(2, t.ndim), 1)
