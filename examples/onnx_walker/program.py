"""Runs a graph on a device."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import pykernels as pk

from .graph import Array, Graph, ModelError, Node, stored
from .nodes import EITHER, ENTRIES, HOST

Values = dict[str, pk.Tensor]


def missing(graph: Graph) -> list[str]:
    """The operations that have no entry."""
    return sorted({n.op for n in graph.nodes} - ENTRIES.keys() - {"Elementwise"})


class Program:
    """A graph with its constants on a device; what it computes is captured by the first run."""

    def __init__(self, graph: Graph, device: pk.Device) -> None:
        lacking = missing(graph)
        if lacking:
            raise ModelError(f"missing operations: {', '.join(lacking)}")
        self.graph, self.device = graph, device
        self._constants: Values = {}
        self._inputs: Values = {}
        self._outputs: Values = {}
        self._captured: pk.Program | None = None

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, by their names in the file, with the dtypes that it gives them."""
        if self._captured is not None:
            self.write(inputs)
            self._captured()
            return self._read(self._outputs)
        # Node by node first, which compiles the shaders; then the same calls are captured.
        found = self.walk(inputs)
        with self.device.capture() as captured:
            self._outputs = self._walk()
        self._captured = captured
        return found

    def walk(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The same node by node, whether it was captured or not."""
        self.write(inputs)
        return self._read(self._walk())

    def replay(self) -> None:
        """Compute once more, from the inputs that are there."""
        if self._captured is None:
            raise ModelError("run it once before")
        self._captured()

    def write(self, inputs: Mapping[str, Array]) -> None:
        """Set the inputs."""
        for name in self.graph.inputs:
            array = to_device(inputs[name], name)
            if name in self._inputs:
                self._inputs[name].write(array)
            else:
                self._inputs[name] = self.device.tensor(array)

    def _walk(self) -> Values:
        values = dict(self._inputs)
        last = {name: i for i, n in enumerate(self.graph.nodes) for name in n.inputs}
        kept = set(self.graph.outputs.values())
        for i, node in enumerate(self.graph.nodes):
            results = self.step(node, values)
            values.update(results)
            for name in (*node.inputs, *node.outputs):
                if last.get(name, i) <= i and name not in kept:
                    values.pop(name, None)
        return {n: values[n] for n in kept if n in values}

    def step(self, node: Node, values: Mapping[str, pk.Tensor]) -> Values:
        """The outputs of one node, from its inputs among the values."""
        args = [self._argument(node, i, name, values) for i, name in enumerate(node.inputs)]
        if node.op == "Elementwise":
            operands = {f"x{i}": x for i, x in enumerate(args)}
            result = pk.elementwise(node.attributes["text"], **operands)
        else:
            result = ENTRIES[node.op](node, *args)
        results = result if isinstance(result, (tuple, list)) else [result]
        found = {}
        for name, tensor in zip(node.outputs, results, strict=False):
            if name:
                shape = self.graph.shapes[name]
                if math.prod(tensor.shape) != math.prod(shape):
                    raise ModelError(
                        f"{node.op} {name}: the result has shape {tensor.shape}, not {shape}, "
                        "which ONNX infers"
                    )
                # Constants of one element are numbers here, whose axes do not count.
                found[name] = tensor if tensor.shape == shape else tensor.reshape(shape)
        return found

    def _argument(
        self, node: Node, i: int, name: str, values: Mapping[str, pk.Tensor]
    ) -> pk.Tensor | Array | None:
        if not name:
            return None
        constants = self.graph.constants
        if i in HOST.get(node.op, ()) and name not in constants:
            raise ModelError(f"{node.op} {node.name}: its input {i} depends on values of the run")
        if name in constants:
            if i in HOST.get(node.op, ()) or i in EITHER.get(node.op, ()):
                return constants[name]
            return self.constant(name)
        return values[name]

    def constant(self, name: str) -> pk.Tensor:
        """A constant on the device."""
        if name not in self._constants:
            array = to_device(self.graph.constants[name], name)
            self._constants[name] = self.device.tensor(array)
        return self._constants[name]

    def _read(self, outputs: Values) -> dict[str, Array]:
        graph, found = self.graph, {}
        for name, value in graph.outputs.items():
            if value in graph.constants:
                found[name] = graph.constants[value]
            else:
                tensor = outputs[value] if value in outputs else self._inputs[value]
                found[name] = tensor.numpy().astype(graph.dtypes[value], copy=False)
        return found


def to_device(array: Array, name: str) -> Array:
    """An array with a dtype that is computed with."""
    array = np.asarray(array)
    kind = np.dtype(stored(array.dtype))
    if kind.kind in "iu" and array.size and kind != array.dtype:
        limits = np.iinfo(kind)
        if array.min() < limits.min or array.max() > limits.max:
            raise ModelError(f"{name} has integers that need more than 32 bits")
    return np.ascontiguousarray(array.astype(kind, copy=False))
