"""Fewer and larger steps: batch norms and other factors by channel go into the weights in front of
them, chains of elementwise operations into one expression, activations into epilogues."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from .expressions import TENSORS, expression, is_elementwise, scalar
from .graph import Array, Graph, Node
from .patterns import activation, factor, join_layer_norms

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
LONGEST = 600  # characters of an expression


def fuse(graph: Graph) -> Graph:
    """The same graph in fewer nodes."""
    graph = replace(
        graph, nodes=[replace(n) for n in graph.nodes], constants=dict(graph.constants),
        shapes=dict(graph.shapes), dtypes=dict(graph.dtypes),
    )  # fmt: skip
    graph.nodes = _shortened(graph)
    graph.nodes = join_layer_norms(graph)
    _Weights(graph).fold()
    graph.nodes = _join(graph)
    graph.nodes = _add_epilogues(graph)
    return graph


def as_expressions(graph: Graph) -> Graph:
    """The same nodes, elementwise operations as expressions: one each."""
    graph = replace(graph, shapes=dict(graph.shapes), dtypes=dict(graph.dtypes))
    found = _shortened(graph)
    nodes = [_expression(graph, n) if _fits(graph, n) else n for n in found]
    return replace(graph, nodes=nodes)


def _shortened(graph: Graph) -> list[Node]:
    """Sums and maxima of more tensors than an expression may have, as several."""
    nodes = []
    for node in graph.nodes:
        inputs, count = list(node.inputs), 0
        while node.op in ("Sum", "Max", "Min") and len(inputs) > TENSORS:
            first, name = inputs[:TENSORS], f"{node.outputs[0]}/{count}"
            shapes = (graph.shapes[n] for n in first)
            graph.shapes[name] = np.broadcast_shapes(*shapes)
            graph.dtypes[name] = graph.dtypes[node.outputs[0]]
            nodes.append(Node(node.op, first, [name], version=node.version))
            inputs, count = [name, *inputs[TENSORS:]], count + 1
        nodes.append(replace(node, inputs=inputs))
    return nodes


class _Weights:
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
            found = False
            while (after := self._after(node)) is not None:
                pair = self._affine(after, node.outputs[0], axis)
                if pair is None:
                    break
                scale, shift = pair
                weight, bias = self._scaled(node, weight, scale), bias * scale + shift
                node.outputs = after.outputs[:1]
                gone.add(id(after))
                found = True
            if found or node.op == "BatchNormalization":
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
        """Of the channels, from the end."""
        if node.op in ("Gemm", "MatMul"):
            return -1
        return 1 - len(self.graph.shapes[node.outputs[0]])

    def _after(self, node: Node) -> Node | None:
        """The only node that uses the result."""
        name = node.outputs[0]
        return self.users.get(name) if self.uses[name] == 1 else None

    def _parameters(self, node: Node) -> tuple[Array, Array]:
        """Weights and bias in float64; of a batch norm factors and summands."""
        given = [self.graph.constants[n].astype(np.float64) for n in node.inputs[1:] if n]
        if node.op == "BatchNormalization":
            scale, bias, mean, variance = given
            scale = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
            return scale, bias - mean * scale
        channels = self.graph.shapes[node.outputs[0]][self._axis(node)]
        return given[0], given[1] if len(given) > 1 else np.zeros(channels)

    def _affine(self, node: Node, source: str, axis: int) -> tuple[Array, Array] | None:
        """Factors and summands by channel, where that is all that a node does."""
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
        return {
            "Add": (one, values), "Sub": (one, -values), "Mul": (values, zero),
            "Div": (1 / values, zero),
        }[node.op]  # fmt: skip

    def _scaled(self, node: Node, weight: Array, scale: Array) -> Array:
        """The weights of a node whose channels are multiplied."""
        if node.op in ("BatchNormalization", "MatMul"):
            return weight * scale
        if node.op == "Gemm":
            return weight * (scale[:, None] if node.attributes.get("transB", 0) else scale)
        if node.op == "Conv":
            return weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
        groups = node.attributes.get("group", 1)  # (C, O / groups, ...): each C sees its group's
        by_input = np.repeat(scale.reshape(groups, -1), weight.shape[0] // groups, axis=0)
        return weight * by_input.reshape(*by_input.shape, *[1] * (weight.ndim - 2))

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
            graph.constants[name] = array.astype(kind)
            graph.shapes[name], graph.dtypes[name] = array.shape, kind
        node.inputs = [node.inputs[0], *names]


def _fits(graph: Graph, node: Node) -> bool:
    return is_elementwise(node, graph.dtypes[node.outputs[0]])


def _expression(graph: Graph, node: Node) -> Node:
    """The node as an expression over the tensors x0, x1 and so on."""
    tensors: list[str] = []
    texts: list[str] = []
    for name in node.inputs:
        known = scalar(graph.constants[name]) if name in graph.constants else None
        if known is None and name and name not in tensors:
            tensors.append(name)
        texts.append("" if not name else known or f"x{tensors.index(name)}")
    source, target = graph.dtypes[node.inputs[0]], graph.dtypes[node.outputs[0]]
    text = expression(node, texts, source, target)
    return Node("Elementwise", tensors, node.outputs, {"text": text}, name=node.name or node.op)


def _join(graph: Graph) -> list[Node]:
    """Expressions of expressions whose results nobody else needs."""
    uses = graph.uses()  # by how many nodes, and as an output
    made: dict[str, Node] = {}  # expressions by their results
    gone: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        for name in set(node.inputs):
            uses[name] -= node.inputs.count(name) - 1
        if _fits(graph, node):
            node = _expression(graph, node)
            shape = graph.shapes[node.outputs[0]]
            waiting = list(node.inputs)
            while waiting:
                name = waiting.pop(0)
                inner = made.get(name)
                if inner is None or name in gone or uses[name] > 1 or graph.shapes[name] != shape:
                    continue
                joined = _inserted(node, name, inner)
                if joined is None:
                    continue
                for shared in set(inner.inputs) & set(node.inputs):
                    uses[shared] -= 1
                    waiting.append(shared)
                gone.add(name)
                node = joined
            made[node.outputs[0]] = node
        nodes.append(node)
    return [n for n in nodes if n.outputs[0] not in gone]


def _inserted(outer: Node, name: str, inner: Node) -> Node | None:
    """`outer` with the expression `inner` in place of the tensor `name`; None if that is too
    large."""
    tensors = [n for n in outer.inputs if n != name]
    tensors += [n for n in inner.inputs if n not in tensors]
    text = _renumbered(inner.attributes["text"], inner.inputs, tensors)
    place = f"x{outer.inputs.index(name)}"
    parts = re.split(rf"\b{place}\b", outer.attributes["text"])
    joined = text.join(_renumbered(p, outer.inputs, tensors) for p in parts)
    if len(tensors) > TENSORS or len(joined) > LONGEST:
        return None
    return Node("Elementwise", tensors, outer.outputs, {"text": joined}, name=outer.name)


def _renumbered(text: str, old: list[str], new: list[str]) -> str:
    def place(match: re.Match[str]) -> str:
        name = old[int(match[1])]
        return f"x{new.index(name)}"

    return re.sub(r"\bx(\d+)\b", place, text)


def _add_epilogues(graph: Graph) -> list[Node]:
    """The nodes, where products take factors of their operands and results, what is added to them,
    and activations."""
    uses = graph.uses()
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        before = _extended(graph, node, made, uses)
        if before is not None:
            # At the place of this node, as its addend may be computed after the product.
            nodes.remove(before)
            node = _merged(graph, before, node)
        elif node.op == "MatMul":
            for i, name in enumerate(node.inputs[:2]):
                scaled = made.get(name)
                if scaled is not None and uses[name] == 1 and _factor(scaled) is not None:
                    nodes.remove(scaled)
                    inputs = [*node.inputs[:i], scaled.inputs[0], *node.inputs[i + 1 :]]
                    node = _times(replace(node, inputs=inputs), _factor(scaled))
        made[node.outputs[0]] = node
        nodes.append(node)
    return nodes


def _factor(node: Node) -> float | None:
    plain = node.op == "Elementwise" and len(node.inputs) == 1
    return factor(node.attributes["text"]) if plain else None


def _times(node: Node, number: float | None) -> Node:
    scale = node.attributes.get("scale", 1.0) * number
    return replace(node, attributes={**node.attributes, "scale": scale})


def _extended(graph: Graph, node: Node, made: dict[str, Node], uses: dict[str, int]) -> Node | None:
    """The product whose end a node can be."""
    if node.op != "Elementwise" or len(node.inputs) > 2:
        return None
    text = node.attributes["text"]
    for name in node.inputs:
        before = made.get(name)
        if before is None or before.op not in PRODUCTS or uses[name] != 1:
            continue
        if before.attributes.get("activation"):
            continue
        if len(node.inputs) == 1:
            scales = before.op == "MatMul" and len(before.inputs) == 2 and factor(text) is not None
            return before if scales or activation(text) else None
        same = graph.shapes[node.inputs[0]] == graph.shapes[node.inputs[1]]
        rest = _without_sum(text)
        if same and _adds(before) and (rest == "x0" or activation(rest)):
            return before
    return None


def _without_sum(text: str) -> str:
    return text.replace("(x0 + x1)", "x0").replace("(x1 + x0)", "x0")


def _merged(graph: Graph, before: Node, node: Node) -> Node:
    """A product with a node as its end."""
    text, inputs = node.attributes["text"], list(before.inputs)
    found = replace(before, outputs=node.outputs)
    if len(node.inputs) == 2:
        other = node.inputs[1 - node.inputs.index(before.outputs[0])]
        found.inputs = inputs + [""] * (3 - len(inputs)) + [other]
        text = _without_sum(text)
    elif factor(text) is not None:
        return _times(found, factor(text))
    kind = None if text == "x0" else activation(text)
    found.attributes = {**before.attributes, "activation": kind}
    return found


def _adds(node: Node) -> bool:
    """Can the product add a tensor of the size of its result?"""
    return node.op != "ConvTranspose" and len(node.inputs) <= 3
