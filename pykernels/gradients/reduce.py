"""Reductions: each element that was reduced to a result gets the gradient of the result, times the
element's share."""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels.errors import TapeError
from pykernels.functional.elementwise import elementwise
from pykernels.plans.elementwise.derive import SHARE, tree_of
from pykernels.runtime.observe import recording
from pykernels.steps import Kernel
from pykernels.tape import Taped, reads
from pykernels.tensors.layout import expanded

from ._running import products_of_others
from .elementwise import give, needed, values_of


def _shape(call: Taped) -> tuple[int, ...]:
    """The shape of the reduced values."""
    names = [arg.name for arg in call.kernel.args if arg.role == "in"]
    return expanded(*(call.shape(name) or () for name in names))


def _axes(call: Taped) -> tuple[int, ...]:
    """The axes that are reduced."""
    shape, axis = _shape(call), call.option("axis")
    given = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(a % len(shape) for a in given)


def _kept(call: Taped, t: Any) -> Any:
    """A result with each reduced axis as an axis of size 1."""
    shape, axes = _shape(call), _axes(call)
    return t.reshape([1 if a in axes else n for a, n in enumerate(shape)])


def _count(call: Taped) -> int:
    shape = _shape(call)
    return math.prod(shape[a] for a in _axes(call))


def _give(call: Taped, text: str, **named: Any) -> None:
    """Give x the value of an expression of `named` and of dy, in which the reduced axes have size
    1."""
    call.give("x", elementwise(text, dy=_kept(call, call.dy()), **named))


def _needed(kernel: Kernel, options: dict[str, Any]) -> set[str]:
    """The inputs that the gradient of an expression reads; under a sum, linear inputs are not
    read."""
    if kernel.source is None:
        return set()
    if kernel.source.how in ("sum", "mean"):
        return needed(kernel, options) - {"dst"}
    return {arg.name for arg in kernel.args if arg.role == "in"}


@reads(of=_needed)
def default(call: Taped) -> None:
    """Give the inputs of the reduced expression their gradients."""
    how = getattr(call.kernel.source, "how", None)
    if how in ("sum", "mean"):
        dy = _kept(call, call.dy()).broadcast_to(_shape(call))
        give(call, dy, **{SHARE: 1 / _count(call) if how == "mean" else 1.0})
    elif how in _OF_VALUES and tree_of(call.kernel).root.kind == "f32":
        rule: Any = _OF_VALUES[how]
        rule(_Reduced(call, how))
    else:
        raise TapeError(f"[tape] {call.kernel.name} has no gradient rule for {how}")


class _Reduced:
    """A call for a rule: in place of the reduction of an expression, the rule sees the reduction of
    the expression's values, which are computed again."""

    def __init__(self, call: Taped, how: str) -> None:
        self._call, self._how = call, how
        self.kernel, self.shape, self.dy = call.kernel, call.shape, call.dy
        self._values = values_of(call)

    def option(self, name: str) -> Any:
        return {"ddof": 0, "ord": 2}[name] if name != "axis" else self._call.option(name)

    def saved(self, name: str) -> Any:
        if name == "x":
            return self._values
        reduced: Any = getattr(F, self._how)
        return reduced(self._values, self._call.option("axis"))

    def give(self, name: str, grad: Any) -> None:
        give(self._call, grad.broadcast_to(_shape(self._call)), **{SHARE: 1.0})


@reads()
def sum(call: Taped) -> None:
    call.give("x", _kept(call, call.dy()))


@reads()
def mean(call: Taped) -> None:
    call.give("x", _kept(call, call.dy()) * (1 / _count(call)))


@reads("x")
def prod(call: Taped) -> None:
    """dy times the product of the other elements, which is right even if one of them is 0."""
    x, axes = call.saved("x"), _axes(call)
    if recording():
        others = products_of_others(_in_rows(x, axes))
        rest = _out_of_rows(others, x.shape, axes)
        return _give(call, "dy * rest", rest=rest)
    zeros = F.count_nonzero(x == 0, axis=axes, keepdims=True)
    rest = F.prod(elementwise("where(x == 0, 1, float32(x))", x=x), axis=axes, keepdims=True)
    text = "dy * where(x == 0, where(zeros == 1, rest, 0), where(zeros == 0, rest / x, 0))"
    _give(call, text, x=x, rest=rest, zeros=zeros)


@reads("x", "dst")
def max(call: Taped) -> None:
    """Equal elements share the gradient."""
    x, y = call.saved("x"), _kept(call, call.saved("dst"))
    count = F.count_nonzero(x == y, axis=_axes(call), keepdims=True)
    _give(call, "where(x == y, dy / count, 0)", x=x, y=y, count=count)


min = max


@reads("x")
def var(call: Taped) -> None:
    x, size = call.saved("x"), _count(call)
    factor = 2 / size_less(size, call.option("ddof"))
    center = F.mean(_wide(x), axis=_axes(call), keepdims=True)
    _give(call, "dy * factor * (x - center)", x=x, center=center, factor=factor)


@reads("x", "dst")
def std(call: Taped) -> None:
    x, y, size = call.saved("x"), _kept(call, call.saved("dst")), _count(call)
    factor = 1 / size_less(size, call.option("ddof"))
    center = F.mean(_wide(x), axis=_axes(call), keepdims=True)
    text = "where(y == 0, 0, dy * factor * (x - center) / where(y == 0, 1, y))"
    _give(call, text, x=x, y=y, center=center, factor=factor)


def size_less(size: int, ddof: int) -> float:
    """The divisor of the sum of squares. It is NaN if it would not be positive, because the
    variance is NaN then."""
    return size - ddof if size > ddof else math.nan


@reads("x", "dst")
def norm(call: Taped) -> None:
    x, y, order = call.saved("x"), _kept(call, call.saved("dst")), call.option("ord")
    if order == 2:
        _give(call, "where(y == 0, 0, dy * x / where(y == 0, 1, y))", x=x, y=y)
    elif order == 1:
        _give(call, "dy * sign(x)", x=x)
    else:
        count = F.count_nonzero(F.abs(x) == y, axis=_axes(call), keepdims=True)
        _give(call, "where(abs(x) == y, dy * sign(x) / count, 0)", x=x, y=y, count=count)


@reads("x", "dst")
def logsumexp(call: Taped) -> None:
    y = _kept(call, call.saved("dst"))
    _give(call, "where(y == -inf, 0, dy * exp(x - where(y == -inf, 0, y)))", x=call.saved("x"), y=y)


def _in_rows(x: Any, axes: tuple[int, ...]) -> Any:
    """The elements that are reduced together along a last axis, in float32."""
    rest = [a for a in range(x.ndim) if a not in axes]
    turned = _wide(x).transpose((*rest, *axes))
    return turned.reshape((*(x.shape[a] for a in rest), math.prod(x.shape[a] for a in axes)))


def _out_of_rows(t: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """The inverse of `_in_rows`."""
    order = (*(a for a in range(len(shape)) if a not in axes), *axes)
    turned = t.reshape([shape[a] for a in order])
    return turned.transpose([order.index(a) for a in range(len(shape))])


def _wide(x: Any) -> Any:
    """The tensor in float32, because sums of 16-bit floats lose bits."""
    return x.astype("float32") if x.dtype in ("float16", "bfloat16") else x


_OF_VALUES = {
    "logsumexp": logsumexp, "max": max, "min": min, "norm": norm, "prod": prod, "std": std,
    "var": var,
}  # fmt: skip
