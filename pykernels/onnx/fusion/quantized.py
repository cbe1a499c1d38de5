"""Products between DequantizeLinear and QuantizeLinear as products of the integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..graph import Array, Graph, Node

__all__ = ["join_products"]

_BYTES = ("int8", "uint8")


class _Bytes(NamedTuple):
    """The inputs of a DequantizeLinear."""

    value: str
    scale: str
    zero: str  # the name of the zero point, "" if there is none
    axis: int | None  # the axis of the scales, None if there is one scale


def join_products(graph: Graph) -> list[Node]:
    """The nodes, in which QLinearConv, QLinearMatMul or QGemm replaces a Conv, MatMul or Gemm that
    stands between dequantised bytes and a quantised result. The scale of a bias must be the product
    of the two operands' scales. A Relu is removed, too, if the limits of the bytes have its
    effect."""
    made = {o: n for n in graph.nodes for o in n.outputs if o}
    uses = graph.uses()
    found: dict[int, Node] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        if (
            node.op != "QuantizeLinear"
            or _block(node)
            or graph.dtypes[node.outputs[0]].name not in _BYTES
        ):
            continue
        inner = made.get(node.inputs[0])
        path = [inner]
        if inner is not None and inner.op == "Relu" and _contains_relu(graph, node):
            inner = made.get(inner.inputs[0])
            path.append(inner)
        if inner is None or any(p is None or uses[p.outputs[0]] != 1 for p in path):
            continue
        product = _product(graph, made, inner, node)
        if product is not None:
            found[id(node)] = product
            gone.update(id(p) for p in path)
    nodes = [found.get(id(n), n) for n in graph.nodes if id(n) not in gone]
    return _without_unused(graph, nodes, {"DequantizeLinear"}) if found else nodes


def _without_unused(graph: Graph, nodes: list[Node], kinds: set[str]) -> list[Node]:
    used = {i for n in nodes for i in n.inputs} | set(graph.outputs.values())
    return [n for n in nodes if n.op not in kinds or used.intersection(n.outputs)]


def _block(node: Node) -> bool:
    return bool(node.attributes.get("block_size", 0))


def _contains_relu(graph: Graph, node: Node) -> bool:
    """True if the smallest integer of the type means 0, so that a Relu changes nothing."""
    low = np.iinfo(graph.dtypes[node.outputs[0]]).min
    if len(node.inputs) < 3 or not node.inputs[2]:
        return low == 0
    zero = graph.constants.get(node.inputs[2])
    return zero is not None and bool((zero == low).all())


def _dequantized(graph: Graph, made: dict[str, Node], name: str) -> _Bytes | None:
    node = made.get(name)
    if node is None or node.op != "DequantizeLinear" or _block(node):
        return None
    if graph.dtypes[name].name != "float32":
        return None
    value, scale = node.inputs[:2]
    one = int(np.prod(graph.shapes[scale])) == 1
    axis = None if one else node.attributes.get("axis", 1) % len(graph.shapes[value])
    return _Bytes(value, scale, node.inputs[2] if len(node.inputs) > 2 else "", axis)


def _product(graph: Graph, made: dict[str, Node], inner: Node, last: Node) -> Node | None:
    """The product of integers that replaces the node `inner`, with the scale and zero point of
    `last`."""
    if inner.op not in ("Conv", "MatMul", "Gemm"):
        return None
    a, b = (_dequantized(graph, made, n) for n in inner.inputs[:2])
    if a is None or b is None or a.axis is not None or not _has_one_scale(graph, last):
        return None
    if any(graph.dtypes[v.value].name not in _BYTES for v in (a, b)):
        return None
    given, rank = inner.attributes, len(graph.shapes[b.value])
    columns = 0 if inner.op == "Conv" or given.get("transB", 0) else rank - 1
    if b.axis not in (None, columns) or (b.axis is not None and inner.op == "MatMul" and rank != 2):
        return None
    if inner.op == "Conv" and rank != 4:
        return None
    bias = inner.inputs[2] if len(inner.inputs) > 2 else ""
    if bias:
        added = _dequantized(graph, made, bias)
        if added is None or not _fits(graph, a, b, added):
            return None
        bias = added.value
    if inner.op == "Gemm":
        if given.get("alpha", 1.0) != 1.0 or given.get("beta", 1.0) != 1.0:
            return None
        op, more = "com.microsoft.QGemm", [bias]
    else:
        op, more = f"QLinear{inner.op}", []
    zero = last.inputs[2] if len(last.inputs) > 2 else ""
    parts = [n or _no_zero(graph, v) for v, n in ((a.value, a.zero), (b.value, b.zero))]
    inputs = [a.value, a.scale, parts[0], b.value, b.scale, parts[1], *more, last.inputs[1],
              zero or _no_zero(graph, last.outputs[0])]  # fmt: skip
    if op == "QLinearConv" and bias:
        inputs.append(bias)
    attributes: dict[str, Any] = {} if inner.op == "MatMul" else dict(given)
    return Node(op, inputs, last.outputs, attributes, last.version, inner.name, None, last.dtypes)


def _has_one_scale(graph: Graph, last: Node) -> bool:
    return int(np.prod(graph.shapes[last.inputs[1]])) == 1


def _fits(graph: Graph, a: _Bytes, b: _Bytes, bias: _Bytes) -> bool:
    """True if a bias consists of integers without a zero point, and if its scale is the product of
    the two operands' scales."""
    rows: list[Array] = []
    for name in (a.scale, b.scale, bias.scale):
        if name not in graph.constants:
            return False
        rows.append(graph.constants[name].reshape(-1).astype(np.float64))
    if graph.dtypes[bias.value].name != "int32":
        return False
    if bias.zero and not (bias.zero in graph.constants and not graph.constants[bias.zero].any()):
        return False
    want = rows[0] * rows[1]
    return rows[2].size in (1, want.size) and bool(np.allclose(rows[2], want, 1e-6, 0))


def _no_zero(graph: Graph, like: str) -> str:
    """The name of a zero point of 0 that has the dtype of a value."""
    dtype = graph.dtypes[like]
    name = f"zero point/{dtype.name}"
    graph.constants[name] = np.zeros((), dtype)
    graph.shapes[name], graph.dtypes[name] = (), dtype
    return name
