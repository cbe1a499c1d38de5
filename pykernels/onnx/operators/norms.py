"""Normalisations and softmax."""

from __future__ import annotations

import math
from typing import Any

import pykernels as pk

from ..graph import Node
from .table import op, refuse


@op("BatchNormalization")
def batch_norm(node: Node, x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    if not node.attributes.get("training_mode", 0):
        if len([n for n in node.outputs if n]) > 1:
            raise refuse(node, "running means and variances of older versions")
        return pk.batch_norm(x, mean, variance, weight, bias, eps=eps)
    old = node.attributes.get("momentum", 0.9)
    axes = (0, *range(2, x.ndim))
    now, spread = pk.mean(x, axes), pk.var(x, axes)
    y = pk.batch_norm(x, now, spread, weight, bias, eps=eps)
    blend = "a * m + b * (1 - m)"
    return (
        y,
        pk.elementwise(blend, a=mean, b=now, m=old),
        pk.elementwise(blend, a=variance, b=spread, m=old),
    )


@op("InstanceNormalization")
def instance_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.instance_norm(x, weight=weight, bias=bias, eps=eps)


@op("LayerNormalization")
def layer_norm(node: Node, x: Any, weight: Any = None, bias: Any = None) -> Any:
    axis = node.attributes.get("axis", -1) % x.ndim
    eps = node.attributes.get("epsilon", 1e-5)
    shape = x.shape[axis:]
    weight, bias = (
        t if t is None or t.shape == shape else t.broadcast_to(shape) for t in (weight, bias)
    )
    y = pk.layer_norm(x, shape, weight, bias, eps)
    if len([n for n in node.outputs if n]) == 1:
        return y
    axes = tuple(range(axis, x.ndim))
    spread = pk.var(x, axes, keepdims=True)
    return y, pk.mean(x, axes, keepdims=True), pk.elementwise("rsqrt(v + e)", v=spread, e=eps)


@op("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(node: Node, x: Any, weight: Any) -> Any:
    axis = node.attributes.get("axis", -1) % x.ndim
    shape = x.shape[axis:]
    weight = weight if weight.shape == shape else weight.broadcast_to(shape)
    return pk.rms_norm(x, shape, weight, node.attributes.get("epsilon", 1e-5))


@op("LpNormalization")
def lp_norm(node: Node, x: Any) -> Any:
    axis, p = node.attributes.get("axis", -1), node.attributes.get("p", 2)
    text = "abs(x)" if p == 1 else "x * x"
    size = pk.reduction(text, "sum", axis=axis, keepdims=True, x=x)
    found = "n" if p == 1 else "sqrt(n)"
    return pk.elementwise(f"x / {found} if n > 0 else 0.0", x=x, n=size)


@op("GroupNormalization")
def group_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.group_norm(x, node.attributes["num_groups"], weight, bias, eps)


def _flat(node: Node, x: Any, function: Any) -> Any:
    """The result of the function along the axis of the node; before version 13, this axis and all
    axes behind it count as one axis."""
    if node.version >= 13:
        return function(x, node.attributes.get("axis", -1))
    axis = node.attributes.get("axis", 1) % x.ndim
    y = function(x.reshape(math.prod(x.shape[:axis]), -1), -1)
    return y.reshape(x.shape)


@op("Softmax")
def softmax(node: Node, x: Any) -> Any:
    return _flat(node, x, pk.softmax)


@op("LogSoftmax")
def log_softmax(node: Node, x: Any) -> Any:
    return _flat(node, x, pk.log_softmax)
