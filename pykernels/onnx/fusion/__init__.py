"""Makes fewer and larger nodes. Batch norms and other factors by channel are merged into the
weights of the node before them, a chain of elementwise operations becomes one expression, and
activations become epilogues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node
from ..operators.expressions import TENSORS
from .affine import Weights
from .chains import as_expression, is_part, join
from .epilogues import add_epilogues
from .patterns import join_layer_norms
from .quantized import join_products
from .quantized_moves import move_bytes

__all__ = ["as_expressions", "fuse"]


def fuse(graph: Graph) -> Graph:
    """The same graph with fewer nodes."""
    graph = replace(
        graph, nodes=[replace(n) for n in graph.nodes], constants=dict(graph.constants),
        shapes=dict(graph.shapes), dtypes=dict(graph.dtypes),
    )  # fmt: skip
    graph.nodes = _shortened(graph)
    graph.nodes = move_bytes(graph)
    graph.nodes = join_products(graph)
    graph.nodes = join_layer_norms(graph)
    Weights(graph).fold()
    graph.nodes = join(graph)
    graph.nodes = add_epilogues(graph)
    return graph


def as_expressions(graph: Graph) -> Graph:
    """The same nodes, with each elementwise operation as an expression."""
    graph = replace(graph, shapes=dict(graph.shapes), dtypes=dict(graph.dtypes))
    found = _shortened(graph)
    nodes = [as_expression(graph, n) if is_part(graph, n) else n for n in found]
    return replace(graph, nodes=nodes)


def _shortened(graph: Graph) -> list[Node]:
    """The nodes, in which sums and maxima of too many tensors for one expression are split."""
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
