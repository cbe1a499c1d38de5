"""ONNX files as graphs whose shapes are known and whose constants are folded."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import moves as _moves  # noqa: F401  enters its operations
from .expressions import RULES
from .graph import Array, Graph, ModelError, Node
from .nodes import ENTRIES

# Constants up to this size may be shapes, which the inference of shapes looks at.
SMALL = 64
# Operations whose shapes onnx does not infer: their results are like their first inputs.
_LIKE_INPUT = ("GroupNormalization",)


def load(
    model: str | Path | onnx.ModelProto,
    shapes: Mapping[str, Iterable[int]] | None = None,
    values: Mapping[str, Array] | None = None,
) -> Graph:
    """The graph of a file.

    Args:
        model: The file, or what onnx read of it.
        shapes: Of inputs whose dimensions the file leaves open; the others get defaults.
        values: Of inputs: their shapes count, and a single integer is a constant, as it often
            chooses what is computed.
    """
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(str(model))
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    return _Reader(proto, dict(shapes or {}), dict(values or {})).graph


def input_shapes(
    proto: onnx.ModelProto, given: Mapping[str, Iterable[int]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs: those given, else what the file says. A dimension that it leaves
    open has the size that another one of its name is given, else 1 in front, 224 where it is one of
    an image's rows or columns, and 16."""
    known = {i.name for i in proto.graph.initializer}
    inputs = {v.name: v.type.tensor_type.shape.dim for v in proto.graph.input}
    named = {
        d.dim_param: size
        for name, shape in given.items()
        for d, size in zip(inputs.get(name, ()), shape, strict=False)
    }
    found: dict[str, tuple[int, ...]] = {}
    for value in proto.graph.input:
        if value.name in known:
            continue
        dims = inputs[value.name]
        shape = tuple(
            d.dim_value
            if d.dim_value > 0
            else named.get(d.dim_param or "?", _default(i, len(dims)))
            for i, d in enumerate(dims)
        )
        wanted = tuple(given.get(value.name, shape))
        fits = len(wanted) == len(shape) and all(
            d.dim_value in (0, -1, w) for d, w in zip(dims, wanted, strict=True)
        )
        if not fits:
            told = [d.dim_value if d.dim_value > 0 else d.dim_param or "?" for d in dims]
            raise ModelError(f"input {value.name} has shape {told}, not {list(wanted)}")
        found[value.name] = wanted
    for name in given:
        if name not in found:
            raise ModelError(f"there is no input {name}: inputs are {', '.join(found)}")
    return found


def _default(axis: int, ndim: int) -> int:
    if axis == 0 or ndim < 2:
        return 1
    return 224 if ndim == 4 and axis > 1 else 16


class _Reader:
    """Walks over the nodes of a file once: each is folded, or gets shapes."""

    def __init__(
        self, proto: onnx.ModelProto, shapes: dict[str, Any], values: dict[str, Array]
    ) -> None:
        self.versions = {o.domain: o.version for o in proto.opset_import}
        self.types: dict[str, onnx.TypeProto] = {}
        self.known: dict[str, Array] = {}
        self.small: dict[str, onnx.TensorProto] = {}
        self.same: dict[str, str] = {}  # values that are other values
        self.nodes: list[Node] = []
        found = input_shapes(proto, shapes | {n: v.shape for n, v in values.items()})
        inputs = [v for v in proto.graph.input if v.name in found]
        self._read_constants(proto.graph)
        for value in inputs:
            kind = value.type.tensor_type.elem_type
            self.types[value.name] = helper.make_tensor_type_proto(kind, found[value.name])
            array = values.get(value.name)
            if array is not None and array.size == 1 and array.dtype.kind in "iub":
                self._know(value.name, array.astype(helper.tensor_dtype_to_np_dtype(kind)))
        for node in _sorted(proto.graph.node):
            self._read(node)
        outputs = {v.name: self.same.get(v.name, v.name) for v in proto.graph.output}
        self.graph = Graph(
            self._needed(outputs.values()),
            [v.name for v in inputs if v.name not in self.known],
            outputs,
            self.known,
            {n: self._shape(n) for n in self.types},
            {
                n: np.dtype(helper.tensor_dtype_to_np_dtype(t.tensor_type.elem_type))
                for n, t in self.types.items()
            },
            self.versions,
        )

    def _read_constants(self, graph: onnx.GraphProto, prefix: str = "") -> None:
        for tensor in graph.initializer:
            self._know(prefix + tensor.name, numpy_helper.to_array(tensor))

    def _know(self, name: str, array: Array) -> None:
        self.known[name] = array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(kind, array.shape)
        if array.size <= SMALL:
            self.small[name] = numpy_helper.from_array(array, name)

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(d.dim_value for d in self.types[name].tensor_type.shape.dim)

    def _read(self, node: onnx.NodeProto) -> None:
        given = [self.same.get(n, n) for n in node.input]
        if node.op_type == "Identity" or (node.op_type == "Dropout" and not self._trains(given)):
            self._rename(given[0], node.output[0])
            for mask in filter(None, node.output[1:]):
                self._know(mask, np.ones(self._shape(given[0]), bool))
            return
        if node.op_type == "If":
            self._branch(node, given[0])
            return
        if node.op_type in ("Shape", "Size"):
            self._know(node.output[0], _shape_of(node, self._shape(given[0])))
            return
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = given
        known = all(n in self.known for n in given if n)
        if known and not _is_random(node) and self._fold(copy):
            return
        body = self._definition(copy)
        if body is not None:
            self._expand(copy, body)
            return
        if not copy.output[0]:  # a node goes by its first output
            copy.output[0] = f"{_result(copy)}/first"
        self._infer(copy)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        version = self.versions.get(node.domain, 1)
        kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        outputs = list(copy.output)
        self.nodes.append(Node(kind, given, outputs, attributes, version, node.name, copy))

    def _trains(self, inputs: list[str]) -> bool:
        """Does a Dropout drop anything?"""
        mode = inputs[2] if len(inputs) > 2 else ""
        return bool(mode) and not (mode in self.known and not self.known[mode].item())

    def _rename(self, old: str, new: str) -> None:
        if old in self.known:
            self._know(new, self.known[old])
        else:
            self.same[new] = old

    def _fold(self, node: onnx.NodeProto) -> bool:
        """Compute the outputs on the host; False where onnx's reference has no such operation."""
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            self._know(node.output[0], numpy_helper.to_array(node.attribute[0].t))
            return True
        names = [n for n in node.input if n]
        graph = helper.make_graph(
            [node], "fold", [onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names)],
            [onnx.ValueInfoProto(name=n) for n in node.output if n],
        )  # fmt: skip
        sets = [helper.make_operatorsetid(d, v) for d, v in self.versions.items()]
        model = helper.make_model(graph, opset_imports=sets)
        feeds = {n: self.known[n] for n in names}
        try:
            results = ReferenceEvaluator(model).run(None, feeds)
        except (RuntimeError, NotImplementedError):
            return False
        for name, array in zip((n for n in node.output if n), results, strict=True):
            self._know(name, np.asarray(array))
        return True

    def _infer(self, node: onnx.NodeProto) -> None:
        """Shapes and dtypes of the outputs."""
        label = f"{node.op_type} {node.name or _result(node)}"
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            raise ModelError(f"missing operations: {node.domain}.{node.op_type}") from None
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, {n: self.types[n] for n in node.input if n},
                {n: self.small[n] for n in node.input if n in self.small},
                opset_imports=[helper.make_operatorsetid(d, v) for d, v in self.versions.items()],
            )  # fmt: skip
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as e:
            raise ModelError(f"{label}: {e}") from None
        if node.op_type in _LIKE_INPUT:
            found = {node.output[0]: self.types[node.input[0]]}
        for name in node.output:
            if name and not _is_known(found.get(name)):
                raise ModelError(f"{label}: the shape of its result depends on values")
        self.types.update({n: t for n, t in found.items() if n})

    def _branch(self, node: onnx.NodeProto, condition: str) -> None:
        """Put the nodes of the branch that is taken in the place of an If."""
        if condition not in self.known:
            raise ModelError(f"If {node.name}: control flow that depends on values of the run")
        taken = "then_branch" if self.known[condition].item() else "else_branch"
        graph = next(a.g for a in node.attribute if a.name == taken)
        prefix = f"{_result(node)}/"
        inside = {t.name for t in graph.initializer} | {o for n in graph.node for o in n.output}
        names = {n: prefix + n for n in inside if n}
        self._read_constants(graph, prefix)
        for inner in _sorted(graph.node):
            self._read(_renamed(inner, names))
        for old, new in zip(graph.output, node.output, strict=True):
            name = names.get(old.name, old.name)
            self._rename(self.same.get(name, name), new)

    def _definition(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """What ONNX says of an operation in terms of others, where none of ours is its entry."""
        if node.domain not in ("", "ai.onnx") or node.op_type in (*ENTRIES, *RULES):
            return None
        version = self.versions.get(node.domain, 1)
        try:
            schema = onnx.defs.get_schema(node.op_type, version, "")
        except onnx.defs.SchemaError:
            return None
        if schema.has_function:
            found = _newest(schema.function_opset_versions, version)
            return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(found))
        if schema.has_context_dependent_function:
            types = [(self.types[n] if n else onnx.TypeProto()) for n in node.input]
            text = schema.get_context_dependent_function_with_opset_version(
                _newest(schema.context_dependent_function_opset_versions, version),
                node.SerializeToString(),
                [t.SerializeToString() for t in types],
            )
            return onnx.FunctionProto.FromString(text) if text else None
        return None

    def _expand(self, node: onnx.NodeProto, body: onnx.FunctionProto) -> None:
        """Put the nodes of a definition in the place of an operation."""
        prefix = f"{_result(node)}/"
        names = {o: prefix + o for inner in body.node for o in inner.output if o}
        names |= dict.fromkeys(body.input, "") | dict(zip(body.input, node.input, strict=False))
        names |= dict(zip(body.output, node.output, strict=False))
        schema = onnx.defs.get_schema(node.op_type, self.versions.get(node.domain, 1), "")
        usual = [a.default_value for a in schema.attributes.values() if a.default_value.name]
        given = {a.name: a for a in (*usual, *body.attribute_proto, *node.attribute)}
        # A definition may be written in another set of operations than the file.
        versions = self.versions
        self.versions = versions | {o.domain: o.version for o in body.opset_import}
        for inner in body.node:
            self._read(_renamed(inner, names, given))
        self.versions = versions

    def _needed(self, outputs: Iterable[str]) -> list[Node]:
        """The nodes that outputs depend on."""
        wanted, kept = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.inputs)
                kept.append(node)
        return kept[::-1]


def _newest(versions: Iterable[int], most: int) -> int:
    """The newest of a definition's versions that a file knows, else the oldest."""
    return max((v for v in versions if v <= most), default=min(versions))


def _result(node: onnx.NodeProto) -> str:
    """The first output that is there."""
    return next((n for n in node.output if n), "")


def _sorted(nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Each node behind those whose results it needs, else in the order of the file."""
    nodes = list(nodes)
    makers = {o: i for i, n in enumerate(nodes) for o in n.output if o}
    needs = [{makers[n] for n in _used(node) if n in makers} - {i} for i, node in enumerate(nodes)]
    users: dict[int, list[int]] = {}
    for i, needed in enumerate(needs):
        for n in needed:
            users.setdefault(n, []).append(i)
    left = [len(needed) for needed in needs]
    ready = [i for i, count in enumerate(left) if count == 0]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for user in users.get(order[-1], ()):
            left[user] -= 1
            if left[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        found = ", ".join(_result(n) for i, n in enumerate(nodes) if left[i])
        raise ModelError(f"nodes that need each other's results: {found}")
    return [nodes[i] for i in order]


def _used(node: onnx.NodeProto) -> Iterator[str]:
    """The values that a node reads, also in its branches."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _used(inner)
        yield from (value.name for value in attribute.g.output)


def _is_known(kind: onnx.TypeProto | None) -> bool:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return False
    return all(d.HasField("dim_value") for d in kind.tensor_type.shape.dim)


def _renamed(
    node: onnx.NodeProto, names: dict[str, str], given: dict[str, onnx.AttributeProto] | None = None
) -> onnx.NodeProto:
    """A node with other names of values, also in its branches, and with the attributes `given`
    where it refers to them."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(n, n) for n in node.input]
    copy.output[:] = [names.get(n, n) for n in node.output]
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name and attribute.ref_attr_name not in (given or {}):
            continue
        mine = copy.attribute.add()
        mine.CopyFrom((given or {}).get(attribute.ref_attr_name, attribute))
        mine.name = attribute.name
        if mine.type == onnx.AttributeProto.GRAPH:
            inner = [_renamed(n, names, given) for n in mine.g.node]
            del mine.g.node[:]
            mine.g.node.extend(inner)
            for value in mine.g.output:
                value.name = names.get(value.name, value.name)
    return copy


def _is_random(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith(("Random", "Bernoulli", "Multinomial"))


def _shape_of(node: onnx.NodeProto, shape: tuple[int, ...]) -> Array:
    given = {a.name: a.i for a in node.attribute}
    whole = np.array(shape, np.int64)
    if node.op_type == "Size":
        return np.array(int(np.prod(whole)), np.int64)
    return whole[given.get("start", 0) : given.get("end", len(shape))]
