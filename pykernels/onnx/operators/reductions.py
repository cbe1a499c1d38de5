"""Reductions, running sums, the largest elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk

from ..graph import Array, Node
from .table import kept, numbers, op


def _norm2(x: Any, axis: Any, keepdims: bool) -> Any:
    return pk.reduction("x * x", "sum", axis=axis, keepdims=keepdims, x=x)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": pk.sum, "ReduceMean": pk.mean, "ReduceMax": pk.max, "ReduceMin": pk.min,
    "ReduceProd": pk.prod, "ReduceLogSumExp": pk.logsumexp, "ReduceSumSquare": _norm2,
    "ReduceL1": lambda x, a, k: pk.reduction("abs(x)", "sum", axis=a, keepdims=k, x=x),
    "ReduceL2": lambda x, a, k: pk.sqrt(_norm2(x, a, k)),
    "ReduceLogSum": lambda x, a, k: pk.log(pk.sum(x, a, k)),
}  # fmt: skip


@op(*REDUCTIONS, host=(1,))
def reduce(node: Node, x: Any, axes: Array | None = None) -> Any:
    found = numbers(node, "axes", axes)
    if not found:
        found = () if node.attributes.get("noop_with_empty_axes", 0) else range(x.ndim)
    keep = bool(node.attributes.get("keepdims", 1))
    if node.op in ("ReduceMax", "ReduceMin") and 0 in (x.shape[a] for a in found):
        return _of_nothing(node, x, {a % x.ndim for a in found}, keep)
    return REDUCTIONS[node.op](x, tuple(found), keep)


def _of_nothing(node: Node, x: Any, axes: set[int], keep: bool) -> Any:
    """The maximum of no elements is the smallest value of the dtype."""
    shape = [1 if a in axes else n for a, n in enumerate(x.shape) if keep or a not in axes]
    kind = np.dtype("int32" if x.dtype == "bool" else x.dtype)
    if kind.kind == "f":
        ends = -np.inf, np.inf
    else:
        ends = (0, 1) if x.dtype == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max)
    value = ends[0] if node.op == "ReduceMax" else ends[1]
    return kept(node, "nothing", x.device, np.full(shape, value, kind))


@op("ArgMax", "ArgMin")
def arg_max(node: Node, x: Any) -> Any:
    function = pk.argmax if node.op == "ArgMax" else pk.argmin
    axis, keep = node.attributes.get("axis", 0), bool(node.attributes.get("keepdims", 1))
    if node.attributes.get("select_last_index", 0):
        return pk.elementwise(
            "n - i", n=x.shape[axis] - 1, i=function(pk.flip(x, axis), axis, keep)
        )
    return function(x, axis, keep)


@op("Hardmax")
def hardmax(node: Node, x: Any) -> Any:
    axis = node.attributes.get("axis", -1 if node.version >= 13 else 1) % x.ndim
    shape = x.shape
    if node.version < 13:  # `axis` and all axes behind it count as one axis
        x, axis = x.reshape(math.prod(shape[:axis]), -1), 1
    places = np.arange(x.shape[axis], dtype=np.int32)
    places = places.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    found = pk.argmax(x, axis, True)
    y = pk.elementwise("float32(i == j)", i=found, j=kept(node, "places", x.device, places))
    return y.reshape(shape)


@op("CumSum", "CumProd", host=(1,))
def running(node: Node, x: Any, axis: Array) -> Any:
    function = pk.cumsum if node.op == "CumSum" else pk.cumprod
    at, exclusive = int(axis.item()), bool(node.attributes.get("exclusive", 0))
    if node.attributes.get("reverse", 0):
        return pk.flip(function(pk.flip(x, at), at, exclusive=exclusive), at)
    return function(x, at, exclusive=exclusive)


@op("TopK", host=(1,))
def top_k(node: Node, x: Any, k: Array | None = None) -> Any:
    count = numbers(node, "k", k)
    largest = bool(node.attributes.get("largest", 1))
    at = node.attributes.get("axis", -1)
    return pk.top_k(x, count[0] if k is not None else count, at, largest=largest)
