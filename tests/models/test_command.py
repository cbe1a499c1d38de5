"""`pykernels onnx` and `python examples/onnx_model.py`, as the guide shows them, and what counts as
different."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.cli import main
from pykernels.onnx import ModelError, checking
from pykernels.onnx.fusion import fuse
from pykernels.onnx.reader import load
from pykernels.onnx.shapes import input_shapes
from tests.models.conftest import ROOT

GUIDE = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ {4}pykernels (onnx .*)$", GUIDE, re.MULTILINE)


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


@pytest.fixture
def folder(dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With files of the guide's names."""
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one driver is enough")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pk, "Device", lambda *_, **__: _Kept(dev))
    onnx.save(network(), "MODEL.onnx")
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    return tmp_path


class _Kept:
    """A device that its block does not close."""

    def __init__(self, dev: pk.Device) -> None:
        self.dev = dev

    def __enter__(self) -> pk.Device:
        return self.dev

    def __exit__(self, *_: object) -> None:
        pass


def run(command: str, code: int = 0) -> str:
    """What a command prints."""
    result = click.testing.CliRunner().invoke(main, shlex.split(command))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_the_guides_commands() -> None:
    assert len(COMMANDS) > 3
    told = "".join(run(command) for command in COMMANDS)
    assert "9 nodes, 2 steps" in told
    assert "of the largest" in told
    assert "kernel" in told
    assert np.load("y.npy").shape == (1, 4, 8, 8)


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_the_guides_python() -> None:
    code = GUIDE[GUIDE.index("    model = pk.onnx.load") :].partition("\n\n")[0]
    names = {"pk": pk, "image": np.zeros((1, 3, 32, 64), np.float32)}
    exec(textwrap.dedent(code), names)
    outputs: Any = names["outputs"]
    assert outputs["y"].shape == (1, 4, 32, 64)


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_the_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["onnx_model.py", "MODEL.onnx", "--shape", "x=1,3,8,8"])
    runpy.run_path(str(ROOT / "examples" / "onnx_model.py"), run_name="__main__")
    told = capsys.readouterr().out
    assert "next call" in told and told.count("of the norm") == 2


@pytest.mark.gpu
@pytest.mark.usefixtures("folder")
def test_commands_fail_where_outputs_differ_or_operations_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = network()
    model.graph.node.append(helper.make_node("Flatten", ["y"], ["f"]))
    model.graph.node.append(helper.make_node("Multinomial", ["f"], ["d"]))
    model.graph.output.append(helper.make_tensor_value_info("d", 6, None))
    onnx.save(model, "other.onnx")
    told = run("onnx run other.onnx --shape x=1,3,8,8", 2)
    assert "[Multinomial d] missing operations: Multinomial" in told
    assert "--shape x: write NAME=VALUE" in run("onnx run MODEL.onnx --shape x", 2)
    assert "there.npy is no file and no number" in run("onnx run MODEL.onnx --in x=there.npy", 2)
    assert "the outputs are y, size" in run(
        "onnx run MODEL.onnx --shape x=1,3,8,8 --out z=z.npy", 2
    )
    assert "MISSING.onnx is no file" in run("onnx run MISSING.onnx", 2)
    Path("no.onnx").write_bytes(b"this is no file of that kind")
    assert "no.onnx" in run("onnx check no.onnx", 2)
    monkeypatch.setattr(checking, "NORM", -1.0)
    for command in ("check", "trace"):
        assert "TOO LARGE" in run(f"onnx {command} MODEL.onnx --shape x=1,3,8,8", 1)


@pytest.mark.parametrize("name", ["run", "check", "trace", "profile"])
def test_without_the_package_onnx(name: str) -> None:
    code = f"""
import sys
sys.modules["onnx"] = None
from pykernels.cli import main
main(["onnx", "{name}", "missing.onnx"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Error: onnx is missing: pip install onnx\n")
