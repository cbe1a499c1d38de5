"""Control flow that is decided before anything runs: branches, and unrolled loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper

from .errors import ModelError
from .order import first_output, renamed, sorted_nodes

__all__ = ["ALIVE", "LONGEST", "attribute_graph", "inlined", "with_all_rows"]

# suffix of the output that `with_all_rows` adds to a loop: a truth value for each round
ALIVE = "/alive"
LONGEST = 1024  # most iterations of a loop, since loops are unrolled


def attribute_graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    """The graph that a node has as an attribute."""
    for attribute in node.attribute:
        if attribute.name == name:
            found: onnx.GraphProto = attribute.g
            return found
    raise ModelError(f"no {name}", node.op_type, node.name or first_output(node))


def with_all_rows(proto: onnx.ModelProto, loop: onnx.NodeProto) -> onnx.ModelProto | None:
    """The file, changed so that the loop always runs its largest number of rounds.

    A new output of the loop has a truth value for each round, which is False after the loop's end.
    A Compress drops the rows of these rounds. None if no output of the loop collects rows, or if
    the loop was changed already.
    """
    states = max(len(loop.input) - 2, 0)
    rows = [n for n in loop.output[states:] if n]
    if not rows or loop.output[-1].endswith(ALIVE):
        return None
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    nodes = list(changed.graph.node)
    at = next(i for i, n in enumerate(proto.graph.node) if n.output == loop.output)
    node, first = nodes[at], first_output(loop)
    for k in range(states, len(node.output)):
        if node.output[k]:
            node.output[k] += "/rows"
    node.output.append(first + ALIVE)
    body = next(a.g for a in node.attribute if a.name == "body")
    body.node.append(helper.make_node("Identity", [body.input[1].name], [f"{first}/still"]))
    body.output.append(helper.make_tensor_value_info(f"{first}/still", onnx.TensorProto.BOOL, []))
    cut = [helper.make_node("Compress", [f"{n}/rows", first + ALIVE], [n], axis=0) for n in rows]
    del changed.graph.node[:]
    changed.graph.node.extend([*nodes[: at + 1], *cut, *nodes[at + 1 :]])
    return changed


def inlined(
    graph: onnx.GraphProto, prefix: str, given: Mapping[str, str]
) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto], list[str]]:
    """A graph inside a node, as constants, nodes and the names of its outputs, all with new names;
    `given` has the names of its inputs."""
    inside = {t.name for t in graph.initializer} | {o for n in graph.node for o in n.output}
    names = {n: prefix + n for n in inside if n} | dict(given)
    constants = []
    for tensor in graph.initializer:
        mine = onnx.TensorProto()
        mine.CopyFrom(tensor)
        mine.name = prefix + tensor.name
        constants.append(mine)
    nodes = [renamed(n, names) for n in sorted_nodes(graph.node)]
    return constants, nodes, [names.get(v.name, v.name) for v in graph.output]


def stacked(parts: list[str], name: str, version: int, axis: int = 0) -> Iterator[onnx.NodeProto]:
    """Nodes that stack values along a new axis."""
    axes = f"{name}/axes"
    if version >= 13:
        value = onnx.numpy_helper.from_array(np.array([axis], np.int64))
        yield helper.make_node("Constant", [], [axes], value=value)
    for i, part in enumerate(parts):
        row = f"{name}/row{i}"
        if version >= 13:
            yield helper.make_node("Unsqueeze", [part, axes], [row])
        else:
            yield helper.make_node("Unsqueeze", [part], [row], axes=[axis])
    rows = [f"{name}/row{i}" for i in range(len(parts))]
    yield helper.make_node("Concat", rows, [name], axis=axis)
