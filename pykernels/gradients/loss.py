"""Losses of classes; k is dy, divided by what a mean divides by.

By the logits: k * (softmax(x) * sum(t) - t). By targets that are weights of all classes:
-k * (1 - label_smoothing) * weight[c] * log(softmax(x)_c).
"""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.device import Tensor
from pykernels.errors import TapeError
from pykernels.tape import Taped, reads


@reads("x", "target", "weight", "stats", "total")
def cross_entropy(call: Taped) -> None:
    dy = _dy(call)
    if dy is None:
        return
    x, target, weight = call.saved("x"), call.saved("target"), call.saved("weight")
    total = _total(call)
    if call.wants("x"):
        stats = call.saved("stats")
        if stats is None:
            raise TapeError("[tape] cross_entropy has no gradient rule without its output stats")
        dx = _like(x)
        kernels.cross_entropy_backward(
            x, target, stats, dy, dx, total=total, weight=weight,
            ignore_index=call.option("ignore_index"),
            label_smoothing=call.option("label_smoothing"),
        )  # fmt: skip
        call.give("x", dx)
    if call.wants("target"):
        k: Any = dy if total is None else dy / total
        k = k * (call.option("label_smoothing") - 1)
        share: Any = k[..., None] * F.log_softmax(x)
        call.give("target", share if weight is None else share * weight)


@reads("target", "weight", "total")
def nll_loss(call: Taped) -> None:
    dy = _dy(call)
    if dy is None:
        return
    shape = call.shape("x")
    assert shape is not None
    dx = dy.device.empty(shape, dy.dtype)
    kernels.nll_loss_backward(
        call.saved("target"), dy, dx, total=_total(call), weight=call.saved("weight"),
        ignore_index=call.option("ignore_index"),
    )  # fmt: skip
    call.give("x", dx)


def _dy(call: Taped) -> Tensor | None:
    """The gradient of the loss; None where only one of stats or of total is asked for."""
    if call.wants("weight"):
        raise TapeError(f"[tape] {call.kernel.name} has no gradient rule for weight")
    found: Tensor | None = call.dy()
    return found


def _total(call: Taped) -> Tensor | None:
    """What the mean divided by."""
    if call.option("reduction") != "mean":
        return None
    total: Tensor | None = call.saved("total")
    if total is None:
        raise TapeError(f"[tape] {call.kernel.name} has no gradient rule without its output total")
    return total


def _like(x: Tensor) -> Tensor:
    """An empty tensor whose axes lie in memory as those of x do."""
    order = sorted(range(x.ndim), key=lambda a: -abs(x._layout.strides[a]))
    found = x.device.empty(tuple([x.shape[a] for a in order]), x.dtype)
    return found.transpose([order.index(a) for a in range(x.ndim)]) if x.ndim else found
