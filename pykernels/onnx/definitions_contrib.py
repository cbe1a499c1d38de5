"""Operations of onnxruntime's domain, defined by several operations of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper

from .errors import ModelError
from .order import first_output

__all__ = ["DEFINED", "contrib_nodes"]

Nodes = list[onnx.NodeProto]
_ATTRIBUTES = {
    "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Relu": (), "Sigmoid": (),
    "Tanh": (),
}  # fmt: skip


class _Parts:
    """The nodes that replace one node: their names begin with the name of its output."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.node, self.nodes = node, Nodes()
        self.inputs = [*node.input, *[""] * 8]
        self.given = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def add(self, op: str, *inputs: str, last: bool = False, **attributes: Any) -> str:
        name = first_output(self.node)
        result = name if last else f"{name}/{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [*inputs], [result], **attributes))
        return result

    def floats(self, first: int) -> str:
        """Input number `first`, dequantised with the next two inputs, its scale and its zero
        point."""
        return self.add("DequantizeLinear", *filter(None, self.inputs[first : first + 3]))

    def bytes_of(self, x: str, first: int) -> None:
        """Quantise x as the result of the node. Input number `first` is the scale, and the next
        input is the zero point."""
        self.add("QuantizeLinear", x, *filter(None, self.inputs[first : first + 2]), last=True)

    def rest(self, *without: str) -> dict[str, Any]:
        return {n: v for n, v in self.given.items() if n not in without}


def _product(parts: _Parts, op: str, count: int) -> None:
    """Add the nodes of a product, of the summand of a Conv, and of an activation."""
    y = parts.add(op, *parts.inputs[:count], **parts.rest(
        "activation", "activation_params", "activation_alpha", "activation_beta",
        "activation_gamma"))  # fmt: skip
    if op == "Conv" and parts.inputs[3]:
        y = parts.add("Add", y, parts.inputs[3])
    kind = parts.given.get("activation", b"").decode()
    numbers = list(parts.given.get("activation_params", []))
    numbers += [parts.given[n] for n in ("activation_alpha", "activation_beta") if n in parts.given]
    if kind == "Clip":
        bounds = [
            parts.add("Constant", value=helper.make_tensor("bound", 1, [], [v])) for v in numbers
        ]
        y = parts.add("Clip", y, *bounds)
    elif kind:
        if kind not in _ATTRIBUTES:
            raise ModelError(f"activation {kind}: not supported")
        y = parts.add(kind, y, **dict(zip(_ATTRIBUTES[kind], numbers, strict=False)))
    parts.add("Identity", y, last=True)


def _pool(parts: _Parts, op: str) -> None:
    if parts.given.get("channels_last"):
        raise ModelError("channels_last: not supported")
    parts.bytes_of(parts.add(op, parts.floats(0), **parts.rest("channels_last")), 3)


def _softmax(parts: _Parts, _: str) -> None:
    if parts.given.get("opset", 13) < 13:
        raise ModelError("the softmax of an opset before 13: not supported")
    y = parts.add("Softmax", parts.floats(0), axis=parts.given.get("axis", -1))
    parts.bytes_of(y, 3)


def _concat(parts: _Parts, _: str) -> None:
    count = len(parts.node.input) // 3 * 3
    rows = [parts.floats(i) for i in range(2, count, 3)]
    parts.bytes_of(parts.add("Concat", *rows, axis=parts.given["axis"]), 0)


def _where(parts: _Parts, _: str) -> None:
    parts.bytes_of(parts.add("Where", parts.inputs[0], parts.floats(1), parts.floats(4)), 7)


DEFINED: dict[str, tuple[Callable[..., None], Any]] = {
    "FusedConv": (lambda p, op: _product(p, op, 3), "Conv"),
    "FusedGemm": (lambda p, op: _product(p, op, 3), "Gemm"),
    "QLinearAveragePool": (_pool, "AveragePool"),
    "QLinearGlobalAveragePool": (_pool, "GlobalAveragePool"),
    "QLinearSoftmax": (_softmax, ""),
    "QLinearConcat": (_concat, ""),
    "QLinearWhere": (_where, ""),
}


def contrib_nodes(node: onnx.NodeProto) -> Nodes:
    """The nodes that a node of DEFINED stands for."""
    write, op = DEFINED[node.op_type]
    parts = _Parts(node)
    write(parts, op)
    return parts.nodes
