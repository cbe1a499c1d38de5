"""Chains of elementwise operations as one expression."""

from __future__ import annotations

import re

from ..graph import Graph, Node
from ..operators.expressions import TENSORS, expression, is_elementwise, scalar

__all__ = ["as_expression", "is_part", "join"]

LONGEST = 600  # most characters of an expression
NUMBERS = 20  # most numbers of an expression; a launch with 7 tensors has room for 24


def is_part(graph: Graph, node: Node) -> bool:
    return is_elementwise(node, graph.dtypes[node.outputs[0]])


def as_expression(graph: Graph, node: Node) -> Node:
    """The node as an expression of the tensors x0, x1 and so on."""
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


def join(graph: Graph) -> list[Node]:
    """Join an expression into the expression that reads it, if nothing else reads its result."""
    # for each value, the number of nodes that read it, plus one if it is an output
    uses = graph.uses()
    made: dict[str, Node] = {}  # the expression nodes, by the names of their results
    gone: set[str] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        for name in set(node.inputs):
            uses[name] -= node.inputs.count(name) - 1
        if is_part(graph, node):
            node = as_expression(graph, node)
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
    """`outer` with the expression `inner` in place of the tensor `name`; None if the result is too
    large."""
    tensors = [n for n in outer.inputs if n != name]
    tensors += [n for n in inner.inputs if n not in tensors]
    text = _renumbered(inner.attributes["text"], inner.inputs, tensors)
    place = f"x{outer.inputs.index(name)}"
    parts = re.split(rf"\b{place}\b", outer.attributes["text"])
    joined = text.join(_renumbered(p, outer.inputs, tensors) for p in parts)
    numbers = len(re.findall(r"(?<![\w.])\d", joined))
    if len(tensors) > TENSORS or len(joined) > LONGEST or numbers > NUMBERS:
        return None
    return Node("Elementwise", tensors, outer.outputs, {"text": joined}, name=outer.name)


def _renumbered(text: str, old: list[str], new: list[str]) -> str:
    def place(match: re.Match[str]) -> str:
        name = old[int(match[1])]
        return f"x{new.index(name)}"

    return re.sub(r"\bx(\d+)\b", place, text)
