"""Merges factors and summands by channel into the weights of the node before them."""

from __future__ import annotations

import numpy as np

from ..graph import PRODUCTS, Array, Graph, Node

__all__ = ["Weights"]


class Weights:
    """Folds factors and summands by channel into constants."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = graph.uses()
        self.users = {name: node for node in graph.nodes for name in node.inputs}

    def fold(self) -> None:
        gone: set[int] = set()
        for node in self.graph.nodes:
            if id(node) in gone or not self._takes(node):
                continue
            weight, bias = self._parameters(node)
            axis = self._axis(node)
            factors: Array | None = None
            while (after := self._after(node)) is not None:
                pair = self._affine(after, node.outputs[0], axis)
                if pair is None:
                    break
                scale, shift = pair
                factors, bias = scale if factors is None else factors * scale, bias * scale + shift
                node.outputs = after.outputs[:1]
                gone.add(id(after))
            if factors is not None or node.op == "BatchNormalization":
                weight = weight if factors is None else self._scaled(node, weight, factors)
                self._write(node, weight, bias)
        self.graph.nodes = [n for n in self.graph.nodes if id(n) not in gone]

    def _takes(self, node: Node) -> bool:
        constants = self.graph.constants
        if node.op == "BatchNormalization":
            return all(n in constants for n in node.inputs[1:]) and len(node.outputs) == 1
        if node.op not in PRODUCTS or node.inputs[1] not in constants:
            return False
        if node.op == "Gemm" and float(node.attributes.get("beta", 1.0)) != 1.0:
            return False
        if len(node.inputs) > 2 and node.inputs[2]:
            bias = constants.get(node.inputs[2])
            return bias is not None and (node.op != "Gemm" or bias.ndim == 1)
        return node.op != "MatMul" or constants[node.inputs[1]].ndim == 2

    def _axis(self, node: Node) -> int:
        """The axis of the channels, counted from the end."""
        if node.op in ("Gemm", "MatMul"):
            return -1
        return 1 - len(self.graph.shapes[node.outputs[0]])

    def _after(self, node: Node) -> Node | None:
        """The only node that uses the result; None if there are several."""
        name = node.outputs[0]
        return self.users.get(name) if self.uses[name] == 1 else None

    def _parameters(self, node: Node) -> tuple[Array, Array]:
        """The weights, and the bias in float64; for a batch norm, its factors and summands."""
        given = [self.graph.constants[n] for n in node.inputs[1:] if n]
        if node.op == "BatchNormalization":
            scale, bias, mean, variance = (a.astype(np.float64) for a in given)
            scale = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
            return scale, bias - mean * scale
        channels = self.graph.shapes[node.outputs[0]][self._axis(node)]
        return given[0], given[1].astype(np.float64) if len(given) > 1 else np.zeros(channels)

    def _affine(self, node: Node, source: str, axis: int) -> tuple[Array, Array] | None:
        """The factors and summands by channel that a node stands for; None if the node does
        anything else."""
        graph = self.graph
        if node.op == "BatchNormalization":
            same = axis == 1 - len(graph.shapes[source]) and node.inputs[0] == source
            return self._parameters(node) if same and self._takes(node) else None
        if node.op not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
            return None
        other = node.inputs[1 - node.inputs.index(source)]
        if other not in graph.constants or (node.inputs[0] != source and node.op in ("Sub", "Div")):
            return None
        array = graph.constants[other]
        shape = graph.shapes[source]
        wanted = [1] * len(shape)
        wanted[axis] = shape[axis]
        full = (1,) * (len(shape) - array.ndim) + array.shape
        if (array.size != 1 and list(full) != wanted) or graph.shapes[node.outputs[0]] != shape:
            return None
        values = np.broadcast_to(array.astype(np.float64).reshape(-1), (shape[axis],))
        one, zero = np.ones(shape[axis]), np.zeros(shape[axis])
        if node.op == "Div":
            return None if (values == 0).any() else (1 / values, zero)
        return {"Add": (one, values), "Sub": (one, -values), "Mul": (values, zero)}[node.op]

    def _scaled(self, node: Node, weight: Array, scale: Array) -> Array:
        """The weights of a node after its channels are multiplied by `scale`: each product is
        rounded once, and there is no copy of the weights in float64."""
        factors = scale
        if node.op == "Gemm" and node.attributes.get("transB", 0):
            factors = scale[:, None]
        elif node.op == "Conv":
            factors = scale.reshape(-1, *[1] * (weight.ndim - 1))
        elif node.op == "ConvTranspose":
            # weights are (C, O / groups, ...), so each input channel gets the factors of its group
            groups = node.attributes.get("group", 1)
            by_input = np.repeat(scale.reshape(groups, -1), weight.shape[0] // groups, axis=0)
            factors = by_input.reshape(*by_input.shape, *[1] * (weight.ndim - 2))
        found = np.empty(weight.shape, self.graph.dtypes[node.inputs[0]])
        np.multiply(weight, factors, out=found, dtype=np.float64, casting="unsafe")
        return found

    def _write(self, node: Node, weight: Array, bias: Array) -> None:
        graph, out = self.graph, node.outputs[0]
        kind = graph.dtypes[node.inputs[0]]
        if node.op == "BatchNormalization":
            node_rank = len(graph.shapes[node.inputs[0]])
            shape = (-1, *[1] * (node_rank - 2))
            weight, bias = weight.reshape(shape), bias.reshape(shape)
            node.op, node.attributes = "Affine", {}
        names = [f"{out}/weight", f"{out}/bias"]
        for name, array in zip(names, (weight, bias), strict=True):
            graph.constants[name] = array.astype(kind, copy=False)
            graph.shapes[name], graph.dtypes[name] = array.shape, kind
        node.inputs = [node.inputs[0], *names]
