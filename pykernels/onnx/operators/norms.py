"""Normalisations and softmax."""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F

from ..graph import Node
from .table import op, refuse


@op("BatchNormalization")
def batch_norm(node: Node, x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if len([n for n in node.outputs if n]) > 1 or node.attributes.get("training_mode", 0):
        raise refuse(node, "training_mode")
    return F.batch_norm(x, mean, variance, weight, bias, eps=node.attributes.get("epsilon", 1e-5))


@op("InstanceNormalization")
def instance_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    return F.instance_norm(x, weight=weight, bias=bias, eps=eps)


@op("LayerNormalization")
def layer_norm(node: Node, x: Any, weight: Any = None, bias: Any = None) -> Any:
    if len([n for n in node.outputs if n]) > 1:
        raise refuse(node, "mean and variance")
    axis = node.attributes.get("axis", -1) % x.ndim
    eps = node.attributes.get("epsilon", 1e-5)
    return F.layer_norm(x, x.shape[axis:], weight, bias, eps)


@op("GroupNormalization")
def group_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    return F.group_norm(x, node.attributes["num_groups"], weight, bias, eps)


def _flat(node: Node, x: Any, function: Any) -> Any:
    """Over one axis; before version 13 over all axes from there on."""
    if node.version >= 13:
        return function(x, node.attributes.get("axis", -1))
    axis = node.attributes.get("axis", 1) % x.ndim
    y = function(x.reshape(math.prod(x.shape[:axis]), -1), -1)
    return y.reshape(x.shape)


@op("Softmax")
def softmax(node: Node, x: Any) -> Any:
    return _flat(node, x, F.softmax)


@op("LogSoftmax")
def log_softmax(node: Node, x: Any) -> Any:
    return _flat(node, x, F.log_softmax)
