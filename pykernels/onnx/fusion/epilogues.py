"""Operations that become part of a product: factors, summands, activations."""

from __future__ import annotations

from dataclasses import replace

from ..graph import PRODUCTS, Graph, Node
from .patterns import activation, factor

__all__ = ["add_epilogues"]


def add_epilogues(graph: Graph) -> list[Node]:
    """The nodes, in which products have absorbed factors of operands and results, summands and
    activations."""
    uses = graph.uses()
    made: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        before = _extended(graph, node, made, uses)
        if before is not None:
            # The product moves to the place of this node, because the summand may be computed after
            # the product.
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
    """The product that a node can become a part of."""
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
    """The product with the node as its epilogue."""
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
    """True if the product can add a tensor of the size of its result."""
    return node.op != "ConvTranspose" and len(node.inputs) <= 3
