"""Facts about the values of a file before anything runs: types, constants, sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from .errors import ModelError, NeedsValues
from .graph import Array
from .operators import HOST
from .operators.contrib import DOMAIN, EXTENSIONS, SHAPES
from .operators.inner import INNER
from .order import first_output

__all__ = ["Values", "operator"]

# Shape inference gets the values of constants up to this size, because they may be shapes.
SMALL = 64
# The most elements of a constant that is computed and not stored in the file.
LARGEST = 1 << 28
# Operations whose shapes onnx does not infer; their results have the shapes of their first inputs.
_LIKE_INPUT = ("GroupNormalization",)
_DEFAULTS = {"STFT": ("onesided", 1)}
# For operations that the host computes, the numbers of the inputs that contain the size of the
# result.
SIZES = {
    "ConstantOfShape": (0,), "Range": (0, 1, 2), "HannWindow": (0,), "HammingWindow": (0,),
    "BlackmanWindow": (0,), "CenterCropPad": (1,), "AffineGrid": (1,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
}  # fmt: skip


class Values:
    """The types of all values, and what is known about them. `known` has the constants, `same` maps
    a value to an equal value, and `sources` has the inputs of the graph that a value depends on."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        self.versions = dict(versions)
        self.types: dict[str, onnx.TypeProto] = {}
        self.known: dict[str, Array] = {}
        self.small: dict[str, onnx.TensorProto] = {}
        self.same: dict[str, str] = {}
        self.sources: dict[str, frozenset[str]] = {}
        self.sequences: dict[str, list[str]] = {}  # the names of each sequence's elements
        self.absent: set[str] = set()  # optional values that are not there
        # maps and strings: the name of a tensor, and what its elements stand for, as in Lists
        self.maps: dict[str, tuple[str, Any]] = {}

    def know(self, name: str, array: Array) -> None:
        """Note that a value is a constant."""
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.known[name] = array
        self.types[name] = helper.make_tensor_type_proto(kind, array.shape)
        if array.size <= SMALL:
            self.small[name] = numpy_helper.from_array(array, name)

    def rename(self, old: str, new: str) -> None:
        """Note that a value is the same as another value."""
        if old in self.known:
            self.know(new, self.known[old])
        else:
            self.same[new] = old

    def is_list(self, name: str) -> bool:
        """True for a sequence, a map, strings, and an optional value that is not there."""
        return name in self.sequences or name in self.maps or name in self.absent

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(d.dim_value for d in self.types[name].tensor_type.shape.dim)

    def came_from(self, names: Iterable[str]) -> frozenset[str]:
        """The inputs of the graph that any of these values depends on."""
        none: frozenset[str] = frozenset()
        return none.union(*(self.sources.get(n, none) for n in names if n not in self.known))

    def needs(self, reason: str, node: onnx.NodeProto, names: Iterable[str]) -> NeedsValues:
        """The error for a node that depends on the values of these names."""
        label = node.name or first_output(node)
        return NeedsValues(reason, node.op_type, label, self.came_from(names))

    def schema(self, node: onnx.NodeProto) -> onnx.defs.OpSchema:
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            return onnx.defs.get_schema(node.op_type, self.versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            raise ModelError(
                "this operation is missing", operator(node), node.name or first_output(node)
            ) from None

    def inferred(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types of the outputs, as onnx infers them."""
        if node.domain in (DOMAIN, INNER) or node.op_type in EXTENSIONS:
            return self._contrib(node)
        schema = self.schema(node)
        with np.errstate(all="ignore"):
            return onnx.shape_inference.infer_node_outputs(
                schema, node, {n: self.types[n] for n in node.input if n},
                {n: self.small[n] for n in node.input if n in self.small},
                opset_imports=self._sets(),
            )  # fmt: skip

    def _contrib(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        """Types of the outputs of an operation that onnx does not know."""
        rule = SHAPES.get(node.op_type)
        if rule is None:
            label = node.name or first_output(node)
            raise ModelError("this operation is missing", operator(node), label)
        kinds = [(self.shape(n), self._dtype(n)) if n else None for n in node.input]
        kinds += [None] * 16  # a node may leave out inputs at the end
        constants = [self.known.get(n) if n else None for n in node.input]
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        found = {}
        for name, kind in zip(node.output, rule(given, kinds, constants), strict=False):
            if name and kind is not None:
                number = helper.np_dtype_to_tensor_dtype(np.dtype(kind[1]))
                found[name] = helper.make_tensor_type_proto(number, kind[0])
        return found

    def _dtype(self, name: str) -> str:
        return helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type).name

    def infer(self, node: onnx.NodeProto) -> None:
        """Types of the outputs; each output must have a shape."""
        found = self.inferred(_explicit(node))
        if node.op_type in _LIKE_INPUT:
            found = {node.output[0]: self.types[node.input[0]]}
        if node.op_type == "MaxUnpool" and len(node.input) > 2 and node.input[2] in self.known:
            kind = self.types[node.input[0]].tensor_type.elem_type
            shape = self.known[node.input[2]].tolist()
            found = {node.output[0]: helper.make_tensor_type_proto(kind, shape)}
        for name in node.output:
            if name and not _is_known(found.get(name)):
                every = tuple(range(len(node.input)))
                places = HOST.get(operator(node)) or SIZES.get(node.op_type, every)
                needed = [n for i, n in enumerate(node.input) if i in places and n]
                raise self.needs("the shape of its result depends on values", node, needed)
        self.types.update({n: t for n, t in found.items() if n})

    def fold(self, node: onnx.NodeProto) -> bool:
        """Compute the outputs on the host; False if onnx's reference does not have the
        operation."""
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            self.know(node.output[0], numpy_helper.to_array(node.attribute[0].t))
            return True
        if node.domain in (DOMAIN, INNER) or node.op_type in EXTENSIONS:
            return False
        self._refuse_large(node)
        names = [n for n in node.input if n]
        graph = helper.make_graph(
            [node], "fold", [onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names)],
            [onnx.ValueInfoProto(name=n) for n in node.output if n],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=self._sets())
        feeds = {n: self.known[n] for n in names}
        try:
            with np.errstate(all="ignore"):
                results = ReferenceEvaluator(model).run(None, feeds)
        except (RuntimeError, NotImplementedError):
            return False
        for name, result in zip((n for n in node.output if n), results, strict=True):
            if not isinstance(result, (np.ndarray, np.generic)):
                return False  # a result that is a sequence is not stored
            self.know(name, np.asarray(result))
        return True

    def _refuse_large(self, node: onnx.NodeProto) -> None:
        """Refuse results that are too large, because a few numbers in a file can ask for any
        size."""
        try:
            found = self.inferred(node)
        except (onnx.shape_inference.InferenceError, ModelError):
            return
        for kind in found.values():
            if _is_known(kind) and _size(kind) > LARGEST:
                raise ModelError(
                    f"a result of {_size(kind)} elements, where constants have at most {LARGEST}",
                    operator(node), node.name or first_output(node),
                )  # fmt: skip

    def _sets(self) -> list[onnx.OperatorSetIdProto]:
        return [helper.make_operatorsetid(d, v) for d, v in self.versions.items()]


def _explicit(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with its defaults written out, because onnx's shape inference does not know them."""
    name, value = _DEFAULTS.get(node.op_type, ("", 0))
    if not name or any(a.name == name for a in node.attribute):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.attribute.append(helper.make_attribute(name, value))
    return copy


def operator(node: onnx.NodeProto) -> str:
    """The name of an operation, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _is_known(kind: onnx.TypeProto | None) -> bool:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return False
    return all(d.HasField("dim_value") for d in kind.tensor_type.shape.dim)


def _size(kind: onnx.TypeProto) -> int:
    size = 1
    for d in kind.tensor_type.shape.dim:
        size *= d.dim_value
    return size
