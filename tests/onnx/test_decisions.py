"""What a run decides: branches and loops by values of the device, and results of as many rows as
the values say."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.boxes import selected_boxes
from pykernels.onnx.checking import Reference

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.gpu
node, value = helper.make_node, helper.make_tensor_value_info


def finished(
    nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str], **constants: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "decisions", inputs, [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", 17)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=sets, ir_version=9)
    )


def same_as_theirs(proto: onnx.ModelProto, model: pk.onnx.Model, inputs: dict[str, Array]) -> None:
    want, found = Reference(proto).run(inputs), model(inputs)
    assert found.keys() == want.keys()
    for name, array in want.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def branches(first: list[Any], second: list[Any]) -> dict[str, onnx.GraphProto]:
    return {
        f"{side}_branch": helper.make_graph(nodes, side, [], [value("out", 1, None)])
        for side, nodes in (("then", first), ("else", second))
    }


def test_a_branch_by_what_the_device_computes(dev: pk.Device) -> None:
    """Both are computed, and one of the results is taken: one program serves both."""
    proto = finished(
        [
            node("ReduceSum", ["x"], ["sum"], keepdims=1),
            node("Reshape", ["sum", "one"], ["flat"]),
            node("Greater", ["flat", "zero"], ["yes"]),
            node("If", ["yes"], ["y"], **branches(
                [node("Exp", ["x"], ["t"]), node("Mul", ["t", "x"], ["out"])],
                [node("Neg", ["x"], ["out"])],
            )),
        ],
        [value("x", 1, [50, 100])], ["y"], one=[1], zero=np.float32([0]),
    )  # fmt: skip
    model = pk.onnx.load(proto, device=dev)
    x = np.random.default_rng(0).uniform(0.1, 1, (50, 100)).astype("f4")
    for sign in (1, -1, 1):
        same_as_theirs(proto, model, {"x": sign * x})
    assert len(model) == 1


def test_branches_whose_results_have_other_shapes(dev: pk.Device) -> None:
    proto = finished(
        [
            node("ReduceMax", ["x"], ["most"], keepdims=0),
            node("Greater", ["most", "zero"], ["yes"]),
            node("If", ["yes"], ["y"], **branches(
                [node("Flatten", ["x"], ["out"], axis=0)], [node("Neg", ["x"], ["out"])])),
        ],
        [value("x", 1, [50, 100])], ["y"], zero=np.float32(0),
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"depends on values of the run: results of shapes"):
        pk.onnx.load(proto, device=dev)(x=np.ones((50, 100), "f4"))


def test_a_loop_that_ends_by_what_the_device_computes(dev: pk.Device) -> None:
    """All rounds that there may be are computed; later ones change nothing."""
    body = helper.make_graph(
        [
            node("Mul", ["s", "two"], ["t"]), node("ReduceMax", ["t"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["on"]),
        ],
        "body", [value("i", 7, []), value("go", 9, []), value("s", 1, [60, 100])],
        [value("on", 9, []), value("t", 1, [60, 100])],
        [numpy_helper.from_array(np.float32(2), "two"),
         numpy_helper.from_array(np.float32(20), "limit")],
    )  # fmt: skip
    proto = finished(
        [node("Loop", ["count", "", "x"], ["y"], body=body)],
        [value("x", 1, [60, 100])],
        ["y"],
        count=np.array(6),
    )
    model = pk.onnx.load(proto, device=dev)
    x = np.random.default_rng(1).uniform(0.5, 1, (60, 100)).astype("f4")
    for factor in (1, 15, 0.01):
        same_as_theirs(proto, model, {"x": np.float32(factor) * x})
    assert len(model) == 1


def detector() -> onnx.ModelProto:
    """Convolutions, boxes of a grid of cells, scores of 3 classes, and the rows that are left."""
    rng = np.random.default_rng(4)
    w = {
        "w0": rng.standard_normal((8, 3, 3, 3)) / 5, "w1": rng.standard_normal((8, 8, 3, 3)) / 8,
        "w2": rng.standard_normal((7, 8, 1, 1)) / 2,
    }  # fmt: skip
    cells = np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(1, 64, 2)
    steps = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", ["x", "w0"], ["a"], **steps), node("Sigmoid", ["a"], ["as"]),
        node("Mul", ["a", "as"], ["b"]), node("Conv", ["b", "w1"], ["c"], **steps),
        node("Relu", ["c"], ["d"]), node("Conv", ["d", "w2"], ["e"]),
        node("Reshape", ["e", "rows"], ["f"]), node("Sigmoid", ["f"], ["g"]),
        node("Transpose", ["g"], ["h"], perm=[0, 2, 1]),
        node("Split", ["h", "parts"], ["xy", "wh", "kinds"], axis=2),
        node("Add", ["xy", "cells"], ["middle"]), node("Mul", ["wh", "size"], ["sides"]),
        node("Concat", ["middle", "sides"], ["boxes"], axis=2),
        node("Transpose", ["kinds"], ["scores"], perm=[0, 2, 1]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"],
             center_point_box=1),
        node("Gather", ["kept", "two"], ["places"], axis=1),
        node("Gather", ["boxes", "places"], ["near"], axis=1),
        node("Mul", ["near", "scale"], ["y"]), node("Shape", ["places"], ["count"]),
    ]  # fmt: skip
    return finished(
        nodes, [value("x", 1, [1, 3, 32, 32])], ["y", "kept", "count"], rows=[1, 7, 64],
        parts=[2, 2, 3], cells=cells.astype("f4"), size=np.float32(4), most=[5],
        overlap=np.float32([0.3]), least=np.float32([0.55]), two=np.array(2), scale=np.float32(4),
        **{n: a.astype("f4") for n, a in w.items()},
    )  # fmt: skip


def test_a_detector_whose_boxes_suppress_each_other(dev: pk.Device) -> None:
    """The device computes boxes, scores and what is made of the rows that are left."""
    proto = detector()
    model, counts = pk.onnx.load(proto, device=dev), set()
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((1, 3, 32, 32)).astype("f4")
        same_as_theirs(proto, model, {"x": x})
        found = model(x=dev.tensor(x))
        assert isinstance(found["y"], pk.Tensor)
        counts.add(found["kept"].shape[0])
    assert len(model) == 1 and max(counts) > 1
    assert "conv" in model.profile(x=x).table()


def test_rows_that_nobody_knows_before(dev: pk.Device) -> None:
    """Two such nodes, one behind the other, and a shape that the first one determines."""
    proto = finished(
        [
            node("Mul", ["x", "x"], ["s"]), node("Greater", ["s", "one"], ["far"]),
            node("Compress", ["s", "far"], ["c"], axis=0), node("Round", ["c"], ["r"]),
            node("Unique", ["r"], ["u", "", "back", ""], sorted=1), node("Neg", ["u"], ["y"]),
            node("Shape", ["c"], ["n"]), node("NonZero", ["back"], ["at"]),
            node("Reshape", ["c", "n"], ["same"]),
        ],
        [value("x", 1, ["n"])], ["y", "at", "same", "s"], one=np.float32(1),
    )  # fmt: skip
    model = pk.onnx.load(proto, device=dev)
    for n in (200, 300):
        x = np.random.default_rng(n).standard_normal(n).astype("f4")
        same_as_theirs(proto, model, {"x": 2 * x})


def test_boxes_that_stay() -> None:
    """Beside a plain loop over all pairs."""
    rng = np.random.default_rng(0)
    boxes = rng.uniform(0, 1, (2, 40, 4)).astype("f4")
    scores = rng.uniform(0, 1, (2, 3, 40)).round(1).astype("f4")  # many are equal
    want = []
    for b in range(2):
        low, high = np.sort(boxes[b].reshape(-1, 2, 2), axis=1).transpose(1, 0, 2)
        area = np.prod(high - low, 1)
        for k in range(3):
            kept: list[int] = []
            for i in sorted(range(40), key=lambda i: (-scores[b, k, i], i)):
                shared = [
                    np.prod(
                        np.maximum(np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]), 0)
                    )
                    for j in kept
                ]
                clear = all(
                    s <= 0.2 * (area[i] + area[j] - s) for s, j in zip(shared, kept, strict=True)
                )
                if clear and scores[b, k, i] > 0.25 and len(kept) < 7:
                    kept.append(i)
            want += [(b, k, i) for i in kept]
    found = selected_boxes(boxes, scores, np.array([7]), np.float32([0.2]), np.float32([0.25]))
    assert len(want) > 20
    np.testing.assert_array_equal(found, want)
    assert selected_boxes(boxes, scores).shape == (0, 3)
    with pytest.raises(ModelError, match="and scores of"):
        selected_boxes(boxes, scores[:, :, 1:])


def growing(outputs: list[str], more: list[onnx.NodeProto], **constants: Any) -> onnx.ModelProto:
    """A loop that doubles x, writes what it has as rows, and ends above a limit."""
    body = helper.make_graph(
        [
            node("Mul", ["s", "two"], ["t"]), node("ReduceMax", ["t"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["on"]), node("Identity", ["t"], ["row"]),
            node("ReduceSum", ["t"], ["total"], keepdims=0),
        ],
        "body", [value("i", 7, []), value("go", 9, []), value("s", 1, [60, 100])],
        [value("on", 9, []), value("t", 1, [60, 100]), value("row", 1, [60, 100]),
         value("total", 1, [])],
        [numpy_helper.from_array(np.float32(2), "two"),
         numpy_helper.from_array(np.float32(20), "limit")],
    )  # fmt: skip
    return finished(
        [node("Loop", ["count", "", "x"], ["y", "rows", "totals"], body=body), *more],
        [value("x", 1, [60, 100])], outputs, count=np.array(6), **constants,
    )  # fmt: skip


def test_a_loop_of_as_many_rows_as_the_device_decides(dev: pk.Device) -> None:
    """All rounds are computed, and the rows of those that count are kept; what follows has shapes
    of its own."""
    proto = growing(
        ["y", "rows", "totals", "z", "n"],
        [node("ReduceMean", ["rows"], ["mean"], axes=[0], keepdims=0),
         node("Add", ["mean", "y"], ["z"]), node("Shape", ["totals"], ["n"])],
    )  # fmt: skip
    model = pk.onnx.load(proto, device=dev)
    x = np.random.default_rng(2).uniform(0.5, 1, (60, 100)).astype("f4")
    counts = set()
    for factor in (1, 15, 0.01, 4):
        inputs = {"x": np.float32(factor) * x}
        same_as_theirs(proto, model, inputs)
        counts.add(model(inputs)["rows"].shape[0])
    assert counts == {5, 1, 6, 3} and len(model) == 1


def test_a_loop_without_a_last_round_is_refused(dev: pk.Device) -> None:
    proto = growing(["rows"], [])
    proto.graph.node[0].input[0] = ""
    with pytest.raises(ModelError, match="a loop whose end depends on values of the run"):
        pk.onnx.load(proto, device=dev)(x=np.ones((60, 100), "f4"))
