"""The small networks that tests/onnx/fuzz.py changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


def _model(
    nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], outputs: list[str],
    constants: dict[str, Array], version: int = 17,
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        nodes, "network",
        [helper.make_tensor_value_info(n, 1, s) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", version)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def networks() -> list[onnx.ModelProto]:
    """Small networks: images, attention, a recurrent layer, indices, branches, bytes."""
    rng, node = np.random.default_rng(0), helper.make_node

    def w(*shape: int) -> Array:
        return rng.standard_normal(shape).astype("f4")

    def ints(*values: int) -> Array:
        return np.array(values, np.int64)

    images = _model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1]),
            node("BatchNormalization", ["c", "s", "b", "b", "s"], ["n"], epsilon=1e-3),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("GlobalAveragePool", ["p"], ["g"]),
            node("Flatten", ["g"], ["f"], axis=1),
            node("Gemm", ["f", "v", "b"], ["y"], transB=1, alpha=0.5),
        ],
        {"x": (1, 3, 6, 6)}, ["y"],
        {"w": w(4, 3, 3, 3), "s": np.abs(w(4)) + 0.5, "b": w(4), "v": w(4, 4)},
    )  # fmt: skip
    attention = _model(
        [
            node("MatMul", ["x", "w"], ["q"]),
            node("Reshape", ["q", "shape"], ["h"]),
            node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
            node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
            node("MatMul", ["t", "k"], ["s"]),
            node("Softmax", ["s"], ["a"], axis=-1),
            node("MatMul", ["a", "t"], ["o"]),
            node("ReduceMean", ["o"], ["y"], axes=[1], keepdims=0),
        ],
        {"x": (1, 5, 8)}, ["y"], {"w": w(8, 8), "shape": ints(0, 0, 2, 4)},
    )  # fmt: skip
    layer = _model(
        [
            node("LSTM", ["x", "w", "r", "b"], ["z", "h", ""], hidden_size=3),
            node("Squeeze", ["z", "axes"], ["s"]),
            node("LayerNormalization", ["s", "g"], ["n"], axis=-1),
            node("Concat", ["n", "n"], ["y"], axis=2),
        ],
        {"x": (4, 2, 5)}, ["y", "h"],
        {"w": w(1, 12, 5), "r": w(1, 12, 3), "b": w(1, 24), "axes": ints(1), "g": w(3)},
    )  # fmt: skip
    indices = _model(
        [
            node("Gather", ["x", "i"], ["g"], axis=1),
            node("Slice", ["g", "first", "last", "axes"], ["s"]),
            node("Pad", ["s", "pads"], ["p"], mode="constant"),
            node("Split", ["p"], ["a", "b"], axis=0),
            node("Where", ["mask", "a", "b"], ["w"]),
            node("TopK", ["w", "k"], ["v", "at"], axis=-1),
            node("CumSum", ["v", "axis"], ["y"]),
        ],
        {"x": (4, 6)}, ["y", "at"],
        {"i": ints(0, 2, 5, -1), "first": ints(0), "last": ints(3), "axes": ints(1),
         "pads": ints(0, 1, 0, 1), "mask": np.array([True, False, True, True, False]),
         "k": ints(3), "axis": np.array(1, np.int64)},
    )  # fmt: skip
    made = [images, attention, layer, indices, _control(w), _bytes(rng), _boxes(w), _cached(w)]
    return [*made, _trees(w), _lists(w)]


def _control(w: Callable[..., Array]) -> onnx.ModelProto:
    """A branch and a loop."""
    node, value = helper.make_node, helper.make_tensor_value_info
    bodies = []
    for name, op in (("then", "Exp"), ("else", "Neg")):
        inner = [node(op, ["x"], ["t"]), node("Add", ["t", "c"], [f"{name}_y"])]
        constant = [numpy_helper.from_array(w(3), "c")]
        bodies.append(helper.make_graph(inner, name, [], [value(f"{name}_y", 1, None)], constant))
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Mul", ["s", "half"], ["t"]),
         node("Add", ["t", "y0"], ["u"]), node("Identity", ["u"], ["row"])],
        "body", [value("i", 7, []), value("go", 9, []), value("s", 1, [2, 3])],
        [value("go_on", 9, []), value("u", 1, None), value("row", 1, None)],
        [numpy_helper.from_array(np.float32(0.5), "half")],
    )  # fmt: skip
    return _model(
        [
            node("If", ["yes"], ["y0"], then_branch=bodies[0], else_branch=bodies[1]),
            node("Loop", ["count", "yes", "y0"], ["y", "rows"], body=body),
        ],
        {"x": (2, 3)}, ["y", "rows"],
        {"yes": np.array(True), "count": np.array(3, np.int64)},
    )  # fmt: skip


def _bytes(rng: np.random.Generator) -> onnx.ModelProto:
    """A quantised product and convolution."""
    node = helper.make_node
    return _model(
        [
            node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            node("ConvInteger", ["q", "w", "z"], ["c"], pads=[1, 1, 1, 1]),
            node("Cast", ["c"], ["f"], to=1),
            node("Mul", ["f", "s"], ["m"]),
            node("QuantizeLinear", ["m", "scale", "zero"], ["b"]),
            node("DequantizeLinear", ["b", "scale", "zero"], ["y"]),
        ],
        {"x": (1, 2, 4, 4)}, ["y", "c"],
        {"w": rng.integers(-9, 9, (3, 2, 3, 3)).astype("i1"), "scale": np.array(0.7, "f4"),
         "zero": np.array(3, "i1")},
    )  # fmt: skip


def _boxes(w: Callable[..., Array]) -> onnx.ModelProto:
    """Boxes of which some stay, and a branch by a value of the device."""
    node, value = helper.make_node, helper.make_tensor_value_info
    bodies = [
        helper.make_graph([node(op, ["s"], [f"{op}_s"])], op, [], [value(f"{op}_s", 1, None)])
        for op in ("Abs", "Neg")
    ]
    return _model(
        [
            node("MatMul", ["x", "w"], ["b"]), node("MatMul", ["v", "x"], ["s"]),
            node("ReduceMax", ["s"], ["m"], keepdims=0), node("Greater", ["m", "least"], ["big"]),
            node("If", ["big"], ["t"], then_branch=bodies[0], else_branch=bodies[1]),
            node("Transpose", ["t"], ["u"], perm=[0, 2, 1]), node("Slice", ["u", "0", "1", "1"],
                                                                  ["one"]),
            node("NonMaxSuppression", ["b", "one", "most", "overlap", "least"], ["kept"]),
            node("Gather", ["kept", "two"], ["at"], axis=1), node("Gather", ["b", "at"], ["y"],
                                                                  axis=1),
        ],
        {"x": (1, 6, 6)}, ["y", "kept"],
        {"w": w(6, 4), "v": w(6, 6), "least": np.array(0.2, "f4"), "most": np.array([3]),
         "overlap": np.array([0.4], "f4"), "two": np.array(2), "0": np.array([0]),
         "1": np.array([1])},
    )  # fmt: skip


def _cached(w: Callable[..., Array]) -> onnx.ModelProto:
    """Heads that share keys and values with a cache, and a fused norm."""
    node = helper.make_node
    given = {"num_heads": 2, "kv_num_heads": 1, "domain": "com.microsoft"}
    model = _model(
        [
            node("SkipSimplifiedLayerNormalization", ["x", "x", "g"], ["n"], epsilon=1e-5,
                 domain="com.microsoft"),
            node("MatMul", ["n", "w"], ["q"]), node("MatMul", ["n", "v"], ["k"]),
            node("GroupQueryAttention", ["q", "k", "k", "past", "past", "ends", "total"],
                 ["y", "keys", "values"], **given),
        ],
        {"x": (2, 1, 8), "past": (2, 1, 3, 8)}, ["y", "keys"],
        {"g": w(8), "w": w(8, 16), "v": w(8, 8), "ends": np.int32([3, 2]),
         "total": np.array(4, np.int32)},
    )  # fmt: skip
    model.opset_import.append(helper.make_operatorsetid("com.microsoft", 1))
    return model


def _trees(w: Callable[..., Array]) -> onnx.ModelProto:
    """Features, a linear classifier and two trees."""
    node, domain = helper.make_node, "ai.onnx.ml"
    tree = {
        "nodes_treeids": [0] * 5 + [1] * 3, "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 0, 2, 0, 0, 3, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF",
                        "LEAF"],
        "nodes_values": [0.1, 0.0, -0.3, 0.0, 0.0, 0.2, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        "target_treeids": [0, 0, 0, 1, 1], "target_nodeids": [1, 3, 4, 1, 2],
        "target_ids": [0, 0, 0, 0, 0], "target_weights": w(5).tolist(),
    }  # fmt: skip
    model = _model(
        [
            node("Scaler", ["x"], ["s"], domain=domain, offset=w(4).tolist(),
                 scale=w(4).tolist()),
            node("Normalizer", ["s"], ["n"], domain=domain, norm="L2"),
            node("TreeEnsembleRegressor", ["n"], ["t"], domain=domain, n_targets=1, **tree),
            node("LinearClassifier", ["n"], ["label", "scores"], domain=domain,
                 coefficients=w(12).tolist(), intercepts=w(3).tolist(),
                 classlabels_ints=[4, 7, 1], post_transform="SOFTMAX"),
            node("LabelEncoder", ["label"], ["code"], domain=domain, keys_int64s=[1, 7],
                 values_floats=[0.5, 2.5], default_float=-1.0),
            node("Concat", ["t", "scores"], ["y"], axis=1),
        ],
        {"x": (6, 4)}, ["y", "code"], {},
    )  # fmt: skip
    model.opset_import.append(helper.make_operatorsetid(domain, 2))
    return model


def _lists(w: Callable[..., Array]) -> onnx.ModelProto:
    """A tensor in parts, of which one is taken out and one comes in; the rest is an output."""
    node = helper.make_node
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    model = _model(
        [
            node("SplitToSequence", ["x", "sizes"], ["parts"], axis=0),
            node("SequenceAt", ["parts", "last"], ["one"]),
            node("SequenceErase", ["parts", "place"], ["fewer"]),
            node("MatMul", ["one", "w"], ["new"]),
            node("SequenceInsert", ["fewer", "new", "place"], ["rest"]),
            node("ConcatFromSequence", ["rest"], ["y"], axis=0),
            node("SequenceLength", ["rest"], ["count"]),
        ],
        {"x": (6, 3)}, ["y", "count", "rest"],
        {"sizes": np.array([1, 2, 3]), "last": np.array(-1), "place": np.array(1), "w": w(3, 3)},
    )  # fmt: skip
    model.graph.output[2].type.CopyFrom(kind)
    return model
