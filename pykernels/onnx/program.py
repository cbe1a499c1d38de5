"""Runs a graph on a device."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.device import Device, Tensor
from pykernels.errors import BufferStateError, DTypeError
from pykernels.runtime.profile import Profile
from pykernels.runtime.program import Program as Captured

from .errors import ModelError, blamed
from .graph import Array, Graph, Node, stored
from .lists import Lists
from .operators import EITHER, ENTRIES, HOST

__all__ = ["Constants", "Program", "missing", "to_device"]

Tensors = dict[str, Tensor]


def missing(graph: Graph) -> list[str]:
    """The operations that have no entry."""
    return sorted({n.op for n in graph.nodes} - ENTRIES.keys() - {"Elementwise"})


class Constants:
    """The constants of all programs on a device. Each is uploaded once, even if several programs
    read it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        # tensors that entries computed from constants, by the names of these constants
        self.shared: dict[tuple[str, ...], Any] = {}
        self._found: dict[tuple[Any, ...], Tensor] = {}
        self._keys: dict[int, tuple[Array, tuple[Any, ...]]] = {}

    @property
    def nbytes(self) -> int:
        """The bytes on the device."""
        return sum(t.nbytes for t in (*self._found.values(), *self.shared.values()))

    def tensor(self, name: str, array: Array) -> Tensor:
        """The constant as a tensor on the device."""
        known = self._keys.get(id(array))
        if known is None or known[0] is not array:
            digest = hashlib.blake2b(array.tobytes(), digest_size=16)
            known = array, (array.dtype.str, array.shape, digest.digest())
            self._keys[id(array)] = known
        if known[1] not in self._found:
            self._found[known[1]] = self.device.tensor(to_device(array, name))
        return self._found[known[1]]


class Program:
    """A graph with its constants on a device. The first run captures its calls."""

    def __init__(self, graph: Graph, device: Device, constants: Constants | None = None) -> None:
        lacking = missing(graph)
        if lacking:
            node = next(n for n in graph.nodes if n.op in lacking)
            raise ModelError(f"missing operations: {', '.join(lacking)}", node.op, node.label)
        self.graph, self.device = graph, device
        self._store = constants or Constants(device)
        for node in graph.nodes:
            node.shared, node.device = self._store.shared, device
        self._inputs: Tensors = {}
        self._outputs: Tensors = {}
        self._captured: Captured | None = None

    @property
    def nbytes(self) -> int:
        """Bytes on the device that only this program uses."""
        found = sum(t.nbytes for t in self._inputs.values())
        return found + (0 if self._captured is None else self._captured.nbytes)

    @property
    def steps(self) -> int:
        """The number of nodes of the graph."""
        return len(self.graph.nodes)

    @property
    def lists(self) -> Lists:
        """The outputs that are no tensors."""
        return self.graph.lists

    @property
    def on_host(self) -> bool:
        """True if all outputs were known before anything ran."""
        return all(v in self.graph.constants for v in self.graph.outputs.values())

    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The dtypes of the outputs, as in the file."""
        return {name: self.graph.dtypes[value] for name, value in self.graph.outputs.items()}

    def constant(self, name: str) -> Array | None:
        """An output that was known before anything ran."""
        return self.graph.constants.get(self.graph.outputs.get(name, ""))

    @property
    def captured(self) -> Captured | None:
        """The captured calls; None before the first run."""
        return self._captured

    def run(self, inputs: Mapping[str, Array | Tensor]) -> dict[str, Array]:
        """The outputs by their names in the file, with the dtypes of the file."""
        return self._read(self._computed(inputs))

    def run_on_device(self, inputs: Mapping[str, Array | Tensor]) -> Tensors:
        """The outputs as tensors, which later runs do not change. Dtypes of 64 bits become 32
        bits."""
        found = self._computed(inputs)
        with blamed():
            return {name: t.copy() for name, t in self._named(found).items()}

    def walk(self, inputs: Mapping[str, Array | Tensor]) -> dict[str, Array]:
        """The outputs, computed node by node without the captured calls."""
        self.write(inputs)
        return self._read(self._walk())

    def replay(self) -> None:
        """Compute the outputs again from the current inputs."""
        if self._captured is None:
            raise ModelError("run it once before")
        self._captured()

    def profile(self, inputs: Mapping[str, Array | Tensor]) -> Profile:
        """The time of each kernel in a run."""
        self.run(inputs)
        with self.device.profile() as profile:
            self.replay()
        return profile

    def write(self, inputs: Mapping[str, Array | Tensor]) -> None:
        """Set the inputs."""
        for name in self.graph.inputs:
            if name not in inputs:
                raise ModelError(f"input {name} is missing")
            with blamed("input", name):
                self._write(name, inputs[name])

    def _write(self, name: str, value: Array | Tensor) -> None:
        kind = stored(self.graph.dtypes[name])
        if isinstance(value, Tensor):
            if value.dtype != kind:
                value = value.astype(kind)
            if name in self._inputs:
                self._inputs[name][...] = value
            else:
                self._inputs[name] = value.copy()
            return
        array = to_device(value, name)
        if name in self._inputs:
            self._inputs[name].write(array)
        else:
            self._inputs[name] = self.device.tensor(array)

    def _computed(self, inputs: Mapping[str, Array | Tensor]) -> Tensors:
        self.write(inputs)
        if self._captured is not None:
            with blamed():
                self._captured()
            return self._outputs
        self._upload()
        try:
            # The first run is inside a capture, because a capture compiles shaders on several
            # threads.
            self._captured, self._outputs = self._capture()
        except ModelError as e:
            if not isinstance(e.__cause__, BufferStateError):
                raise
            # A node uploads data, and a capture refuses that. So the nodes run without a capture
            # first, and are captured afterwards.
            for node in self.graph.nodes:
                node.kept.clear()
            found = self._walk()
            self._captured, self._outputs = self._capture()
            return found
        with blamed():
            self._captured()
        return self._outputs

    def _upload(self) -> None:
        """Upload the constants that nodes read as tensors."""
        for node in self.graph.nodes:
            with blamed(node.op, node.label):
                for i, name in enumerate(node.inputs):
                    if name in self.graph.constants:
                        self._argument(node, i, name, {})

    def _capture(self) -> tuple[Captured, Tensors]:
        """Capture the calls of all nodes. After the capture, write the arrays that their entries
        keep."""
        later: list[tuple[Tensor, Array]] = []
        for node in self.graph.nodes:
            node.later = later
        try:
            with blamed(), self.device.capture() as captured:
                outputs = self._walk()
        finally:
            for node in self.graph.nodes:
                node.later = None
        with blamed():
            for tensor, array in later:
                tensor.write(array)
        return captured, outputs

    def _walk(self) -> Tensors:
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

    def step(self, node: Node, values: Mapping[str, Tensor]) -> Tensors:
        """The outputs of one node; `values` contain its inputs."""
        with blamed(node.op, node.label):
            args = [self._argument(node, i, name, values) for i, name in enumerate(node.inputs)]
            try:
                result = self._called(node, args)
            except DTypeError:
                # Operations that lack bfloat16 compute in float32; `_fitted` rounds the result.
                if not any(isinstance(x, Tensor) and x.dtype == "bfloat16" for x in args):
                    raise
                result = self._called(node, [_widened(x) for x in args])
            results = result if isinstance(result, (tuple, list)) else [result]
            pairs = zip(node.outputs, results, strict=False)
            return {name: self._fitted(name, tensor) for name, tensor in pairs if name}

    def _called(self, node: Node, args: list[Tensor | Array | None]) -> Any:
        if node.op == "Elementwise":
            operands: dict[str, Any] = {f"x{i}": x for i, x in enumerate(args)}
            return pk.elementwise(node.attributes["text"], **operands)
        return ENTRIES[node.op](node, *args)

    def _fitted(self, name: str, tensor: Tensor) -> Tensor:
        """A result with the shape and dtype that ONNX infers."""
        shape, kind = self.graph.shapes[name], stored(self.graph.dtypes[name])
        if math.prod(tensor.shape) != math.prod(shape):
            raise ModelError(
                f"{name}: the result has shape {tensor.shape}, not {shape}, which ONNX infers"
            )
        if tensor.dtype != kind:
            tensor = tensor.astype(kind)
        # The function got constants of one element as numbers without axes, so its result may lack
        # axes.
        return tensor if tensor.shape == shape else tensor.reshape(shape)

    def _argument(
        self, node: Node, i: int, name: str, values: Mapping[str, Tensor]
    ) -> Tensor | Array | None:
        if not name:
            return None
        constants = self.graph.constants
        if name in constants:
            if i in HOST.get(node.op, ()) or i in EITHER.get(node.op, ()):
                return constants[name]
            return self._store.tensor(name, constants[name])
        return values[name]

    def _named(self, outputs: Tensors) -> Tensors:
        graph, found = self.graph, {}
        for name, value in graph.outputs.items():
            if value in graph.constants:
                found[name] = self._store.tensor(name, graph.constants[value])
            else:
                found[name] = outputs[value] if value in outputs else self._inputs[value]
        return found

    def _read(self, outputs: Tensors) -> dict[str, Array]:
        graph, found = self.graph, {}
        for name, value in graph.outputs.items():
            if value in graph.constants:
                found[name] = graph.constants[value].copy()
            else:
                tensor = outputs[value] if value in outputs else self._inputs[value]
                with blamed("output", name):
                    found[name] = tensor.numpy().astype(graph.dtypes[value], copy=False)
        return found


def _widened(x: Tensor | Array | None) -> Tensor | Array | None:
    return x.astype("float32") if isinstance(x, Tensor) and x.dtype == "bfloat16" else x


def to_device(value: Any, name: str) -> Array:
    """The array, converted to a dtype that kernels have."""
    array: Array = np.asarray(value)
    kind = np.dtype(stored(array.dtype))
    if kind.kind in "iu" and array.size and kind != array.dtype:
        limits = np.iinfo(kind)
        if array.min() < limits.min or array.max() > limits.max:
            raise ModelError(f"{name} has integers that need more than 32 bits")
    if array.dtype == np.float64 and array.size:
        largest = np.abs(array, where=np.isfinite(array), out=np.zeros_like(array)).max()
        if largest > np.finfo(np.float32).max:
            raise ModelError(f"{name} has numbers beyond float32")
    return np.ascontiguousarray(array.astype(kind, copy=False)).reshape(array.shape)
