"""Functions that files write as several nodes: layer norms, and activations as expressions."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..graph import Array, Graph, Node

# -- activations ----------------------------------------------------------------------------------

_erf = np.vectorize(math.erf)
_NAMES: dict[str, Any] = {
    "abs": np.abs, "erf": _erf, "exp": np.exp, "maximum": np.maximum, "minimum": np.minimum,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt, "square": np.square, "tanh": np.tanh, "where": np.where,
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}  # fmt: skip
# The activations that products have as epilogues.
_ACTIVATIONS = {"relu": "relu(x0)", "silu": "x0 * sigmoid(x0)", "gelu": "gelu(x0)",
                "gelu_tanh": "gelu_tanh(x0)"}  # fmt: skip
# Points at which expressions are compared: near the bends of activations, and far away, because an
# activation may have a bound anywhere.
_FAR = 2.0 ** np.arange(3.125, 128)
_POINTS = np.concatenate([-_FAR[::-1], np.linspace(-8, 8, 513), _FAR])


@functools.lru_cache(maxsize=1024)
def activation(text: str) -> str | None:
    """The activation that equals an expression of x0 at many points, up to the rounding of
    constants. This recognises an activation in any form in which a file may write it."""
    values = _values(text)
    if values is None:
        return None
    for name, known in _ACTIVATIONS.items():
        if (np.abs(values - _values(known)) < 1e-6 * np.maximum(np.abs(_POINTS) / 8, 1)).all():
            return name
    return None


@functools.lru_cache(maxsize=1024)
def factor(text: str) -> float | None:
    """The factor of x0, if the expression is x0 times a number."""
    values = _values(text)
    if values is None:
        return None
    found = float(values[-1] / _POINTS[-1])
    return found if found and np.allclose(values, found * _POINTS, 1e-12, 0) else None


def _values(text: str) -> Array | None:
    """The values of an expression at _POINTS; None if it has names or operators that no activation
    has."""
    try:
        with np.errstate(all="ignore"):
            found = eval(text, {"__builtins__": {}}, {**_NAMES, "x0": _POINTS})
    except (NameError, ValueError, TypeError):
        # the expression has logical operators or shifts, which arrays of floats do not support
        return None
    return np.broadcast_to(np.asarray(found, np.float64), _POINTS.shape)


# -- layer norms ----------------------------------------------------------------------------------


def join_layer_norms(graph: Graph) -> list[Node]:
    """The nodes with LayerNormalization in place of its parts: means over the last axis, squares, a
    square root, a division and, if there are any, weight and bias."""
    uses = graph.uses()
    made = {o: n for n in graph.nodes for o in n.outputs}
    users = {i: n for n in graph.nodes for i in n.inputs}
    gone: set[int] = set()
    found: dict[int, Node] = {}
    for node in graph.nodes:
        parts = _parts(graph, made, uses, node)
        if parts is None:
            continue
        x, eps, inner = parts
        last, width = node, graph.shapes[x][-1]
        vectors = []
        for op in ("Mul", "Add"):
            after = users.get(last.outputs[0])
            if after is None or after.op != op or uses[last.outputs[0]] != 1:
                break
            other = after.inputs[1 - after.inputs.index(last.outputs[0])]
            if graph.shapes[other] != (width,) or graph.dtypes[other].kind != "f":
                break
            vectors.append(other)
            inner.append(last)
            last = after
        gone |= {id(n) for n in inner} - {id(last)}
        attributes = {"axis": -1, "epsilon": eps}
        # The new node stands at the place of the last part, where all inputs have been computed.
        found[id(last)] = Node("LayerNormalization", [x, *vectors], last.outputs, attributes)
    return [found.get(id(n), n) for n in graph.nodes if id(n) not in gone]


def _parts(
    graph: Graph, made: dict[str, Node], uses: dict[str, int], node: Node
) -> tuple[str, float, list[Node]] | None:
    """The tensor that a division normalises, eps, and the nodes before that division."""
    inner: list[Node] = []

    def before(name: str, *ops: str, count: int = 1) -> Node | None:
        found = made.get(name)
        if found is None or found.op not in ops or uses[name] != count:
            return None
        inner.append(found)
        return found

    def mean(name: str) -> str | None:
        """The tensor of which the value `name` is the mean."""
        found = before(name, "ReduceMean")
        if found is None or not found.attributes.get("keepdims", 1):
            return None
        given = graph.constants.get(found.inputs[1]) if len(found.inputs) > 1 else None
        axes = found.attributes.get("axes") if given is None else given.tolist()
        ndim = len(graph.shapes[found.inputs[0]])
        return found.inputs[0] if axes in ([-1], [ndim - 1]) else None

    if node.op != "Div" or (root := before(node.inputs[1], "Sqrt")) is None:
        return None
    if (variance := before(root.inputs[0], "Add")) is None:
        return None
    eps = [graph.constants[n] for n in variance.inputs if n in graph.constants]
    if len(eps) != 1 or eps[0].size != 1:
        return None
    squares = mean(next(n for n in variance.inputs if n not in graph.constants))
    square = None if squares is None else before(squares, "Pow", "Mul")
    if square is None or square.inputs[0] != node.inputs[0]:
        return None
    twice = square.op == "Mul"
    power = graph.constants.get(square.inputs[1])
    if twice and square.inputs[1] != node.inputs[0]:
        return None
    if not twice and (power is None or power.tolist() not in (2, [2])):
        return None
    difference = before(node.inputs[0], "Sub", count=3 if twice else 2)
    if difference is None or mean(difference.inputs[1]) != difference.inputs[0]:
        return None
    return difference.inputs[0], float(eps[0].item()), inner
