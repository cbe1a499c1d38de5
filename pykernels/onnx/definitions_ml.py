"""Operations of ai.onnx.ml, which exporters of scikit-learn write, defined by several operations of
ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .errors import ModelError
from .graph import Array
from .operators.search import INNER
from .order import first_output
from .trees import MODES, Forest, from_lists, from_tensors
from .values import Values

__all__ = ["DOMAIN", "VERSION", "map_labels", "ml_nodes"]

DOMAIN = "ai.onnx.ml"
VERSION = 18  # of ONNX's own operations in these definitions
_INTS = (TensorProto.INT32, TensorProto.INT64)
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


class _Parts:
    """The nodes that replace one node: their names begin with the name of its first output."""

    def __init__(self, values: Values, node: onnx.NodeProto) -> None:
        self.values, self.node = values, node
        self.nodes: list[onnx.NodeProto] = []
        self.given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.kind = values.types[node.input[0]].tensor_type.elem_type
        self.shape = values.shape(node.input[0])
        self.count = 0

    def add(self, op: str, *inputs: str, out: int | None = None, **attributes: Any) -> str:
        """A node; `out` is the number of the output that it computes."""
        self.count += 1
        name = f"{first_output(self.node)}/{self.count}"
        result = name if out is None else self.node.output[out]
        if result:
            self.nodes.append(helper.make_node(op, [*inputs], [result], **attributes))
        return result

    def constant(self, array: Any) -> str:
        """A constant; Python's numbers are float32."""
        self.count += 1
        name = f"{first_output(self.node)}/{self.count}"
        found = np.asarray(array)
        self.values.know(name, found.astype(np.float32) if found.dtype == np.float64 else found)
        return name

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


# -- features -------------------------------------------------------------------------------------


def _array_feature_extractor(p: _Parts) -> None:
    index = p.add("Reshape", p.node.input[1], p.constant(np.array([-1])))
    x = p.node.input[0]
    if len(p.shape) == 1:
        x = p.add("Unsqueeze", x, p.constant(np.array([0])))
    p.add("Gather", x, index, axis=-1, out=0)


def _binarizer(p: _Parts) -> None:
    limit = p.constant(np.float32(p.given.get("threshold", 0.0)))
    p.cast(p.add("Greater", p.floats(), limit), p.kind, out=0)


def _feature_vectorizer(p: _Parts) -> None:
    parts = []
    sizes = p.given.get("inputdimensions", [])
    for i, name in enumerate(p.node.input):
        shape, x = p.values.shape(name), p.floats(i)
        if len(shape) not in (1, 2):
            raise ModelError(f"an input of {len(shape)} axes: not supported")
        if len(shape) == 1:
            x, shape = p.add("Unsqueeze", x, p.constant(np.array([1]))), (*shape, 1)
        more = (sizes[i] if i < len(sizes) else shape[1]) - shape[1]
        parts.append(p.add("Pad", x, p.constant(np.array([0, 0, 0, more]))) if more else x)
    p.add("Concat", *parts, axis=1, out=0)


def _imputer(p: _Parts) -> None:
    x = p.node.input[0]
    if p.kind in _INTS:
        kind = helper.tensor_dtype_to_np_dtype(p.kind)
        old = np.array(p.given.get("replaced_value_int64", 0), kind)
        new = np.array(p.given.get("imputed_value_int64s", []), kind)
    else:
        x, old = p.floats(), np.array(p.given.get("replaced_value_float", 0.0), np.float32)
        new = np.array(p.given.get("imputed_value_floats", []), np.float32)
    if new.size not in (1, p.shape[-1]):
        raise ModelError(f"{new.size} values in place of missing ones, for {p.shape[-1]} features")
    missing = p.add("IsNaN", x) if np.isnan(old) else p.add("Equal", x, p.constant(old))
    y = p.add("Where", missing, p.constant(new), x)
    p.cast(y, p.kind, out=0)


def _label_encoder(p: _Parts) -> None:
    keys, values = _column(p, "keys"), _column(p, "values")
    if len(keys) != len(values) or not len(keys):
        raise ModelError(f"{len(keys)} keys and {len(values)} values")
    usual = _usual(p, values.dtype)
    is_float = p.kind not in _INTS
    known = keys if is_float else keys[np.abs(keys) <= np.iinfo(np.int32).max]
    at = np.isin(keys, known) | np.isnan(keys) if not is_float else np.isin(keys, known)
    keys, first = np.unique(keys[at] + keys.dtype.type(0), return_index=True)  # -0.0 becomes 0.0
    table = np.append(values[at][first], usual).astype(values.dtype)
    x = p.floats() if is_float else p.node.input[0]
    kind = np.dtype(np.float32) if is_float else helper.tensor_dtype_to_np_dtype(p.kind)
    sorted_keys = p.constant(keys.astype(kind))
    place = p.add("Search", sorted_keys, x, domain=INNER)
    last = p.add("Min", place, p.constant(np.array(len(keys) - 1, np.int32)))
    found = p.add("Gather", sorted_keys, last)
    same = p.add("Equal", found, x)
    if is_float:
        same = p.add("Or", same, p.add("And", p.add("IsNaN", found), p.add("IsNaN", x)))
    row = p.add("Where", same, last, p.constant(np.array(len(keys), np.int32)))
    p.add("Gather", p.constant(table), row, out=0)


def _column(p: _Parts, name: str) -> Array:
    if f"{name}_strings" in p.given:
        raise ModelError("strings: not supported")
    if f"{name}_tensor" in p.given:
        found = numpy_helper.to_array(p.given[f"{name}_tensor"]).reshape(-1)
    elif f"{name}_int64s" in p.given:
        found = np.array(p.given[f"{name}_int64s"], np.int64)
    else:
        found = np.array(p.given.get(f"{name}_floats", []), np.float32)
    if found.dtype.kind not in "fi":
        raise ModelError(f"{name} of dtype {found.dtype}: not supported")
    return found


def _usual(p: _Parts, kind: Any) -> Array:
    if "default_tensor" in p.given:
        return numpy_helper.to_array(p.given["default_tensor"]).reshape(-1)[:1].astype(kind)
    number = p.given.get("default_float", -0.0) if kind.kind == "f" else \
        p.given.get("default_int64", -1)  # fmt: skip
    return np.array([number], kind)


def _normalizer(p: _Parts) -> None:
    x, kind = p.floats(), p.text("norm", "MAX")
    if kind == "MAX":
        size = p.along("ReduceMax", x)
    elif kind == "L1":
        size = p.along("ReduceL1", x)
    elif kind == "L2":
        size = p.along("ReduceL2", x)
    else:
        raise ModelError(f"norm {kind!r:.40}: not supported")
    zero = p.add("Equal", size, p.constant(0.0))
    p.add("Div", x, p.add("Where", zero, p.constant(1.0), size), out=0)


def _one_hot_encoder(p: _Parts) -> None:
    if "cats_strings" in p.given:
        raise ModelError("strings: not supported")
    kind = helper.tensor_dtype_to_np_dtype(p.kind) if p.kind in _INTS else np.dtype(np.float32)
    x = p.node.input[0] if p.kind in _INTS else p.floats()
    wide = p.add("Unsqueeze", x, p.constant(np.array([-1])))
    found = p.add("Equal", wide, p.constant(np.array(p.given.get("cats_int64s", []), kind)))
    p.cast(found, TensorProto.FLOAT, out=0)


def _scaler(p: _Parts) -> None:
    y = p.floats()
    offset, scale = (np.array(p.given.get(n, []), np.float32) for n in ("offset", "scale"))
    for name, numbers in (("offset", offset), ("scale", scale)):
        if numbers.size not in (0, 1, p.shape[-1]):
            raise ModelError(f"{name} has {numbers.size} numbers for {p.shape[-1]} features")
    if offset.size:
        y = p.add("Sub", y, p.constant(offset))
    y = p.add("Mul", y, p.constant(scale if scale.size else np.float32(1)), out=0)


# -- linear models --------------------------------------------------------------------------------


def _linear_scores(p: _Parts, targets: int) -> str:
    x = p.rows()
    weights = np.array(p.given.get("coefficients", []), np.float32)
    if targets < 1 or weights.size != targets * p.shape[1]:
        raise ModelError(
            f"{weights.size} coefficients for {targets} targets and {p.shape[1]} features"
        )
    shift = np.array(p.given.get("intercepts", []), np.float32)
    if shift.size not in (0, targets):
        raise ModelError(f"{shift.size} intercepts for {targets} targets")
    known = p.constant(weights.reshape(targets, -1)), p.constant(shift)
    return p.add("Gemm", x, *known[: 1 + bool(shift.size)], transB=1)


def _linear_regressor(p: _Parts) -> None:
    scores = _linear_scores(p, p.given.get("targets", 1))
    _transformed(p, scores, p.text("post_transform", "NONE"), out=0)


def _linear_classifier(p: _Parts) -> None:
    labels = _labels(p, "classlabels_ints")
    count = max(len(p.given.get("intercepts", [])), 1)
    scores, kind = _linear_scores(p, count), p.text("post_transform", "NONE")
    if count > 1:
        _transformed(p, scores, kind, out=1)
        _named(p, p.add("ArgMax", scores, axis=1, keepdims=0), labels)
        return
    above = p.add("Greater", scores, p.constant(0.0))
    flat = p.add("Reshape", p.cast(above, TensorProto.INT64), p.constant(np.array([-1])))
    _named(p, flat, labels if len(labels) == 2 else np.array([0, *labels[:1]]))
    if len(labels) == 2:
        _both_sides(p, scores, kind, positive=True)
    else:
        _transformed(p, scores, kind, out=1)


# -- trees ----------------------------------------------------------------------------------------


def _leaves(p: _Parts, forest: Forest) -> str:
    """The leaf of each row of features in each tree: (rows, trees)."""
    x = p.rows()
    if forest.feature.size and forest.feature.max() >= p.shape[1]:
        raise ModelError(f"a node reads feature {forest.feature.max()} of {p.shape[1]}")
    modes = np.unique(forest.mode[len(forest.weights) :])
    columns = [forest.feature, forest.yes, forest.no]
    several, some = len(modes) > 1, bool(forest.missing.any())
    columns += [forest.mode] if several else []
    columns += [forest.missing] if some else []
    table, splits = p.constant(np.stack(columns, 1)), p.constant(forest.split)
    at = [p.constant(np.array(i)) for i in range(len(columns))]
    row = p.constant(forest.roots[None])
    for level in range(forest.depth):
        facts = p.add("Gather", table, row)
        found = [p.add("Gather", facts, i, axis=2) for i in at]
        number = p.add("Gather", splits, row)
        if level == 0:  # all rows of features are at the roots
            x_here = p.add("Gather", x, p.constant(forest.feature[forest.roots]), axis=1)
        else:
            x_here = p.add("GatherElements", x, found[0], axis=1)
        true = ""
        for mode in modes.tolist():
            one = _compared(p, MODES[mode], x_here, number)
            if several:
                mine = p.add("Equal", found[3], p.constant(np.array(mode, np.int32)))
                one = p.add("And", mine, one)
            true = p.add("Or", true, one) if true else one
        if some:
            marked = p.cast(found[-1], TensorProto.BOOL)
            true = p.add("Or", true, p.add("And", marked, p.add("IsNaN", x_here)))
        row = p.add("Where", true, found[1], found[2])
    return row


def _compared(p: _Parts, mode: str, x: str, number: str) -> str:
    op = {"BRANCH_LEQ": "LessOrEqual", "BRANCH_LT": "Less", "BRANCH_GTE": "GreaterOrEqual",
          "BRANCH_GT": "Greater"}.get(mode, "Equal")  # fmt: skip
    found = p.add(op, x, number)
    return p.add("Not", found) if mode == "BRANCH_NEQ" else found


def _sums(p: _Parts, forest: Forest, kind: str, base: Array) -> str:
    """The sum, mean, minimum or maximum of the leaves of all trees: (rows, targets)."""
    targets = forest.weights.shape[1]
    if base.size not in (0, 1, targets):
        raise ModelError(f"{base.size} base values for {targets} targets")
    ends = {"MIN": np.inf, "MAX": -np.inf}
    rest = ends.get(kind, 0.0)
    table = np.where(np.isnan(forest.weights), rest, forest.weights).astype(np.float32)
    if kind == "AVERAGE":
        table /= len(forest.roots)
    ops = {"SUM": "ReduceSum", "AVERAGE": "ReduceSum", "MIN": "ReduceMin", "MAX": "ReduceMax"}
    if kind not in ops:
        raise ModelError(f"aggregate_function {kind!r:.40}: not supported")
    y = p.along(ops[kind], p.add("Gather", p.constant(table), _leaves(p, forest)), 1, keep=0)
    if kind in ends:  # a target without a leaf
        y = p.add("Where", p.add("Equal", y, p.constant(rest)), p.constant(0.0), y)
    if base.size:
        y = p.add("Add", y, p.constant(base.astype(np.float32)))
    if not forest.depth:
        y = p.add("Expand", y, p.constant(np.array([p.shape[0], targets])))
    return y


def _base(p: _Parts) -> Array:
    if "base_values_as_tensor" in p.given:
        return numpy_helper.to_array(p.given["base_values_as_tensor"]).reshape(-1)
    return np.array(p.given.get("base_values", []), np.float32)


def _tree_ensemble(p: _Parts) -> None:
    number = p.given.get("aggregate_function", 1)
    kind = ("AVERAGE", "SUM", "MIN", "MAX")[number] if 0 <= number < 4 else str(number)
    y = _sums(p, from_tensors(p.given), kind, np.zeros(0))
    last = p.given.get("post_transform", 0)
    y = _transformed(p, y, _TRANSFORMS[last] if 0 <= last < 5 else str(last))
    p.cast(y, p.kind, out=0)


def _tree_regressor(p: _Parts) -> None:
    forest = from_lists(p.given, "target", p.given.get("n_targets", 1))
    y = _sums(p, forest, p.text("aggregate_function", "SUM"), _base(p))
    _transformed(p, y, p.text("post_transform", "NONE"), out=0)


def _tree_classifier(p: _Parts) -> None:
    labels, kind = _labels(p, "classlabels_int64s"), p.text("post_transform", "NONE")
    ids = set(p.given.get("class_ids", []))
    if len(labels) == 2 and len(ids) == 1:
        single = {**p.given, "class_ids": [0] * len(p.given["class_ids"])}
        base = _base(p)[-1:]
        forest = from_lists(single, "class", 1)
        positive = bool(np.nanmin(forest.weights) >= 0)
        scores = _sums(p, forest, "SUM", base)
        limit = p.constant(0.5 if positive else 0.0)
        above = p.cast(p.add("Greater", scores, limit), TensorProto.INT64)
        _named(p, p.add("Reshape", above, p.constant(np.array([-1]))), labels)
        _both_sides(p, scores, kind, positive)
        return
    scores = _sums(p, from_lists(p.given, "class", len(labels)), "SUM", _base(p))
    _transformed(p, scores, kind, out=1)
    _named(p, p.add("ArgMax", scores, axis=1, keepdims=0), labels)


# -- classes and scores ---------------------------------------------------------------------------


def _labels(p: _Parts, name: str) -> Array:
    if p.given.get("classlabels_strings"):
        raise ModelError("classes that are strings: not supported")
    found = np.array(p.given.get(name, []), np.int64)
    if not found.size:
        raise ModelError(f"no {name}")
    return found


def _named(p: _Parts, place: str, labels: Array) -> None:
    """The labels of classes by their numbers."""
    p.add("Gather", p.constant(labels), place, out=0)


def _both_sides(p: _Parts, scores: str, kind: str, positive: bool) -> None:
    """The scores of two classes from the score of the second class."""
    if positive and kind != "LOGISTIC":
        other = p.add("Sub", p.constant(1.0), scores)
    else:
        other = p.add("Neg", scores)
    _transformed(p, p.add("Concat", other, scores, axis=1), kind, out=1)


def _transformed(p: _Parts, y: str, kind: str, out: int | None = None) -> str:
    """Scores after a transformation."""
    if kind == "NONE":
        return p.add("Identity", y, out=out)
    if kind == "LOGISTIC":
        return p.add("Sigmoid", y, out=out)
    if kind == "SOFTMAX":
        return p.add("Softmax", y, axis=-1, out=out)
    if kind == "SOFTMAX_ZERO":  # scores of 0 stay 0
        parts = p.add("Exp", p.add("Sub", y, p.along("ReduceMax", y)))
        there = p.add("Greater", p.add("Abs", y), p.constant(1e-7))
        parts = p.add("Where", there, parts, p.constant(0.0))
        return p.add("Div", parts, p.along("ReduceSum", parts), out=out)
    raise ModelError(f"post_transform {kind!r:.40}: not supported")


_DEFINED: dict[str, Callable[[_Parts], None]] = {
    "ArrayFeatureExtractor": _array_feature_extractor, "Binarizer": _binarizer,
    "FeatureVectorizer": _feature_vectorizer, "Imputer": _imputer, "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier, "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer, "OneHotEncoder": _one_hot_encoder, "Scaler": _scaler,
    "TreeEnsemble": _tree_ensemble, "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}  # fmt: skip


def map_labels(node: onnx.NodeProto) -> list[int] | list[str]:
    """The keys of a ZipMap."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if given.get("classlabels_strings"):
        return [label.decode() for label in given["classlabels_strings"]]
    return list(given.get("classlabels_int64s", []))


def ml_nodes(values: Values, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes that a node of ai.onnx.ml stands for."""
    if node.op_type not in _DEFINED:
        raise ModelError("this operation is missing")
    kinds = {values.types[n].tensor_type.elem_type for n in node.input}
    if TensorProto.STRING in kinds:
        raise ModelError("strings: not supported")
    parts = _Parts(values, node)
    _DEFINED[node.op_type](parts)
    return parts.nodes
