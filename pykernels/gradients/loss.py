"""Losses of classes; k is dy, divided by the divisor of a mean.

By the logits: k * (softmax(x) * sum(t) - t). By targets that are weights of all classes:
-k * (1 - label_smoothing) * weight[c] * log(softmax(x)_c).
"""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.device import Tensor
from pykernels.errors import TapeError
from pykernels.functional.elementwise import elementwise
from pykernels.functional.gradient import stop_gradient
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
    """The gradient of the loss; None if only the gradient of stats or total is wanted."""
    if call.wants("weight"):
        raise TapeError(f"[tape] {call.kernel.name} has no gradient rule for weight")
    found: Tensor | None = call.dy()
    return found


def _total(call: Taped) -> Tensor | None:
    """The divisor of the mean."""
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


@reads("x", "target", "stats", "dy", "weight", "total")
def cross_entropy_backward(call: Taped) -> None:
    """Of dst = k * (s * softmax(x) - t): k is dy by the mean's divisor, s the sum of t. `stats` has
    the largest logit of each row, and s by the sum of its exponentials. The divisor does not depend
    on x."""
    for name in ("target", "weight"):
        if call.wants(name):
            raise TapeError(f"[tape] cross_entropy_backward has no gradient rule for {name}")
    x, stats, given, total = (call.saved("x"), call.saved("stats"), call.dy(), call.saved("total"))
    if call.wants("x"):
        k: Any = call.saved("dy") if total is None else call.saved("dy") / total
        text = "where(share == 0, 0, exp(float32(x) - top) * share)"
        weights = elementwise(text, x=x, top=stats[..., :1], share=stats[..., 1:])
        k = k[..., None] * stop_gradient(F.sum(weights, axis=-1, keepdims=True))
        p = F.softmax(x.astype("float32"))
        along = F.sum(given * p, axis=-1, keepdims=True)
        text = "k * p * (float32(given) - along)"
        call.give("x", elementwise(text, k=k, p=p, given=given, along=along))
    if call.wants("dy"):
        base = _like(x)
        kernels.cross_entropy_backward(
            x, call.saved("target"), stats, x.device.ones(call.shape("dy") or ()), base,
            total=total, weight=call.saved("weight"), ignore_index=call.option("ignore_index"),
            label_smoothing=call.option("label_smoothing"),
        )  # fmt: skip
        call.give("dy", F.sum(elementwise("float32(g) * b", g=given, b=base), axis=-1))


@reads("target", "weight", "total")
def nll_loss_backward(call: Taped) -> None:
    """The kernel is linear in dy, so the second gradient is the loss of each row."""
    if call.wants("weight"):
        raise TapeError("[tape] nll_loss_backward has no gradient rule for weight")
    found: Any = F.nll_loss(
        call.dy(), call.saved("target"), weight=call.saved("weight"),
        ignore_index=call.option("ignore_index"), reduction="none",
    )  # fmt: skip
    total = call.saved("total")
    call.give("dy", found if total is None else found / total)
