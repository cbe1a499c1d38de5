"""Reductions: what comes back to a result goes to each of its elements, with their share."""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels.tape import Taped, reads


def _axes(call: Taped) -> tuple[int, ...]:
    """The axes that are reduced."""
    shape, axis = call.shape("x") or (), call.option("axis")
    given = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(a % len(shape) for a in given)


def _kept(call: Taped, t: Any) -> Any:
    """A result with the reduced axes, of size 1."""
    shape, axes = call.shape("x") or (), _axes(call)
    return t.reshape([1 if a in axes else n for a, n in enumerate(shape)])


def _count(call: Taped) -> int:
    shape = call.shape("x") or ()
    return math.prod(shape[a] for a in _axes(call))


def _give(call: Taped, text: str, **named: Any) -> None:
    """An expression of dy, with the axes kept, and others."""
    call.give("x", F.elementwise(text, dy=_kept(call, call.dy()), **named))


@reads()
def sum(call: Taped) -> None:
    call.give("x", _kept(call, call.dy()))


@reads()
def mean(call: Taped) -> None:
    call.give("x", _kept(call, call.dy()) * (1 / _count(call)))


@reads("x")
def prod(call: Taped) -> None:
    """dy times the product of the others, also where one of them is 0."""
    x, axes = call.saved("x"), _axes(call)
    zeros = F.count_nonzero(x == 0, axis=axes, keepdims=True)
    rest = F.prod(F.elementwise("where(x == 0, 1, float32(x))", x=x), axis=axes, keepdims=True)
    text = "dy * where(x == 0, where(zeros == 1, rest, 0), where(zeros == 0, rest / x, 0))"
    _give(call, text, x=x, rest=rest, zeros=zeros)


@reads("x", "dst")
def max(call: Taped) -> None:
    """Elements that are equal share it."""
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
    text = "where(y == 0, 0, dy * factor * (x - center) / y)"
    _give(call, text, x=x, y=y, center=center, factor=factor)


def size_less(size: int, ddof: int) -> float:
    """What the squares are divided by; NaN, as the variance is, where that is nothing."""
    return size - ddof if size > ddof else math.nan


@reads("x", "dst")
def norm(call: Taped) -> None:
    x, y, order = call.saved("x"), _kept(call, call.saved("dst")), call.option("ord")
    if order == 2:
        _give(call, "where(y == 0, 0, dy * x / y)", x=x, y=y)
    elif order == 1:
        _give(call, "dy * sign(x)", x=x)
    else:
        count = F.count_nonzero(F.abs(x) == y, axis=_axes(call), keepdims=True)
        _give(call, "where(abs(x) == y, dy * sign(x) / count, 0)", x=x, y=y, count=count)


@reads("x", "dst")
def logsumexp(call: Taped) -> None:
    y = _kept(call, call.saved("dst"))
    _give(call, "where(y == -inf, 0, dy * exp(x - y))", x=call.saved("x"), y=y)


def _wide(x: Any) -> Any:
    """Sums of float16 keep more of it."""
    return x.astype("float32") if x.dtype == "float16" else x
