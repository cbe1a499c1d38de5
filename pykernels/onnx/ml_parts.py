"""The nodes that replace one node of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .errors import ModelError
from .order import first_output
from .values import Values

__all__ = ["Parts"]


class Parts:
    """The nodes that replace one node: their names begin with the name of its first output."""

    def __init__(self, values: Values, node: onnx.NodeProto) -> None:
        self.values, self.node = values, node
        self.nodes: list[onnx.NodeProto] = []
        self.given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.kind = values.types[node.input[0]].tensor_type.elem_type
        self.shape = values.shape(node.input[0])
        self.count = 0

    def add(self, op: str, *inputs: str, out: int | None = None, **attributes: Any) -> str:
        """Add a node, and return the name of its result. `out` is the number of the output that it
        computes; None makes a new name."""
        self.count += 1
        name = f"{first_output(self.node)}/{self.count}"
        result = name if out is None else self.node.output[out]
        if result:
            self.nodes.append(helper.make_node(op, [*inputs], [result], **attributes))
        return result

    def constant(self, array: Any) -> str:
        """Add a constant, and return its name; Python's numbers become float32."""
        self.count += 1
        name = f"{first_output(self.node)}/{self.count}"
        found = np.asarray(array)
        self.values.know(name, found.astype(np.float32) if found.dtype == np.float64 else found)
        return name

    def names(self, place: str, names: list[str]) -> None:
        """Note that the first output consists of strings: the value `place` has their positions in
        `names`, and they are looked up when an output of the file is read."""
        if self.node.output[0]:
            self.values.maps[self.node.output[0]] = place, {"names": names}

    def cast(self, name: str, kind: int, out: int | None = None) -> str:
        return self.add("Cast", name, to=kind, out=out)

    def floats(self, i: int = 0) -> str:
        """An input as float32."""
        name = self.node.input[i]
        kind = self.values.types[name].tensor_type.elem_type
        return name if kind == TensorProto.FLOAT else self.cast(name, TensorProto.FLOAT)

    def text(self, name: str, usual: str) -> str:
        found: str = self.given.get(name, usual.encode()).decode()
        return found

    def along(self, op: str, name: str, axis: int = -1, keep: int = 1) -> str:
        """A reduction of an axis."""
        return self.add(op, name, self.constant(np.array([axis])), keepdims=keep)

    def rows(self) -> str:
        """The first input as a matrix of float32."""
        x = self.floats()
        if len(self.shape) == 1:
            self.shape = (1, *self.shape)
            return self.add("Reshape", x, self.constant(np.array(self.shape)))
        if len(self.shape) != 2:
            raise ModelError(f"an input of {len(self.shape)} axes: not supported")
        return x
