"""Linear models, support vectors and trees of ai.onnx.ml, defined by several operations of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from .errors import ModelError
from .graph import Array
from .ml_parts import Parts
from .operators.inner import INNER
from .trees import MODES, Forest, from_lists, from_tensors

__all__ = ["MODELS"]

_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


# -- linear models --------------------------------------------------------------------------------


def _linear_scores(p: Parts, targets: int) -> str:
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


def _linear_regressor(p: Parts) -> None:
    scores = _linear_scores(p, p.given.get("targets", 1))
    _transformed(p, scores, p.text("post_transform", "NONE"), out=0)


def _linear_classifier(p: Parts) -> None:
    labels = _labels(p, "classlabels_ints")
    count = max(len(p.given.get("intercepts", [])), 1)
    scores, kind = _linear_scores(p, count), p.text("post_transform", "NONE")
    if count > 1:
        _transformed(p, scores, kind, out=1)
        _named(p, p.add("ArgMax", scores, axis=1, keepdims=0), labels)
        return
    above = p.add("Greater", scores, p.constant(0.0))
    flat = p.add("Reshape", p.cast(above, TensorProto.INT64), p.constant(np.array([-1])))
    other = "" if isinstance(labels[0], str) else 0
    _named(p, flat, labels if len(labels) == 2 else [other, labels[0]])
    if len(labels) == 2:
        _both_sides(p, scores, kind, positive=True)
    else:
        _transformed(p, scores, kind, out=1)


# -- support vectors ------------------------------------------------------------------------------


def _support_vector_regressor(p: Parts) -> None:
    x, kind = p.rows(), p.text("kernel_type", "LINEAR")
    weights, shift = (np.array(p.given.get(n, []), np.float32) for n in ("coefficients", "rho"))
    count = p.given.get("n_supports", 0)
    vectors = np.array(p.given.get("support_vectors", []), np.float32)
    if shift.size != 1 or weights.size != (count or p.shape[1]) or \
            vectors.size != count * p.shape[1]:  # fmt: skip
        raise ModelError(
            f"{weights.size} coefficients and {vectors.size} numbers of {count} support vectors "
            f"for {p.shape[1]} features, and {shift.size} rho"
        )
    if count:
        x = _kernel(p, x, vectors.reshape(count, -1), kind)
    y = p.add("Gemm", x, p.constant(weights[:, None]), p.constant(shift))
    y = _transformed(p, y, p.text("post_transform", "NONE"))
    if p.given.get("one_class", 0):
        above = p.add("Greater", y, p.constant(0.0))
        y = p.add("Where", above, p.constant(1.0), p.constant(-1.0))
    p.add("Identity", y, out=0)


def _kernel(p: Parts, x: str, vectors: Array, kind: str) -> str:
    """The kernel function of each row with each support vector."""
    gamma, shift, degree = [*p.given.get("kernel_params", []), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        middle = vectors.mean(0)  # centred numbers lose less precision
        x, vectors = p.add("Sub", x, p.constant(middle)), vectors - middle
        squares = p.along("ReduceSumSquare", x)
        both = p.add("Gemm", x, p.constant(vectors), p.constant((vectors**2).sum(1)), transB=1,
                     alpha=-2.0)  # fmt: skip
        return p.add("Exp", p.add("Mul", p.add("Add", both, squares), p.constant(-gamma)))
    if kind == "LINEAR":
        return p.add("Gemm", x, p.constant(vectors), transB=1)
    y = p.add("Gemm", x, p.constant(vectors), p.constant(shift), transB=1, alpha=gamma)
    if kind == "POLY":
        return p.add("Pow", y, p.constant(degree))
    if kind == "SIGMOID":
        return p.add("Tanh", y)
    raise ModelError(f"kernel_type {kind!r:.40}: not supported")


# -- trees ----------------------------------------------------------------------------------------


def _leaves(p: Parts, forest: Forest) -> str:
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
        facts = p.add("Rows", table, row, domain=INNER)
        found = [p.add("Gather", facts, i, axis=2) for i in at]
        number = p.add("Rows", splits, row, domain=INNER)
        if level == 0:  # all rows of features are at the roots
            x_here = p.add("Gather", x, p.constant(forest.feature[forest.roots]), axis=1)
        else:
            x_here = p.add("Features", x, found[0], domain=INNER)
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


def _compared(p: Parts, mode: str, x: str, number: str) -> str:
    op = {"BRANCH_LEQ": "LessOrEqual", "BRANCH_LT": "Less", "BRANCH_GTE": "GreaterOrEqual",
          "BRANCH_GT": "Greater"}.get(mode, "Equal")  # fmt: skip
    found = p.add(op, x, number)
    return p.add("Not", found) if mode == "BRANCH_NEQ" else found


def _sums(p: Parts, forest: Forest, kind: str, base: Array) -> str:
    """The sum, mean, minimum or maximum of each row's leaves in all trees: (rows, targets)."""
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
    y = p.along(
        ops[kind], p.add("Rows", p.constant(table), _leaves(p, forest), domain=INNER), 1, keep=0
    )
    if kind in ends:  # a target without a leaf
        y = p.add("Where", p.add("Equal", y, p.constant(rest)), p.constant(0.0), y)
    if base.size:
        y = p.add("Add", y, p.constant(base.astype(np.float32)))
    if not forest.depth:
        y = p.add("Expand", y, p.constant(np.array([p.shape[0], targets])))
    return y


def _base(p: Parts) -> Array:
    if "base_values_as_tensor" in p.given:
        return numpy_helper.to_array(p.given["base_values_as_tensor"]).reshape(-1)
    return np.array(p.given.get("base_values", []), np.float32)


def _tree_ensemble(p: Parts) -> None:
    number = p.given.get("aggregate_function", 1)
    kind = ("AVERAGE", "SUM", "MIN", "MAX")[number] if 0 <= number < 4 else str(number)
    y = _sums(p, from_tensors(p.given), kind, np.zeros(0))
    last = p.given.get("post_transform", 0)
    y = _transformed(p, y, _TRANSFORMS[last] if 0 <= last < 5 else str(last))
    p.cast(y, p.kind, out=0)


def _tree_regressor(p: Parts) -> None:
    forest = from_lists(p.given, "target", p.given.get("n_targets", 1))
    y = _sums(p, forest, p.text("aggregate_function", "SUM"), _base(p))
    _transformed(p, y, p.text("post_transform", "NONE"), out=0)


def _tree_classifier(p: Parts) -> None:
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


def _labels(p: Parts, name: str) -> list[Any]:
    """The classes: numbers or strings."""
    found = [c.decode() for c in p.given.get("classlabels_strings", [])] or p.given.get(name, [])
    if not found:
        raise ModelError("no classes")
    return list(found)


def _named(p: Parts, place: str, labels: list[Any]) -> None:
    """Add the first output: the labels of the classes whose numbers `place` contains."""
    if isinstance(labels[-1], str):
        p.names(place, labels)
    else:
        p.add("Gather", p.constant(np.array(labels, np.int64)), place, out=0)


def _both_sides(p: Parts, scores: str, kind: str, positive: bool) -> None:
    """The scores of two classes from the score of the second class."""
    if positive and kind != "LOGISTIC":
        other = p.add("Sub", p.constant(1.0), scores)
    else:
        other = p.add("Neg", scores)
    _transformed(p, p.add("Concat", other, scores, axis=1), kind, out=1)


def _transformed(p: Parts, y: str, kind: str, out: int | None = None) -> str:
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


MODELS = {
    "LinearClassifier": _linear_classifier, "LinearRegressor": _linear_regressor,
    "SVMRegressor": _support_vector_regressor, "TreeEnsemble": _tree_ensemble,
    "TreeEnsembleClassifier": _tree_classifier, "TreeEnsembleRegressor": _tree_regressor,
}  # fmt: skip
