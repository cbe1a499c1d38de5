"""Plans: programs of a network in a file, and what such a file may not be."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from tests.onnx.test_decisions import detector
from tests.onnx.test_networks import Network, encoder, sentences, value

pytestmark = pytest.mark.gpu


def test_a_plan_computes_the_same(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all shapes that there were, without reading the network; weights are there once."""
    model = pk.onnx.load(encoder(), device=dev)
    want = [model(sentences(*size)) for size in ((2, 5), (1, 9))]
    model.save_plan(tmp_path / "encoder.plan")
    assert (tmp_path / "encoder.plan").stat().st_size < 1.5 * model._constants.nbytes
    monkeypatch.setattr("pykernels.onnx.reader.load", None)
    plan = pk.onnx.load_plan(tmp_path / "encoder.plan", device=dev)
    assert (plan.inputs, plan.outputs) == (model.inputs, model.outputs)
    for size, outputs in zip(((2, 5), (1, 9)), want, strict=True):
        found = plan(sentences(*size))
        for name, array in outputs.items():
            np.testing.assert_array_equal(found[name], array)
    assert len(plan) == 2
    with pytest.raises(ModelError, match=r"no program for these inputs, but for shapes .*\(2, 5\)"):
        plan(sentences(3, 3))
    with pytest.raises(ModelError, match="input mask is missing"):
        plan(ids=np.zeros((2, 5), np.int64))


def test_dtypes_options_and_values_that_programs_belong_to(dev: pk.Device, tmp_path: Path) -> None:
    """float16, a mode that is text, and sizes that are an input."""
    n = Network(kind="f2")
    y = n.add("Add", n.add("Resize", "x", "", "", "sizes", mode="nearest"), n.weight(1, 1, 2, 2))
    proto = n.finished(
        [value("x", 10, [1, 1, 1, 2]), value("sizes", 7, [4])], [value(y, 10, ["a", "b", "c", "d"])]
    )
    model = pk.onnx.load(proto, device=dev)
    given: dict[str, Any] = {"x": np.float16([[[[1, 2]]]]), "sizes": np.array([1, 1, 2, 2])}
    want = model(given)[y]
    model.save_plan(tmp_path / "sizes.plan")
    plan = pk.onnx.load_plan(tmp_path / "sizes.plan", device=dev)
    found = plan(given)[y]
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, want)
    with pytest.raises(ModelError, match="no program for these inputs"):
        plan(given | {"sizes": np.array([1, 1, 4, 4])})


def test_what_has_no_plan(dev: pk.Device, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="call the network once before"):
        pk.onnx.load(encoder(), device=dev).save_plan(tmp_path / "none.plan")
    model = pk.onnx.load(detector(), device=dev)
    model(x=np.zeros((1, 3, 32, 32), "f4"))
    with pytest.raises(ModelError, match="reads values between two programs has no plan"):
        model.save_plan(tmp_path / "none.plan")
    assert not (tmp_path / "none.plan").exists()


def test_a_damaged_plan_is_a_model_error(dev: pk.Device, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])], "one", [value("x", 1, [3])],
        [value("y", 1, [3])], [numpy_helper.from_array(np.float32([1, 2, 3]), "w")],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", 17)]
    model = pk.onnx.load(helper.make_model(graph, opset_imports=sets, ir_version=9), device=dev)
    model(x=np.ones(3, "f4"))
    good, bad = tmp_path / "good.plan", tmp_path / "bad.plan"
    model.save_plan(good)
    data = good.read_bytes()
    for cut in (0, 10, len(data) // 2, len(data) - 5):
        bad.write_bytes(data[:cut])
        with pytest.raises(ModelError, match=r"bad\.plan is no plan that can be read"):
            pk.onnx.load_plan(bad, device=dev)
    with zipfile.ZipFile(good) as file:
        table = json.loads(file.read("plan.json"))
    changes: list[tuple[str, Any]] = [
        ("format", "other"), ("graphs", [{}]), ("graphs", 3), ("inputs", [["x"]]), ("metadata", []),
    ]  # fmt: skip
    for name, wrong in changes:
        with zipfile.ZipFile(bad, "w") as file:
            file.writestr("plan.json", json.dumps({**table, name: wrong}))
        with pytest.raises(ModelError, match="is no plan"):
            pk.onnx.load_plan(bad, device=dev)
    with zipfile.ZipFile(bad, "w") as file:
        file.writestr("plan.json", json.dumps(table))
        file.writestr("constants/0", b"12345")
    with pytest.raises(ModelError, match="has 5 bytes"):
        pk.onnx.load_plan(bad, device=dev)
    with pytest.raises(ModelError, match="No such file"):
        pk.onnx.load_plan(tmp_path / "nowhere", device=dev)
