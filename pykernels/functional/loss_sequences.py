"""Losses of sequences that are not aligned with their targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from pykernels._generated.functional import logaddexp
from pykernels._generated.kernels.gather import KERNEL
from pykernels._generated.operations.move import gather
from pykernels._generated.operations.reduce import mean
from pykernels._generated.operations.reduce import sum as sum_
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.autocast import live, recast
from pykernels.call.scalars import choice, flag, integer
from pykernels.device import Device, Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

from .elementwise import elementwise

__all__ = ["ctc_loss"]

_ARGS = (
    replace(KERNEL.args[0], name="log_probs", dtypes=("float32", "float16")),
    replace(KERNEL.args[1], name="targets", dtypes=("int32", "int64")),
)
_CTC = replace(KERNEL, name="ctc_loss", args=_ARGS)
_NONE = -1e30  # stands for log(0); the difference of two -inf would be NaN
Lengths: TypeAlias = Any  # Tensor, numpy array, list of integers, or integer


@again
@whole
def ctc_loss(
    log_probs: Array, targets: Array, input_lengths: Lengths, target_lengths: Lengths,
    blank: int = 0, reduction: Literal["none", "mean", "sum"] = "mean",
    zero_infinity: bool = False,
) -> Array:  # fmt: skip
    """Connectionist temporal classification, with torch's arguments. The loss is -log(p), where p
    is the sum of the probabilities of all alignments of the inputs that give the targets.

    The loss is computed in f32, with a few launches for each of the T steps. A tape keeps the
    values of each step. The gradient treats the numbers of log_probs as independent. torch's
    gradient assumes that log_probs come from `log_softmax`. If they do, both give the same gradient
    of the input of `log_softmax`.

    Args:
        log_probs: Tensor or numpy array, float32, float16 or bfloat16, (T, N, C) or (T, C): the
            logarithms of the probabilities of classes.
        targets: Tensor or numpy array, int32 or int64: (N, S), with each row used up to its target
            length, or all targets joined, (sum of target_lengths,). No blanks.
        input_lengths: The number of steps of each sequence: (N,) or one number, at most T. Lengths
            in a Tensor are not checked, and are read on the device.
        target_lengths: The number of targets of each sequence, at most S; 0 is allowed. The host
            reads lengths in a Tensor if the targets are joined.
        blank: The class that means "no target".
        reduction: 'mean' divides each loss by the target's length (at least 1) and takes the mean;
            'sum' adds the losses; 'none' gives the loss of each sequence.
        zero_infinity: True turns an infinite loss into 0. A loss is infinite if the inputs are too
            short for the targets. The gradient of an infinite loss is 0 in any case.

    Returns:
        The shape is (), or (N,) for 'none', and the dtype is that of log_probs: a numpy array if no
        argument is a Tensor, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
        IndexRangeError: at the next synchronisation, for a target that is no class; at once if the
            result is a numpy array.

    Source: Graves and others 2006.
    """
    op = "ctc_loss"
    choice(op, "reduction", reduction, ("none", "mean", "sum"))
    zero = flag(op, "zero_infinity", zero_infinity)
    if live:
        [log_probs] = recast(op, log_probs)
    given = [a for a in (input_lengths, target_lengths) if isinstance(a, Tensor)]
    call = Call(_CTC, log_probs, targets, *given)
    x, labels = call.tensor("log_probs", log_probs), call.tensor("targets", targets)
    if x.ndim not in (2, 3) or not x.shape[0]:
        raise ShapeError(
            f"[{op}] log_probs must be (T, N, C) or (T, C) with steps but has shape {x.shape}"
        )
    single = x.ndim == 2
    batch = x[:, None] if single else x
    steps, count, classes = batch.shape
    blank = integer(op, "blank", blank)
    if not 0 <= blank < classes:
        raise ArgumentError(f"[{op}] blank must be a class, below {classes}, but is {blank}")
    padded, theirs = _padded(op, labels, target_lengths, count, single)
    inputs = _lengths(op, "input_lengths", input_lengths, count, steps, x.device)
    each: Any = _losses(batch, padded, inputs, theirs, blank, zero)
    if reduction == "mean":
        each = mean(elementwise("l / float32(n)", l=each, n=_least_one(theirs).reshape(-1)))
    elif reduction == "sum":
        each = sum_(each)
    elif single:
        each = each[0]
    return call.leave(each.astype(x.dtype) if each.dtype != x.dtype else each)


def _least_one(lengths: Tensor) -> Any:
    return elementwise("maximum(n, 1)", n=lengths)


def _padded(
    op: str, labels: Tensor, lengths: Lengths, count: int, single: bool
) -> tuple[Tensor, Tensor]:
    """Targets as int32 (N, S), and their lengths."""
    name, device = "target_lengths", labels.device
    labels = labels if labels.dtype == "int32" else labels.astype("int32")
    if labels.ndim == 2 and labels.shape[0] == count:
        return labels, _lengths(op, name, lengths, count, labels.shape[1], device)
    if labels.ndim != 1:
        raise ShapeError(
            f"[{op}] targets must be ({count}, S) or have one axis but have shape {labels.shape}"
        )
    if single:
        return labels[None], _lengths(op, name, lengths, 1, labels.size, device)
    host = lengths.numpy() if isinstance(lengths, Tensor) else lengths
    found = _lengths(op, name, host, count, labels.size, device)
    numbers = np.broadcast_to(np.asarray(host, np.int64), (count,))
    if numbers.sum() != labels.size:
        raise ShapeError(
            f"[{op}] targets must have as many elements as target_lengths say, {numbers.sum()}, "
            f"but have {labels.size}"
        )
    ends = np.cumsum(numbers)
    places = (ends - numbers)[:, None] + np.arange(int(numbers.max(initial=0)))
    places = np.minimum(places, max(labels.size - 1, 0)).astype(np.int32)
    index = device.tensor(places)
    picked: Any = gather(labels, 0, index.reshape(-1))
    return picked.reshape(places.shape), found


def _lengths(op: str, name: str, given: Any, count: int, most: int, device: Device) -> Tensor:
    """Lengths of `count` sequences as int32 (N, 1)."""
    if isinstance(given, Tensor):
        if given.dtype not in ("int32", "int64") or given.shape not in ((count,), ()):
            raise ShapeError(
                f"[{op}] {name} must be int32 or int64 ({count},) but are {given.dtype} "
                f"{given.shape}"
            )
        found = given.astype("int32").broadcast_to((count,))
        clipped: Any = elementwise("minimum(maximum(n, 0), most)", n=found, most=most)
        return clipped.reshape((count, 1))  # type: ignore[no-any-return]
    try:
        numbers = np.asarray(given)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise TypeError
        numbers = np.broadcast_to(numbers.astype(np.int64), (count,))
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(
            f"[{op}] {name} must be {count} integers but are {type_name(given)} {given!r:.60}"
        ) from None
    if ((numbers < 0) | (numbers > most)).any():
        raise ArgumentError(f"[{op}] {name} must be from 0 to {most} but are {given!r:.60}")
    return device.tensor(numbers.astype(np.int32).reshape(count, 1))


def _losses(
    x: Tensor, labels: Tensor, inputs: Tensor, theirs: Tensor, blank: int, zero: bool
) -> Any:
    """The loss of each sequence, float32 (N,). x is (T, N, C), labels are (N, S), lengths are (N,
    1)."""
    (steps, count, _), device = x.shape, x.device
    width = 2 * labels.shape[1] + 1  # blanks before, between and after the targets
    states = device.full((count, width), blank, "int32")
    if width > 1:
        at = device.tensor(np.arange(labels.shape[1], dtype=np.int32))
        text = "where(at < n, label, blank)"
        states[:, 1::2] = elementwise(text, at=at, n=theirs, label=labels, blank=blank)
    index = states.broadcast_to((steps, count, width))
    logs = elementwise("maximum(float32(p), none)", p=gather(x, 2, index), none=_NONE)
    skips = device.full((count, width), _NONE)
    if width > 2:
        text = "where(a != blank and a != b, 0.0, none)"
        skips[:, 2:] = elementwise(text, a=states[:, 2:], b=states[:, :-2], blank=blank, none=_NONE)
    place = device.tensor(np.arange(width, dtype=np.int32))
    first = elementwise("where(s < 2, p, none)", s=place, p=logs[0], none=_NONE)
    alpha: Any = first
    text = "where(t < n, logaddexp(logaddexp(a, b), c + skip) + p, a)"
    for t in range(1, steps):
        wide = device.full((count, width + 2), _NONE)
        wide[:, 2:] = alpha
        a, b, c = wide[:, 2:], wide[:, 1:-1], wide[:, :-2]
        alpha = elementwise(text, t=t, n=inputs, a=a, b=b, c=c, skip=skips, p=logs[t])
    last = gather(alpha, 1, elementwise("2 * n", n=theirs))
    before = gather(alpha, 1, elementwise("maximum(2 * n - 1, 0)", n=theirs))
    before = elementwise("where(n > 0, b, none)", n=theirs, b=before, none=_NONE)
    total = logaddexp(last, before).reshape(-1)
    text = "where(n == 0, where(k == 0, 0, inf), where(l < -1e29, inf, -l))"
    lengths: dict[str, Any] = {"n": inputs.reshape(-1), "k": theirs.reshape(-1)}
    loss = elementwise(text, l=total, **lengths)
    return elementwise("where(isinf(l), 0, l)", l=loss) if zero else loss
