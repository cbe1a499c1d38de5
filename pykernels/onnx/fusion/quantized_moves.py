"""Moves bytes instead of dequantised values where nodes only move the values. After that, the
DequantizeLinear nodes of a product's operands stand directly before the product, and the
QuantizeLinear of its result stands directly behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node

__all__ = ["move_bytes"]

# Operations that move their first input; other inputs are sizes, axes and indices.
_MOVES = frozenset((
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Expand", "Gather",
))  # fmt: skip
_BYTES = ("int8", "uint8")


def move_bytes(graph: Graph) -> list[Node]:
    """The nodes after each movement has changed places with the DequantizeLinear before it, or with
    the QuantizeLinear behind it. A QuantizeLinear that follows a DequantizeLinear with the same
    scale and zero point is dropped, and so is the DequantizeLinear if nothing else reads it."""
    nodes = _behind(graph, _before(graph, graph.nodes))
    return _without_round_trips(graph, nodes)


def _per_tensor(graph: Graph, node: Node | None, op: str) -> bool:
    """True for a node `op` that converts between float32 and bytes with a single scale."""
    if node is None or node.op != op or node.attributes.get("block_size", 0):
        return False
    ends = node.inputs[0], node.outputs[0]
    kinds = [graph.dtypes[n].name for n in (ends if op == "DequantizeLinear" else ends[::-1])]
    one = int(np.prod(graph.shapes[node.inputs[1]])) == 1
    return one and kinds[0] in _BYTES and kinds[1] == "float32"


def _named(graph: Graph, name: str, shape: tuple[int, ...], like: str) -> str:
    graph.shapes[name], graph.dtypes[name] = shape, graph.dtypes[like]
    return name


def _before(graph: Graph, nodes: list[Node]) -> list[Node]:
    """Where a dequantised value is moved, move its bytes instead, and dequantise them afterwards.
    Other uses of the value stay."""
    made: dict[str, Node] = {}
    found: list[Node] = []
    for node in nodes:
        first = made.get(node.inputs[0]) if node.op in _MOVES else None
        if first is None or not _per_tensor(graph, first, "DequantizeLinear"):
            new = [node]
        elif first.inputs[0] in graph.constants:
            new = _moved_constant(graph, node, first)
        else:
            out = node.outputs[0]
            data = _named(graph, f"{out}/bytes", graph.shapes[out], first.inputs[0])
            kind = graph.dtypes[data].name
            new = [
                replace(node, inputs=[first.inputs[0], *node.inputs[1:]], outputs=[data],
                        proto=None, dtypes=(kind,)),
                replace(first, inputs=[data, *first.inputs[1:]], outputs=[out], proto=None),
            ]  # fmt: skip
        found += new
        made |= {o: n for n in new for o in n.outputs if o}
    used = {i for n in found for i in n.inputs} | set(graph.outputs.values())
    return [n for n in found if n.op != "DequantizeLinear" or used.intersection(n.outputs)]


def _moved_constant(graph: Graph, node: Node, first: Node) -> list[Node]:
    """The movement of constant bytes, dequantised afterwards."""
    array, out = graph.constants[first.inputs[0]], node.outputs[0]
    if node.op == "Transpose":
        array = np.transpose(array, node.attributes.get("perm"))
    elif node.op not in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return [node]
    data = _named(graph, f"{out}/bytes", graph.shapes[out], first.inputs[0])
    graph.constants[data] = np.ascontiguousarray(array.reshape(graph.shapes[out]))
    return [replace(first, inputs=[data, *first.inputs[1:]], outputs=[out], proto=None)]


def _behind(graph: Graph, nodes: list[Node]) -> list[Node]:
    """Replace a movement whose result is quantised by a movement of the quantised value, if nothing
    else uses the result."""
    found = list(nodes)
    for node in [n for n in nodes if _per_tensor(graph, n, "QuantizeLinear")]:
        at = next(i for i, n in enumerate(found) if n is node)
        uses = replace(graph, nodes=found).uses()
        made = {o: i for i, n in enumerate(found) for o in n.outputs if o}
        place = made.get(node.inputs[0])
        moves: list[int] = []
        while (
            place is not None and found[place].op in _MOVES and uses[found[place].outputs[0]] == 1
        ):
            moves.append(place)
            place = made.get(found[place].inputs[0])
        if not moves:
            continue
        # The chain source -> moves -> node becomes source -> quantised -> moves.
        source = found[moves[-1]].inputs[0]
        last = node.outputs[0]
        data = _named(graph, f"{last}/quantised", graph.shapes[source], last)
        chain = [replace(node, inputs=[source, *node.inputs[1:]], outputs=[data], proto=None)]
        kind = graph.dtypes[last].name
        for place in reversed(moves):
            move = found[place]
            out = last if place == moves[0] else f"{move.outputs[0]}/quantised"
            _named(graph, out, graph.shapes[move.outputs[0]], last)
            chain.append(replace(move, inputs=[data, *move.inputs[1:]], outputs=[out], proto=None,
                                 dtypes=(kind,)))  # fmt: skip
            data = out
        found[at : at + 1] = chain
        found = [n for i, n in enumerate(found) if i not in moves]
    return found


def _without_round_trips(graph: Graph, nodes: list[Node]) -> list[Node]:
    """The nodes without each QuantizeLinear that has the same scale and zero point as the
    DequantizeLinear before it."""
    made = {o: n for n in nodes for o in n.outputs if o}
    same: dict[str, str] = {}
    kept: list[Node] = []
    for node in nodes:
        node = replace(node, inputs=[same.get(i, i) for i in node.inputs])
        first = made.get(node.inputs[0]) if node.inputs else None
        if (
            _per_tensor(graph, node, "QuantizeLinear")
            and first is not None
            and _per_tensor(graph, first, "DequantizeLinear")
            and graph.dtypes[node.outputs[0]] == graph.dtypes[first.inputs[0]]
            and node.outputs[0] not in graph.outputs.values()
            and _numbers(graph, node) == _numbers(graph, first)
            and None not in _numbers(graph, node)
        ):
            same[node.outputs[0]] = same.get(first.inputs[0], first.inputs[0])
        else:
            kept.append(node)
    used = {i for n in kept for i in n.inputs} | set(graph.outputs.values())
    return [n for n in kept if n.op != "DequantizeLinear" or used.intersection(n.outputs)]


def _numbers(graph: Graph, node: Node) -> tuple[float | None, float | None]:
    """The scale and the zero point of a node, each None if it is not a constant. A missing zero
    point is 0."""
    scale = graph.constants.get(node.inputs[1])
    zero = node.inputs[2] if len(node.inputs) > 2 else ""
    point = graph.constants.get(zero)
    return (
        None if scale is None else float(scale.item()),
        0.0 if not zero else None if point is None else float(point.item()),
    )
