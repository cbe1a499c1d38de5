"""Losses of classes. In the formulas, k is dy, divided by the divisor of the mean if the reduction
is a mean; t are the shares of the classes in the target, times the weights of the classes.

The gradient of the logits is k * (softmax(x) * sum(t) - t). The gradient of targets that are
probabilities of classes is -k * (1 - label_smoothing) * weight[c] * log(softmax(x)_c). The loss is
linear in the weights of classes, but a mean divides by a sum of them.
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
    x, target, weight = call.saved("x"), call.saved("target"), call.saved("weight")
    dy, total = call.dy(), _total(call)
    if dy is not None and call.wants("x"):
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
    if dy is not None and call.wants("target"):
        k: Any = dy if total is None else dy / total
        k = k * (call.option("label_smoothing") - 1)
        share: Any = k[..., None] * F.log_softmax(x)
        call.give("target", share if weight is None else share * weight)
    if call.wants("weight"):
        costs = elementwise("-share * logs", share=_shares(call, x), logs=_logs(x))
        _give_weight(call, weight, costs, dy, total)


@reads("x", "target", "weight", "total")
def nll_loss(call: Taped) -> None:
    dy, total = call.dy(), _total(call)
    target, weight = call.saved("target"), call.saved("weight")
    if dy is not None and call.wants("x"):
        shape = call.shape("x")
        assert shape is not None
        dx = dy.device.empty(shape, dy.dtype)
        kernels.nll_loss_backward(
            target, dy, dx, total=total, weight=weight, ignore_index=call.option("ignore_index")
        )
        call.give("x", dx)
    if call.wants("weight"):
        x = call.saved("x")
        text = "where(share == 0, 0, -share * float32(x))"
        _give_weight(call, weight, elementwise(text, share=_shares(call, x), x=x), dy, total)


def _give_weight(call: Taped, weight: Any, costs: Any, dy: Any, total: Any) -> None:
    """The gradient of the weights of classes. The loss of a row is the sum of weight * costs, and a
    mean divides it by a sum of weights. This sum is the output `total`, which may have a gradient
    of its own."""
    rows = tuple(range(costs.ndim - 1))
    found: Any = None
    if dy is not None:
        k = dy if total is None else dy / total
        found = F.sum(elementwise("k * costs", k=_per_row(k, costs), costs=costs), axis=rows)
    is_classes = call.saved("target").dtype in ("int32", "int64")
    through: Any = call.dy("total") if is_classes else None
    if is_classes and total is not None and dy is not None:
        mean = F.sum(found * weight.astype("float32"))  # dy times the mean of the losses
        through = -mean / total + (0 if through is None else through)
    if through is not None:
        counts = F.sum(_hot(call, costs), axis=rows)
        found = counts * through + (0 if found is None else found)
    if found is not None:
        call.give("weight", found)


def _per_row(k: Any, costs: Any) -> Any:
    """A number for each row, or one number for all rows, in a form that multiplies (...,
    classes)."""
    return k[..., None] if k.ndim else k


def _shares(call: Taped, x: Any) -> Any:
    """The target as shares of classes, float32 (..., classes). Rows that do not count are 0, and
    the weights of classes are not included."""
    smooth, classes = call.option("label_smoothing") if _smooths(call) else 0.0, x.shape[-1]
    target = call.saved("target")
    if target.dtype in ("int32", "int64"):
        hot = _hot(call, x)
        if not smooth:
            return hot
        rows = F.sum(hot, axis=-1, keepdims=True)
        return elementwise("(1 - s) * hot + r * s / c", hot=hot, r=rows, s=smooth, c=float(classes))
    text = "(1 - s) * float32(t) + s / c"
    return elementwise(text, t=target, s=smooth, c=float(classes))


def _smooths(call: Taped) -> bool:
    return "label_smoothing" in call.kernel.options


def _hot(call: Taped, x: Any) -> Any:
    """1 at the class of each row that counts, else 0: (..., classes), float32."""
    target, ignored = call.saved("target"), call.option("ignore_index")
    places = F.arange(x.shape[-1], dtype="int32", device=x.device)
    text = "where(c == t and t != ignored, 1.0, 0.0)"
    return elementwise(text, c=places, t=target.astype("int32")[..., None], ignored=ignored)


def _logs(x: Any) -> Any:
    """Logarithms of probabilities; -1e30 for log 0, so that its product with a share of 0 is 0."""
    return elementwise("maximum(l, -1e30)", l=F.log_softmax(x.astype("float32")))


def _total(call: Taped) -> Tensor | None:
    """The number by which the mean divides."""
    if call.option("reduction") != "mean":
        return None
    total: Tensor | None = call.saved("total")
    if total is None:
        raise TapeError(f"[tape] {call.kernel.name} has no gradient rule without its output total")
    return total


def _like(x: Tensor) -> Tensor:
    """An empty tensor with the shape of x and the same order of axes in memory."""
    order = sorted(range(x.ndim), key=lambda a: -abs(x._layout.strides[a]))
    found = x.device.empty(tuple([x.shape[a] for a in order]), x.dtype)
    return found.transpose([order.index(a) for a in range(x.ndim)]) if x.ndim else found


@reads("x", "target", "stats", "dy", "weight", "total")
def cross_entropy_backward(call: Taped) -> None:
    """The gradients of dst = k * (s * softmax(x) - t). k is dy divided by the mean's divisor, and s
    is the sum of t. `stats` has the largest logit of each row, and s divided by the sum of its
    exponentials."""
    x, stats, given, total = (call.saved("x"), call.saved("stats"), call.dy(), call.saved("total"))
    k: Any = call.saved("dy") if total is None else call.saved("dy") / total
    if call.wants("x"):
        text = "where(share == 0, 0, exp(float32(x) - top) * share)"
        weights = elementwise(text, x=x, top=stats[..., :1], share=stats[..., 1:])
        each = k[..., None] * stop_gradient(F.sum(weights, axis=-1, keepdims=True))
        p = F.softmax(x.astype("float32"))
        along = F.sum(given * p, axis=-1, keepdims=True)
        text = "k * p * (float32(given) - along)"
        call.give("x", elementwise(text, k=each, p=p, given=given, along=along))
    if call.wants("target") or call.wants("weight"):  # the gradient of t, which is weight * share
        along = F.sum(given * F.softmax(x.astype("float32")), axis=-1, keepdims=True)
        text = "k * (along - float32(given))"
        by_t: Any = elementwise(text, k=_per_row(k, x), along=along, given=given)
        if call.wants("target"):
            found = by_t * (1 - call.option("label_smoothing"))
            weight = call.saved("weight")
            call.give("target", found if weight is None else found * weight.astype("float32"))
        if call.wants("weight"):
            rows = tuple(range(x.ndim - 1))
            call.give("weight", F.sum(by_t * _shares(call, x), axis=rows))
    if call.wants("dy") or call.wants("total"):
        base = _like(x)
        kernels.cross_entropy_backward(
            x, call.saved("target"), stats, x.device.ones(call.shape("dy") or ()), base,
            total=total, weight=call.saved("weight"), ignore_index=call.option("ignore_index"),
            label_smoothing=call.option("label_smoothing"),
        )  # fmt: skip
        _give_factors(call, F.sum(elementwise("float32(g) * b", g=given, b=base), axis=-1), total)


def _give_factors(call: Taped, rows: Any, total: Any) -> None:
    """The gradients of dy and of the divisor of a mean, for values that are linear in dy / total;
    `rows` are the values for a dy of 1."""
    call.give("dy", rows)
    if total is not None and call.wants("total"):
        call.give("total", -F.sum(rows * call.saved("dy")) / total)


@reads("target", "weight", "total", "dy")
def nll_loss_backward(call: Taped) -> None:
    """The kernel is linear in dy, so the gradient of dy is the nll_loss of each row of dst's
    gradient."""
    given, target, weight = call.dy(), call.saved("target"), call.saved("weight")
    total = call.saved("total")
    if call.wants("dy") or call.wants("total"):
        found: Any = F.nll_loss(
            given, target, weight=weight, ignore_index=call.option("ignore_index"),
            reduction="none",
        )  # fmt: skip
        _give_factors(call, found if total is None else found / total, total)
    if call.wants("weight"):
        k: Any = call.saved("dy") if total is None else call.saved("dy") / total
        text = "-k * float32(g) * hot"
        rows = elementwise(text, k=_per_row(k, given), g=given, hot=_hot(call, given))
        call.give("weight", F.sum(rows, axis=tuple(range(given.ndim - 1))))
