"""Nodes of a file: their order, and copies with other names."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

import onnx

from .errors import ModelError

__all__ = ["first_output", "renamed", "sorted_nodes", "used"]

DEEPEST = 32  # most levels of graphs inside graphs


def first_output(node: onnx.NodeProto) -> str:
    """The first output that is not missing."""
    return next((n for n in node.output if n), "")


def sorted_nodes(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes in the order of the file, except that a node comes after the nodes whose results it
    needs."""
    nodes = list(nodes)
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in filter(None, node.output):
            if makers.setdefault(name, i) != i or list(node.output).count(name) > 1:
                label = node.name or first_output(node)
                raise ModelError(f"{name} is computed twice", node.op_type, label)
    needs = [{makers[n] for n in used(node) if n in makers} - {i} for i, node in enumerate(nodes)]
    users: dict[int, list[int]] = {}
    for i, needed in enumerate(needs):
        for n in needed:
            users.setdefault(n, []).append(i)
    left = [len(needed) for needed in needs]
    ready = [i for i, count in enumerate(left) if count == 0]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for user in users.get(order[-1], ()):
            left[user] -= 1
            if left[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        found = ", ".join(first_output(n) for i, n in enumerate(nodes) if left[i])
        raise ModelError(f"nodes that need each other's results: {found}")
    return [nodes[i] for i in order]


def used(node: onnx.NodeProto, depth: int = 0) -> Iterator[str]:
    """The values that a node and its branches read."""
    if depth > DEEPEST:
        raise ModelError(f"more than {DEEPEST} graphs inside each other", node.op_type, node.name)
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from used(inner, depth + 1)
        yield from (value.name for value in attribute.g.output)


def renamed(
    node: onnx.NodeProto,
    names: Mapping[str, str],
    given: Mapping[str, onnx.AttributeProto] | None = None,
) -> onnx.NodeProto:
    """A copy of a node. Its values have other names, also in its branches, and the attributes in
    `given` replace its references to attributes."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(n, n) for n in node.input]
    copy.output[:] = [names.get(n, n) for n in node.output]
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name and attribute.ref_attr_name not in (given or {}):
            continue
        mine = copy.attribute.add()
        mine.CopyFrom((given or {}).get(attribute.ref_attr_name, attribute))
        mine.name = attribute.name
        if mine.type == onnx.AttributeProto.GRAPH:
            _rename_branch(mine.g, names, given)
    return copy


def _rename_branch(
    graph: onnx.GraphProto,
    names: Mapping[str, str],
    given: Mapping[str, onnx.AttributeProto] | None,
) -> None:
    """Rename the values that a branch reads from outside; its own names stay."""
    own = {t.name for t in graph.initializer} | {v.name for v in graph.input}
    own |= {o for n in graph.node for o in n.output}
    outside = {old: new for old, new in names.items() if old not in own}
    inner = [renamed(n, outside, given) for n in graph.node]
    del graph.node[:]
    graph.node.extend(inner)
    for value in graph.output:
        value.name = outside.get(value.name, value.name)
