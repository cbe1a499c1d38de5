"""Networks with a node whose number of rows depends on values. The nodes before this node are one
program. The host reads the node's inputs and computes the node. The nodes after it are a program
for the resulting shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from pykernels.device import Device, Tensor
from pykernels.runtime.profile import Profile

from .boxes import selected_boxes
from .control import with_all_rows
from .errors import NeedsValues, blamed
from .graph import Array
from .lists import Lists
from .order import first_output, sorted_nodes, used
from .program import Program
from .shapes import graph_inputs

__all__ = ["READ", "Stages", "split"]

# The operations that the host computes from values that it reads.
READ = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
Given = Array | Tensor
Model: TypeAlias = Any  # the class of model.py, which imports this module


class _Parts:
    """The two parts of a file around a node: the nodes that do not need its results, and the nodes
    that do."""

    def __init__(self, proto: onnx.ModelProto, node: onnx.NodeProto) -> None:
        graph = proto.graph
        self.node, self.versions = node, {o.domain: o.version for o in proto.opset_import}
        behind = {o for o in node.output if o}
        before: list[onnx.NodeProto] = []
        self.after: list[onnx.NodeProto] = []
        for one in sorted_nodes(graph.node):
            if list(one.output) == list(node.output):
                continue
            if behind.isdisjoint(used(one)):
                before.append(one)
            else:
                self.after.append(one)
                behind.update(filter(None, one.output))
        made = {o for n in before for o in n.output if o}
        inputs = graph_inputs(proto)
        outside = {v.name for v in inputs}
        # `passed`: all results of the first part and inputs of the file that are needed later, by
        # the node, by the second part, or as outputs of the file.
        wanted = {n for one in (node, *self.after) for n in used(one) if n}
        wanted |= {v.name for v in graph.output}
        self.outputs = [v.name for v in graph.output]
        self.passed = sorted(wanted & (made | outside) - behind)
        self.first = _model(proto, before, inputs, self.passed)
        self.proto = proto

    def rest(self, dtypes: Mapping[str, np.dtype[Any]]) -> onnx.ModelProto:
        """A model of the second part, whose inputs have these dtypes and open shapes."""
        wanted = {n for one in self.after for n in used(one)} | set(self.outputs)
        constants = {t.name for t in self.proto.graph.initializer}
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(dtype), None)
            for n, dtype in dtypes.items() if n in wanted and n not in constants
        ]  # fmt: skip
        return _model(self.proto, self.after, inputs, self.outputs)


def _model(
    proto: onnx.ModelProto, nodes: Iterable[onnx.NodeProto], inputs: Iterable[Any],
    outputs: Iterable[str],
) -> onnx.ModelProto:  # fmt: skip
    nodes = list(nodes)
    outputs = list(outputs)
    read = {n for one in nodes for n in used(one)} | set(outputs)
    constants = [t for t in proto.graph.initializer if t.name in read]
    graph = helper.make_graph(
        nodes, proto.graph.name or "part", list(inputs),
        [onnx.ValueInfoProto(name=n) for n in outputs], constants,
    )  # fmt: skip
    sets = list(proto.opset_import)
    return helper.make_model(graph, opset_imports=sets, ir_version=proto.ir_version)


def split(proto: onnx.ModelProto, error: NeedsValues) -> _Parts | None:
    """The two parts of a file around the node of an error. None if the node is neither an operation
    of READ nor a loop of rows, or if it is inside another node."""
    if error.operator not in (*READ, "Loop"):
        return None
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    # the loop runs all rounds, and its rows are read and cut on the host
    if error.operator == "Loop":
        loops = [n for n in proto.graph.node if n.op_type == "Loop"]
        for node in loops:
            if error.node in (node.name, first_output(node)):
                changed = with_all_rows(proto, node)
                if changed is None:
                    return None
                states = max(len(node.input) - 2, 0)
                row = next(n for n in node.output[states:] if n)
                return _Parts(changed, next(n for n in changed.graph.node if row in n.output))
        return None
    for node in proto.graph.node:
        if node.op_type == error.operator and error.node in (node.name, first_output(node)):
            return _Parts(proto, node)
    return None


class Stages:
    """A program in two parts with a read between them."""

    def __init__(self, parts: _Parts, whole: Model) -> None:
        self._parts, self._whole = parts, whole
        self._first = whole.part(parts.first)
        self._rest: Model = None
        self._last: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes on the device that both parts need in addition to weights."""
        found: int = self._first.own_bytes + (0 if self._rest is None else self._rest.own_bytes)
        return found

    @property
    def steps(self) -> int:
        """The number of nodes: both parts, and the node between them."""
        return 1 + len(self._parts.first.graph.node) + len(self._parts.after)

    @property
    def captured(self) -> None:
        """None, because no capture contains both parts."""
        return None

    @property
    def lists(self) -> Lists:
        """The outputs of the last run that are no tensors."""
        return {} if self._last is None else self._last.lists

    @property
    def on_host(self) -> bool:
        """True if the device computes nothing."""
        return not self._parts.first.graph.node and not self._parts.after

    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The dtypes of the outputs of the last run, as in the file."""
        return {} if self._last is None else self._last.dtypes()

    def constant(self, name: str) -> Array | None:
        """An output that was known before anything ran."""
        return None if self._last is None else self._last.constant(name)

    def run(self, inputs: Mapping[str, Given]) -> dict[str, Array]:
        """The outputs, by their names in the file."""
        rest, values = self._prepared(inputs)
        found = rest.run(values)
        self._forget()
        return found

    def run_on_device(self, inputs: Mapping[str, Given]) -> dict[str, Tensor]:
        """The outputs as tensors."""
        rest, values = self._prepared(inputs)
        found = rest.run_on_device(values)
        self._forget()
        return found

    def _forget(self) -> None:
        for part in (self._first, self._rest):
            if part is not None:
                part.forget()

    def profile(self, inputs: Mapping[str, Given]) -> Profile:
        """The time of each kernel in a run."""
        self.run(inputs)
        device: Device = self._whole.device
        with device.profile() as profile:
            self.run(inputs)
        return profile

    def _prepared(self, inputs: Mapping[str, Given]) -> tuple[Program | Stages, dict[str, Given]]:
        """Run the first part and the node. Returns the program for the rest, and its inputs."""
        node, program = self._parts.node, self._first.program(inputs)
        found: dict[str, Given] = {**program.run_on_device(inputs)}
        dtypes = program.dtypes()
        with blamed(node.op_type, node.name or first_output(node)):
            arrays = {
                n: _array(found[n], dtypes[n]) if n in found else self._constant(n)
                for n in node.input if n
            }  # fmt: skip
            results = _results(node, arrays, self._parts.versions)
        dtypes |= {n: a.dtype for n, a in results.items()}
        if self._rest is None:
            self._rest = self._whole.part(self._parts.rest(dtypes))
        wanted = {v.name for v in self._rest.inputs}
        values = {n: v for n, v in {**found, **results}.items() if n in wanted}
        for name in values:  # sizes that the first part knows already are not read
            known = program.constant(name)
            values[name] = values[name] if known is None else known
        self._last = self._rest.program(values)
        return self._last, values

    def _constant(self, name: str) -> Array:
        tensors = {t.name: t for t in self._parts.proto.graph.initializer}
        return np.asarray(numpy_helper.to_array(tensors[name]))


def _array(value: Given, dtype: Any) -> Array:
    array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    return array.astype(dtype, copy=False)


def _results(
    node: onnx.NodeProto, arrays: Mapping[str, Array], versions: Mapping[str, int]
) -> dict[str, Array]:
    names = [n for n in node.output if n]
    if node.op_type == "NonMaxSuppression":
        given = [arrays[n] if n else None for n in node.input]
        center = any(a.name == "center_point_box" and a.i for a in node.attribute)
        return {names[0]: selected_boxes(*given, center=center)}  # type: ignore[arg-type]
    graph = helper.make_graph(
        [node], "read", [onnx.ValueInfoProto(name=n) for n in arrays],
        [onnx.ValueInfoProto(name=n) for n in names],
    )  # fmt: skip
    sets = [helper.make_operatorsetid(d, v) for d, v in versions.items()]
    found = ReferenceEvaluator(helper.make_model(graph, opset_imports=sets)).run(None, dict(arrays))
    return {n: np.asarray(a) for n, a in zip(names, found, strict=True)}
