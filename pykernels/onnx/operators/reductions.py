"""Reductions, running sums, the largest elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykernels import functional as F

from ..graph import Array, Node
from .table import numbers, op, refuse


def _norm2(x: Any, axis: Any, keepdims: bool) -> Any:
    return F.reduction("x * x", "sum", axis=axis, keepdims=keepdims, x=x)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": F.sum, "ReduceMean": F.mean, "ReduceMax": F.max, "ReduceMin": F.min,
    "ReduceProd": F.prod, "ReduceLogSumExp": F.logsumexp, "ReduceSumSquare": _norm2,
    "ReduceL1": lambda x, a, k: F.reduction("abs(x)", "sum", axis=a, keepdims=k, x=x),
    "ReduceL2": lambda x, a, k: F.sqrt(_norm2(x, a, k)),
    "ReduceLogSum": lambda x, a, k: F.log(F.sum(x, a, k)),
}  # fmt: skip


@op(*REDUCTIONS, host=(1,))
def reduce(node: Node, x: Any, axes: Array | None = None) -> Any:
    found = numbers(node, "axes", axes)
    if not found:
        found = () if node.attributes.get("noop_with_empty_axes", 0) else range(x.ndim)
    return REDUCTIONS[node.op](x, tuple(found), bool(node.attributes.get("keepdims", 1)))


@op("ArgMax", "ArgMin")
def arg_max(node: Node, x: Any) -> Any:
    if node.attributes.get("select_last_index", 0):
        raise refuse(node, "select_last_index")
    function = F.argmax if node.op == "ArgMax" else F.argmin
    return function(x, node.attributes.get("axis", 0), bool(node.attributes.get("keepdims", 1)))


@op("CumSum", host=(1,))
def cumsum(node: Node, x: Any, axis: Array) -> Any:
    if node.attributes.get("exclusive", 0):
        raise refuse(node, "exclusive")
    at = int(axis.item())
    if node.attributes.get("reverse", 0):
        return F.flip(F.cumsum(F.flip(x, at), at), at)
    return F.cumsum(x, at)


@op("TopK", host=(1,))
def top_k(node: Node, x: Any, k: Array | None = None) -> Any:
    count = numbers(node, "k", k)
    largest = bool(node.attributes.get("largest", 1))
    at = node.attributes.get("axis", -1)
    return F.top_k(x, count[0] if k is not None else count, at, largest=largest)
