"""Losses, with the names and arguments of torch.nn.functional."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from pykernels._generated.wrappers import cross_entropy as _cross_entropy
from pykernels._generated.wrappers import nll_loss as _nll_loss
from pykernels.arrays import Array, Call, Known
from pykernels.device import Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import DTypeError, ShapeError
from pykernels.layout import contiguous_layout
from pykernels.plan import Kernel

__all__ = ["cross_entropy", "nll_loss"]

Reduction: TypeAlias = Literal["none", "mean", "sum"]


def _named(kernel: Kernel) -> Kernel:
    """The kernel for what is said of its arguments: x is called input, as in torch."""
    return replace(
        kernel, args=tuple([replace(a, name="input") if a.name == "x" else a for a in kernel.args])
    )


_CROSS_ENTROPY = _named(_cross_entropy.KERNEL)
_NLL_LOSS = _named(_nll_loss.KERNEL)
_cross_entropy_known: Known = {}


def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
    out: Tensor | None = None,
) -> Array:
    """Cross entropy of logits and targets: -sum_c t_c log(softmax(input)_c), as in torch.

    t_c is weight[c] * ((1 - label_smoothing) * target_c + label_smoothing / C). The logits are read
    once and computed with in f32; the result has their dtype. A logit of NaN or +inf, or a row of
    -inf alone, makes the row NaN.

    Args:
        input: Tensor or numpy array of logits, (C,), (N, C) or (N, C, ...), float32 or float16.
        target: Classes, int32 or int64, of the shape of input without the axis C, or weights of all
            classes (probabilities), of input's shape and dtype.
        weight: (C,), of input's dtype: a weight for each class; None is 1.
        ignore_index: Rows of this class cost nothing.
        reduction: 'mean' divides the sum by that of weight[target] over rows that count (by their
            number, where targets are probabilities); 'sum'; 'none' gives the loss of each row.
        label_smoothing: What of a target is spread over all classes, from 0 to 1.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or, for reduction 'none',
        the shape of input without the axis C. A mean of no rows is NaN.

    Raises:
        IndexRangeError: at the next synchronisation, for a class that is neither `ignore_index` nor
            in [0, C); at once where numpy arrays come back. Its row costs nothing.
        ArgumentError, DTypeError, ShapeError and what `pykernels.kernels.cross_entropy` raises.
    """
    if (
        out is None
        and isinstance(input, Tensor)
        and isinstance(target, Tensor)
        and (weight is None or isinstance(weight, Tensor))
        and isinstance(reduction, str)
    ):
        known = _cross_entropy_known.get(
            (input._layout, target._layout, None if weight is None else weight._layout, reduction)
        )
        if known is not None:
            made, found, sums = known
            result = input._fresh(made)
            _cross_entropy.cross_entropy(
                _classes_last(input), _of_classes(target), result, weight=weight,
                stats=input._fresh(found), total=None if sums is None else input._fresh(sums),
                ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing,
            )  # fmt: skip
            return result
    call = Call(_CROSS_ENTROPY, input, target, weight, out=out)
    x, t, w = (
        call.tensor("input", input), call.tensor("target", target), call.tensor("weight", weight)
    )  # fmt: skip
    lead = _lead("cross_entropy", x, t, w)
    result = call.out(() if reduction != "none" else lead, x.dtype)
    stats = x._fresh(contiguous_layout((*lead, 2), DTYPES["float32"]))
    total = _total(x, reduction)
    _cross_entropy.cross_entropy(
        _classes_last(x), _of_classes(t), result, weight=w, stats=stats, total=total,
        ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing,
    )  # fmt: skip
    call.remember(_cross_entropy_known, result, stats, total, flags=(reduction,))
    return call.leave(result)


def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    out: Tensor | None = None,
) -> Array:
    """Negative log likelihood: -weight[target] * input at the target's class, as in torch.

    Computed in f32; the result has the dtype of input. `cross_entropy(x, t)` is
    `nll_loss(log_softmax(x), t)` in one read and without the array between them.

    Args:
        input: Tensor or numpy array of logarithms of probabilities, (C,), (N, C) or (N, C, ...),
            float32 or float16.
        target: Classes, int32 or int64, of the shape of input without the axis C.
        weight: (C,), of input's dtype: a weight for each class; None is 1.
        ignore_index: Rows of this class cost nothing.
        reduction: 'mean' divides the sum by that of weight[target] over rows that count; 'sum';
            'none' gives the loss of each row.
        out: The Tensor to write to; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor: () or, for reduction 'none',
        the shape of input without the axis C. A mean of no rows is NaN.

    Raises:
        IndexRangeError: at the next synchronisation, for a class that is neither `ignore_index` nor
            in [0, C); at once where numpy arrays come back. Its row costs nothing.
        DTypeError, ShapeError and what `pykernels.kernels.nll_loss` raises.
    """
    call = Call(_NLL_LOSS, input, target, weight, out=out)
    x, t, w = (
        call.tensor("input", input), call.tensor("target", target), call.tensor("weight", weight)
    )  # fmt: skip
    lead = _lead("nll_loss", x, t, w)
    result = call.out(() if reduction != "none" else lead, x.dtype)
    _nll_loss.nll_loss(
        _classes_last(x), t, result, weight=w, total=_total(x, reduction),
        ignore_index=ignore_index, reduction=reduction,
    )  # fmt: skip
    return call.leave(result)


def _lead(op: str, x: Tensor, target: Tensor, weight: Tensor | None) -> tuple[int, ...]:
    """The shape of x without the axis of classes, which target has, or the whole one."""
    for name, t in (("target", target), ("weight", weight)):
        if t is not None and t._layout.dtype.kind == "f" and t.dtype != x.dtype:
            raise DTypeError(f"[{op}] {name} must be as input is, {x.dtype}, but is {t.dtype}")
    if x.ndim < 1:
        raise ShapeError(f"[{op}] input must be (C,), (N, C) or (N, C, ...) but has shape ()")
    lead = (*x.shape[:1], *x.shape[2:]) if x.ndim > 1 else ()
    wanted = x.shape if target._layout.dtype.kind == "f" else lead
    if target.shape != wanted:
        kind = "probabilities" if wanted is x.shape else "classes"
        raise ShapeError(
            f"[{op}] target of {kind} must have shape {wanted} for input of shape {x.shape} but "
            f"has {target.shape}"
        )
    return lead


def _total(x: Tensor, reduction: str) -> Tensor | None:
    """Room for what a mean divides by, which its gradient needs."""
    return x._fresh(contiguous_layout((), DTYPES["float32"])) if reduction == "mean" else None


def _classes_last(t: Tensor) -> Tensor:
    """A view whose last axis is the second of t."""
    return t if t.ndim <= 2 else t.transpose(0, *range(2, t.ndim), 1)


def _of_classes(target: Tensor) -> Tensor:
    """Targets as the kernel takes them: weights of classes have those last."""
    return _classes_last(target) if target._layout.dtype.kind == "f" else target
