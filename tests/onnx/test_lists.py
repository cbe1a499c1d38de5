"""Sequences and optional values, as inputs, inside of a file and as outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from tests.models.test_nodes import Array, weights

pytestmark = pytest.mark.gpu
FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
INTEGER = helper.make_tensor_type_proto(TensorProto.INT64, [])
LIST = helper.make_sequence_type_proto(FLOATS)
MAYBE = helper.make_optional_type_proto(FLOATS)
MAYBE_LIST = helper.make_optional_type_proto(LIST)
node = helper.make_node


def value(name: str, kind: onnx.TypeProto | None = None) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name) if kind is None else helper.make_value_info(name, kind)


def finished(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: dict[str, Any],
    **constants: Array,
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        nodes, "lists", inputs, [value(n, k) for n, k in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", 18)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert isinstance(found, list) and len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            same(f, w)
    else:
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def check(dev: pk.Device, proto: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    names = [v.name for v in session.get_outputs()]
    found = pk.onnx.load(proto, device=dev)(inputs)
    for name, wanted in zip(names, session.run(names, inputs), strict=True):
        same(found[name], wanted)
    return found


def changed() -> onnx.ModelProto:
    """An element goes, another one comes in, and each is squared and added to a tensor."""
    body = helper.make_graph(
        [node("Mul", ["e", "e"], ["s"]), node("Add", ["s", "t"], ["r"])], "square",
        [value("e", FLOATS), value("t", FLOATS)], [value("r", FLOATS)],
    )  # fmt: skip
    return finished(
        [
            node("SequenceErase", ["xs", "first"], ["a"]),
            node("SequenceInsert", ["a", "t", "place"], ["b"]),
            node("SequenceMap", ["b", "t"], ["ys"], body=body),
            node("SequenceAt", ["ys", "last"], ["end"]),
            node("SequenceLength", ["ys"], ["count"]),
            node("ConcatFromSequence", ["b"], ["all"], axis=0),
        ],
        [value("xs", LIST), value("t", FLOATS), value("place", INTEGER)],
        {"ys": LIST, "end": FLOATS, "count": INTEGER, "all": FLOATS},
        first=np.array(0), last=np.array(-1),
    )  # fmt: skip


@pytest.mark.parametrize(("count", "place"), [(1, 0), (3, 0), (3, -1), (3, 2)])
def test_a_list_of_arrays_goes_in_and_out(dev: pk.Device, count: int, place: int) -> None:
    xs = [weights(2, 3, seed=i) for i in range(count)]
    check(dev, changed(), {"xs": xs, "t": weights(2, 3, seed=9), "place": np.array(place)})


def test_each_length_and_place_has_its_program(dev: pk.Device) -> None:
    model = pk.onnx.load(changed(), device=dev)
    for count in (2, 3, 2):
        for place in (0, 1):
            xs = [weights(2, 3, seed=i + place) for i in range(count)]
            t = weights(2, 3, seed=9)
            found = model(xs=xs, t=t, place=np.array(place))
            left = xs[1:]
            left.insert(place, t)
            same(found["ys"], [x * x + t for x in left])
    assert len(model) == 4


def test_tensors_in_a_list_give_tensors(dev: pk.Device) -> None:
    xs = [weights(2, 3, seed=i) for i in range(2)]
    t = weights(2, 3, seed=9)
    found = pk.onnx.load(changed(), device=dev)(
        xs=[dev.tensor(xs[0]), xs[1]], t=t, place=np.array(0)
    )
    assert all(isinstance(y, pk.Tensor) for y in found["ys"])
    same([y.numpy() for y in found["ys"]], [t * t + t, xs[1] * xs[1] + t])


def test_a_plan_keeps_lists(dev: pk.Device, tmp_path: Path) -> None:
    model = pk.onnx.load(
        finished(
            [node("SplitToSequence", ["x", "size"], ["ys"], axis=0), node("Neg", ["x"], ["z"])],
            [value("x", helper.make_tensor_type_proto(1, [5, 2]))], {"ys": LIST, "z": FLOATS},
            size=np.array(2),
        ),
        device=dev,
    )  # fmt: skip
    x = weights(5, 2)
    same(model(x=x)["ys"], [x[:2], x[2:4], x[4:]])
    model.save_plan(tmp_path / "lists.plan")
    found = pk.onnx.load_plan(tmp_path / "lists.plan", device=dev)(x=x)
    same(found["ys"], [x[:2], x[2:4], x[4:]])
    same(found["z"], -x)


def test_a_plan_takes_lists(dev: pk.Device, tmp_path: Path) -> None:
    for proto, calls in (
        (changed(), [{"xs": [weights(2, 3)] * n, "t": weights(2, 3), "place": np.array(0)}
                     for n in (1, 3)]),
        (maybe(MAYBE_LIST), [{"x": None}, {"x": [weights(2)]}, {}]),
    ):  # fmt: skip
        model = pk.onnx.load(proto, device=dev)
        wanted = [model(given) for given in calls]
        model.save_plan(tmp_path / "lists.plan")
        planned = pk.onnx.load_plan(tmp_path / "lists.plan", device=dev)
        for given, want in zip(calls, wanted, strict=True):
            found = planned(given)
            for name, value in want.items():
                if value is None:
                    assert found[name] is None
                else:
                    same(found[name], value)
        with pytest.raises(ModelError, match=r"not a list|for these inputs"):
            planned({**calls[0], next(iter(calls[0])): weights(2, 3)})


def maybe(kind: onnx.TypeProto) -> onnx.ModelProto:
    """Is an optional value there?"""
    return finished(
        [node("OptionalHasElement", ["x"], ["there"]), node("Identity", ["x"], ["same"])],
        [value("x", kind)], {"there": helper.make_tensor_type_proto(9, []), "same": kind},
    )  # fmt: skip


def test_optional_values_may_be_missing(dev: pk.Device) -> None:
    x = weights(2, 3)
    model = pk.onnx.load(maybe(MAYBE), device=dev)
    assert model.inputs[0].dtype == "optional(float32)" and model.inputs[0].shape is None
    for given in ({"x": None}, {}):
        found = model(given)
        assert found["same"] is None and found["there"].item() is False
    found = model(x=x)
    assert found["there"].item() is True
    same(found["same"], x)

    model = pk.onnx.load(maybe(MAYBE_LIST), device=dev)
    assert model.inputs[0].dtype == "optional(sequence(float32))"
    for given, there in ((None, False), ([], True), ([x, x], True)):
        found = model(x=given)
        assert found["there"].item() is there
        if given is None:
            assert found["same"] is None
        else:
            same(found["same"], given)
    assert len(model) == 3


def test_the_element_of_a_missing_value_is_an_error(dev: pk.Device) -> None:
    proto = finished([node("OptionalGetElement", ["x"], ["y"])], [value("x", MAYBE)], {"y": FLOATS})
    model = pk.onnx.load(proto, device=dev)
    same(model(x=np.float32([1, 2]))["y"], np.float32([1, 2]))
    with pytest.raises(ModelError, match="not there") as caught:
        model(x=None)
    assert caught.value.operator == "OptionalGetElement"


def test_wrong_lists_are_errors(dev: pk.Device) -> None:
    model = pk.onnx.load(changed(), device=dev)
    good = {"xs": [weights(2, 3)] * 2, "t": weights(2, 3), "place": np.array(0)}
    for name, wrong, reason in (
        ("xs", weights(2, 3), "a ndarray, not a list of arrays"),
        ("xs", None, "input xs is missing"),
        ("xs", [weights(2, 3), np.zeros((2, 3), "c8")], r"input xs\[1\] has dtype complex64"),
        ("xs", [], "position"),
        ("place", np.array(7), "position 7"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=reason):
            model({**good, name: wrong})
    with pytest.raises(ModelError, match=r"no input xs\[0\]"):
        model({**good, "xs[0]": weights(2, 3)})


def test_operations_of_tensors_refuse_lists(dev: pk.Device) -> None:
    for op in ("Neg", "SequenceMap"):
        nodes = [node("SequenceMap", ["x"], ["y"], body=helper.make_graph([], "b", [], []))]
        nodes = nodes if op == "SequenceMap" else [node("Neg", ["xs"], ["y"])]
        proto = finished(nodes, [value("xs", LIST), value("x", FLOATS)], {"y": None})
        with pytest.raises(ModelError, match=r"no tensor|no sequence") as caught:
            pk.onnx.load(proto, device=dev)(xs=[weights(2)], x=weights(2))
        assert caught.value.operator == op


def test_a_session_names_the_types_as_onnxruntime_does(dev: pk.Device) -> None:
    for proto in (changed(), maybe(MAYBE), maybe(MAYBE_LIST)):
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        ours = pk.onnx.InferenceSession(proto.SerializeToString(), device=dev)
        for mine, its in ((ours.get_inputs(), session.get_inputs()),
                          (ours.get_outputs(), session.get_outputs())):  # fmt: skip
            assert [(v.name, v.type) for v in mine] == [(v.name, v.type) for v in its]
