"""`python examples/onnx_model.py`, as the guide shows it, and what counts as different."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_walker import checking
from onnx_walker.fusion import fuse
from onnx_walker.graph import ModelError
from onnx_walker.reading import input_shapes, load

import pykernels as pk
from tests.models.conftest import ROOT

GUIDE = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ {4}python examples/onnx_model.py (.*)$", GUIDE, re.MULTILINE)


def network() -> onnx.ModelProto:
    """A residual block with batch norms, whose image has open dimensions, and a gate."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((4, 3, 3, 3)), "w2": rng.standard_normal((4, 4, 1, 1)),
        "s": rng.uniform(0.5, 1.5, 4), "b": rng.standard_normal(4), "m": rng.standard_normal(4),
        "v": rng.uniform(0.5, 1.5, 4), "two": np.array(2.0),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "s", "b", "m", "v"], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"]),
        helper.make_node("Mul", ["c2", "two"], ["c3"]),
        helper.make_node("Add", ["c3", "r1"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["gate"]),
        helper.make_node("Mul", ["sum", "gate"], ["y"]),
        helper.make_node("Shape", ["y"], ["size"]),
    ]
    described = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "block", [described("x", 1, ["n", 3, "h", "w"])],
        [described("y", 1, None), described("size", 7, [4])],
        [numpy_helper.from_array(a.astype("f4"), n) for n, a in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", 17)], ir_version=9)


def test_constants_and_chains_are_folded() -> None:
    fused = fuse(load(network(), {"x": (1, 3, 8, 6)}))
    assert [n.op for n in fused.nodes] == ["Conv", "Conv"]
    assert [n.attributes["activation"] for n in fused.nodes] == ["relu", "silu"]
    assert fused.nodes[1].inputs[3] == fused.nodes[0].outputs[0]
    assert fused.constants[fused.outputs["size"]].tolist() == [1, 4, 8, 6]


def test_open_dimensions() -> None:
    assert input_shapes(network(), {}) == {"x": (1, 3, 224, 224)}
    with pytest.raises(ModelError, match=r"input x has shape \['n', 3, 'h', 'w'\], not \[1, 4"):
        input_shapes(network(), {"x": (1, 4, 8, 8)})
    with pytest.raises(ModelError, match="there is no input z: inputs are x"):
        input_shapes(network(), {"z": (1,)})


def test_what_is_different() -> None:
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    rough, one = x * (1 + np.float32(2e-4)), x.copy()
    one[5] += 2e-3
    assert checking.difference("x", "", x * (1 + np.float32(1e-5)), x).fits
    for wrong in (rough, one, x[:5], np.where(x == 1, np.nan, x), np.full(64, np.inf, "f4")):
        assert not checking.difference("x", "", wrong, x).fits
    assert not checking.difference("x", "", np.arange(3), np.array([0, 1, 3])).fits


def run(monkeypatch: pytest.MonkeyPatch, command: str) -> object:
    """The exit code, or what it says."""
    monkeypatch.setattr(sys, "argv", ["onnx_model.py", *shlex.split(command)])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "examples" / "onnx_model.py"), run_name="__main__")
    return end.value.code


@pytest.fixture
def folder(dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With files of the guide's names."""
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one driver is enough")
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "MODEL.onnx")
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    return tmp_path


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_the_guides_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(COMMANDS) > 3
    for command in COMMANDS:
        assert run(monkeypatch, command) == 0, command
    told = capsys.readouterr().out
    assert "9 nodes, 8 without constants, 2 steps" in told
    assert "of the largest" in told
    assert "kernel" in told


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_the_guides_python() -> None:
    code = GUIDE[GUIDE.index("    from onnx_walker") :].partition("\n\n## ")[0]
    names = {"pk": pk, "image": np.zeros((1, 3, 32, 64), np.float32)}
    exec(textwrap.dedent(code), names)
    outputs: Any = names["outputs"]
    assert outputs["y"].shape == (1, 4, 32, 64)


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_it_fails_where_outputs_differ_or_operations_are_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checking, "NORM", -1.0)
    for option in ("--compare", "--trace"):
        assert run(monkeypatch, f"MODEL.onnx --shape x=1,3,8,8 {option}") == 1
        assert "TOO LARGE" in capsys.readouterr().out
    model = network()
    model.graph.node.append(helper.make_node("Det", ["y"], ["d"]))
    model.graph.output.append(helper.make_tensor_value_info("d", 1, None))
    onnx.save(model, "other.onnx")
    assert run(monkeypatch, "other.onnx --shape x=1,3,8,8") == "missing operations: Det"
    assert run(monkeypatch, "MODEL.onnx --shape x") == "'x': write NAME=VALUE"
    assert (
        run(monkeypatch, "MODEL.onnx --input x=there.npy") == "there.npy is no file and no number"
    )
