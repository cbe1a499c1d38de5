"""ONNX files as graphs whose shapes are known and whose constants are folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from .definitions import body_nodes, definition
from .definitions_contrib import DEFINED, contrib_nodes
from .definitions_ml import DOMAIN as ML
from .definitions_ml import VERSION, map_labels, ml_nodes
from .errors import ModelError, NeedsValues, blamed
from .files import open_file
from .graph import Array, Graph, Node
from .lists import ABSENT, Lists, element
from .operators import ENTRIES, HOST, RULES
from .operators.contrib import DOMAIN
from .order import first_output, sorted_nodes
from .sequences import OPERATIONS, sequence
from .shapes import graph_inputs, input_shapes
from .unroll import Unroller, dtype_of, label
from .values import Values, operator

__all__ = ["load"]

# Nodes that may have inputs which are no tensors, in addition to the nodes of sequences.py.
STRUCTURES = ("Identity", "Loop", "SequenceMap")
# Nodes that may move strings.
MOVES = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
# The most elements of an input whose values may be needed as sizes or axes.
PINNED = 4096


def load(
    model: str | Path | onnx.ModelProto,
    shapes: Mapping[str, Iterable[int]] | None = None,
    values: Mapping[str, Array] | None = None,
    constants: dict[str, Array] | None = None,
    left: Collection[str] = (),
) -> Graph:
    """The graph of a file.

    Args:
        model: The path, or the model that onnx read.
        shapes: The shapes of inputs whose dimensions the file leaves open; other open dimensions
            get defaults.
        values: The values of inputs, whose shapes count as given, too. Values that decide the graph
            (sizes, axes, the condition of a branch) become constants; the graph's `pinned` names
            the inputs that did.
        constants: A dict that keeps the arrays of the file for the next call.
        left: Operators for which the values of inputs do not become constants.

    Raises:
        ModelError: The file cannot be run.
    """
    proto = model if isinstance(model, onnx.ModelProto) else open_file(model)
    given = {n: np.asarray(v) for n, v in (values or {}).items()}
    pinned: dict[str, Array] = {}
    wanted = {n: tuple(s) for n, s in (shapes or {}).items()}
    wanted |= {n: v.shape for n, v in given.items()}
    with blamed():
        if proto.functions:
            proto = inliner.inline_local_functions(proto)
        found = input_shapes(proto, wanted)
        while True:
            try:
                return _Reader(proto, found, pinned, constants).graph
            except NeedsValues as e:
                new = {n: given[n] for n in e.inputs if n in given and n not in pinned}
                if e.operator in left or not new or any(v.size > PINNED for v in new.values()):
                    raise
                pinned |= new


class _Reader(Unroller):
    """Reads the nodes of a file once: it folds each node, or infers the shapes of its results."""

    def __init__(
        self, proto: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]],
        pinned: Mapping[str, Array], constants: dict[str, Array] | None = None,
    ) -> None:  # fmt: skip
        self.values = Values({o.domain: o.version for o in proto.opset_import})
        self.nodes: list[Node] = []
        self.files = {} if constants is None else constants
        self.deep = 0
        values = self.values
        self._read_constants(proto.graph.initializer)
        if proto.graph.sparse_initializer:
            raise ModelError("sparse constants: not supported")
        inputs = graph_inputs(proto)
        for value in inputs:
            kind = value.type.tensor_type.elem_type
            values.types[value.name] = helper.make_tensor_type_proto(kind, shapes[value.name])
            values.sources[value.name] = frozenset([value.name])
            if value.name in pinned:
                dtype = helper.tensor_dtype_to_np_dtype(kind)
                values.know(value.name, pinned[value.name].astype(dtype))
        for node in sorted_nodes(proto.graph.node):
            self._read(node)
        self.lists: Lists = {}
        outputs = dict(pair for v in proto.graph.output for pair in self._output(v.name))
        for name, found in outputs.items():
            if found not in values.types:
                raise ModelError(f"nothing computes the output {name}")
        self.graph = Graph(
            self._needed(outputs.values()), [v.name for v in inputs if v.name not in values.known],
            outputs, values.known, {n: values.shape(n) for n in values.types},
            {n: dtype_of(n, t) for n, t in values.types.items()}, values.versions, tuple(pinned),
            self.lists,
        )  # fmt: skip

    def _output(self, name: str) -> Iterator[tuple[str, str]]:
        """The names of the tensors of an output, each with the name of its value in the graph."""
        values = self.values
        value = values.same.get(name, name)
        if value in values.absent:
            self.lists[name] = ABSENT
        elif value in values.maps:
            tensor, self.lists[name] = values.maps[value]
            yield name, values.same.get(tensor, tensor)
        elif value in values.sequences:
            rows = values.sequences[value]
            self.lists[name] = len(rows)
            for i, row in enumerate(rows):
                yield element(name, i), values.same.get(row, row)
        else:
            yield name, value

    def _read_constants(self, tensors: Iterable[onnx.TensorProto]) -> None:
        for tensor in tensors:
            if tensor.name not in self.files:
                with blamed("constant", tensor.name):
                    self.files[tensor.name] = numpy_helper.to_array(tensor)
            self.values.know(tensor.name, self.files[tensor.name])

    def _read(self, node: onnx.NodeProto) -> None:
        with blamed(operator(node), node.name or first_output(node)):
            self.deep += 1
            if self.deep > 64:
                raise ModelError("definitions that contain each other")
            self._read_one(node)
            self.deep -= 1

    def _read_one(self, node: onnx.NodeProto) -> None:
        values = self.values
        if not first_output(node):
            return
        given = [values.same.get(n, n) for n in node.input]
        if node.op_type in MOVES and given and given[0] in values.maps:
            self._move_names(node, given)
            return
        for name in given:
            if node.op_type in (*OPERATIONS, *STRUCTURES) and values.is_list(name):
                continue
            if values.is_list(name):
                raise ModelError(f"its input {name} is no tensor: not supported", *label(node))
            if name and name not in values.types:
                raise ModelError(f"nothing computes its input {name}", *label(node))
        if node.domain in ("", "ai.onnx") and self._is_structure(node, given):
            return
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = given
        known = all(n in values.known for n in given if n)
        if known and not _is_random(node) and values.fold(copy):
            return
        if node.domain == DOMAIN and node.op_type in DEFINED:
            for inner in contrib_nodes(copy):
                self._read(inner)
            return
        if node.domain == ML and node.op_type == "ZipMap":
            labels = map_labels(copy)
            if values.shape(given[0])[-1:] != (len(labels),):
                reason = f"{len(labels)} labels for scores of shape {values.shape(given[0])}"
                raise ModelError(reason, *label(node))
            values.maps[node.output[0]] = given[0], labels
            return
        if node.domain == ML:
            versions = values.versions
            values.versions = versions | {"": VERSION}
            for inner in ml_nodes(values, copy):
                self._read(inner)
            values.versions = versions
            return
        body = None
        if operator(node) not in ENTRIES and node.op_type not in RULES:
            body = definition(values, copy)
        if body is not None:
            self._expand(copy, body)
            return
        if not copy.output[0]:  # nodes are found by their first output
            copy.output[0] = f"{first_output(copy)}/first"
        values.infer(copy)
        self._check_host(copy)
        sources = values.came_from(given)
        values.sources.update({n: sources for n in copy.output if n})
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        version = values.versions.get(node.domain, 1)
        outputs = list(copy.output)
        kinds = tuple(dtype_of(n, values.types[n]).name if n else "" for n in outputs)
        kind = operator(node)
        self.nodes.append(Node(kind, given, outputs, attributes, version, node.name, copy, kinds))

    def _move_names(self, node: onnx.NodeProto, given: list[str]) -> None:
        """Read a node that moves strings: it moves the tensor of their positions instead."""
        place, told = self.values.maps[given[0]]
        if not isinstance(told, dict):
            raise ModelError(f"its input {given[0]} is no tensor: not supported", *label(node))
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [place, *given[1:]]
        copy.output[0] = f"{node.output[0]}/places"
        self._read(copy)
        self.values.maps[node.output[0]] = copy.output[0], told

    def _is_structure(self, node: onnx.NodeProto, given: list[str]) -> bool:
        """Handle a node that computes nothing itself: it renames a value, reads a shape, or is a
        branch or a loop. False for other nodes."""
        values = self.values
        if node.op_type == "Identity" or (node.op_type == "Dropout" and not self._trains(given)):
            values.rename(given[0], node.output[0])
            for mask in filter(None, node.output[1:]):
                values.know(mask, np.ones(values.shape(given[0]), bool))
        elif node.op_type == "If":
            self._branch(node, given[0])
        elif node.op_type == "Loop":
            self._loop(node, given)
        elif node.op_type == "Scan" and values.versions.get("", 1) < 9:
            self._scan_of_batches(node, given)
        elif node.op_type == "Scan":
            self._scan(node, given)
        elif node.op_type == "SequenceMap":
            self._map(node, given)
        elif node.op_type in OPERATIONS:
            for inner in sequence(values, node, given):
                self._read(inner)
        elif node.op_type in ("Shape", "Size"):
            values.know(node.output[0], _shape_of(node, values.shape(given[0])))
        else:
            return False
        return True

    def _check_host(self, node: onnx.NodeProto) -> None:
        """Raise an error unless the inputs that an entry needs on the host are constants."""
        places = HOST.get(operator(node), ())
        unknown = [
            n for i, n in enumerate(node.input)
            if i in places and n and n not in self.values.known
        ]  # fmt: skip
        if unknown:
            reason = f"its input {unknown[0]} depends on values of the run"
            raise self.values.needs(reason, node, unknown)

    def _trains(self, inputs: list[str]) -> bool:
        """True if a Dropout node drops elements."""
        mode, known = inputs[2] if len(inputs) > 2 else "", self.values.known
        return bool(mode) and not (mode in known and not known[mode].item())

    def _expand(self, node: onnx.NodeProto, body: onnx.FunctionProto) -> None:
        """Replace an operation by the nodes of its definition."""
        nodes, versions = body_nodes(self.values, node, body), self.values.versions
        # A definition may use another version of the operator set than the file.
        self.values.versions = versions | {o.domain: o.version for o in body.opset_import}
        for inner in nodes:
            self._read(inner)
        self.values.versions = versions

    def _needed(self, outputs: Iterable[str]) -> list[Node]:
        """Only the nodes on which the outputs depend."""
        wanted, kept = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.inputs)
                kept.append(node)
        return kept[::-1]


def _is_random(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith(("Random", "Bernoulli", "Multinomial"))


def _shape_of(node: onnx.NodeProto, shape: tuple[int, ...]) -> Array:
    given = {a.name: a.i for a in node.attribute}
    whole = np.array(shape, np.int64)
    if node.op_type == "Size":
        return np.array(int(np.prod(whole)), np.int64)
    return whole[given.get("start", 0) : given.get("end", len(shape))]
