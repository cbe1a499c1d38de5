"""The command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

import pykernels as pk
from pykernels.cli import main
from pykernels.validate import find_naga

COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "").partition("-")[0]
ENGINE = ["--engine", COLUMN] if COLUMN else []


def run(*args: str, code: int = 0) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, args)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_help_lists_the_commands() -> None:
    text = run("--help").output
    for name in ("bench", "doctor", "list", "run", "show"):
        assert f"\n  {name} " in text
        assert "Usage:" in run(name, "--help").output


def test_unknown_command_is_wrong_use() -> None:
    assert "No such command 'paint'" in run("paint", code=2).output


def test_list_has_every_kernel() -> None:
    text = run("list").output
    for name in pk.kernels.__all__:
        assert f"\n{name} " in f"\n{text}"
    rows = json.loads(run("list", "--json").output)
    assert [r["name"] for r in rows] == sorted(pk.kernels.__all__)
    assert all(r["variants"] > 0 and r["doc"] for r in rows)


def test_show_chooses_a_variant() -> None:
    result = run("show", "softmax", "--dtype", "float16", "--axis", "VEC=4", "--axis", "mode=rw")
    assert result.stdout.startswith("// softmax T=f16 ")
    assert "enable f16;" in result.stdout
    assert "array<vec4<f16>>" in result.stdout
    assert "more variants match" in result.stderr
    names = run("show", "cpy", "--body", "cpy_tile", "--variants").output.splitlines()
    assert names
    assert all(n.startswith("cpy_tile ") for n in names)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["sofmax"], "there is no kernel 'sofmax'; there are "),
        (["softmax", "--dtype", "int8"], "no variant of softmax matches; its axes are softmax: "),
        (["softmax", "--axis", "VEC=3"], "no variant of softmax matches"),
        (["softmax", "--axis", "VEC"], "--axis must be NAME=VALUE"),
        (["softmax", "--body", "cpy"], "softmax has no body 'cpy'"),
        (["softmax", "--to", "ptx"], "'ptx' is not one of"),
    ],
)
def test_show_refuses(args: list[str], message: str) -> None:
    assert message in run("show", *args, code=2).output


@pytest.mark.parametrize(
    ("to", "start"),
    [
        ("spv", b"\x03\x02\x23\x07"),
        ("msl", b"// language: metal"),
        ("hlsl", b""),
        ("glsl", b"#version"),
    ],
)
def test_show_translates(to: str, start: bytes, tmp_path: Path) -> None:
    if find_naga() is None:
        pytest.skip("needs naga-cli")
    out = tmp_path / "shader"
    run("show", "memset", "--to", to, "-o", str(out))
    data = out.read_bytes()
    assert data.startswith(start)
    assert len(data) > 300
    assert run("show", "memset", "--to", to).stdout_bytes == data


def test_show_says_how_to_get_naga(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykernels.validate.find_naga", lambda: None)
    text = run("show", "memset", "--to", "msl", code=2).output
    assert "needs naga-cli: cargo install naga-cli" in text


def test_spirv_does_not_go_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_naga() is None:
        pytest.skip("needs naga-cli")
    monkeypatch.setattr("pykernels.cli.show._is_terminal", lambda: True)
    assert "SPIR-V is binary: give -o FILE" in run("show", "memset", "--to", "spv", code=2).output


def test_show_passes_on_what_naga_says() -> None:
    if find_naga() is None:
        pytest.skip("needs naga-cli")
    text = run("show", "softmax", "--dtype", "float16", "--to", "glsl", code=2).output
    assert text.count("\n") == 1
    assert "does not translate to glsl" in text


@pytest.fixture
def x(tmp_path: Path) -> str:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((4, 6, 33)).astype("f4"))
    return str(path)


@pytest.mark.gpu
def test_run_checks_against_the_reference(x: str, tmp_path: Path, dev: pk.Device) -> None:
    mask, out = tmp_path / "mask.npy", tmp_path / "y.npy"
    np.save(mask, np.zeros((6, 33), "f2"))
    result = run(
        "run", "softmax", "--in", x, "--in", str(mask), "--out", str(out), "--set", "scale=0.5",
        "--check", *ENGINE,
    )  # fmt: skip
    assert "passed" in result.output
    e = np.exp(np.load(x).astype("f8") * 0.5)
    np.testing.assert_allclose(np.load(out), e / e.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.gpu
def test_run_fails_with_1(x: str, dev: pk.Device) -> None:
    tight = ["--check", "--rtol", "0", "--atol", "0"]
    assert "FAILED, " in run("run", "softmax", "--in", x, *tight, *ENGINE, code=1).output


@pytest.mark.gpu
@pytest.mark.parametrize(
    "args",
    [
        ["cpy", "--dtype", "float16"],
        ["fill", "--set", "value=2.5"],
        ["memset", "--set", "value=7", "--set", "offset=3", "--set", "size=10"],
        ["log_softmax"],
    ],
)
def test_run_every_kind_of_kernel(args: list[str], x: str, dev: pk.Device) -> None:
    result = run("run", args[0], "--in", x, *args[1:], "--check", *ENGINE)
    assert "check: " in result.output
    assert "passed" in result.output


@pytest.mark.gpu
def test_run_takes_inputs_by_name(x: str, tmp_path: Path, dev: pk.Device) -> None:
    sinks = tmp_path / "sinks.npy"
    np.save(sinks, np.ones(4, "f4"))
    run("run", "softmax", "--in", f"sinks={sinks}", "--in", x, "--check", *ENGINE)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["sofmax"], "there is no kernel 'sofmax'"),
        (["softmax"], "softmax needs --in x=FILE"),
        (["softmax", "--in", "nowhere.npy"], "nowhere.npy cannot be read"),
        (["softmax", "--in", "X", "--set", "scal=1"], "--set scal: there are scale, max_bias"),
        (["softmax", "--in", "X", "--set", "scale"], "--set must be NAME=VALUE"),
        (["fill", "--in", "X"], "fill needs --set value=VALUE"),
        (["memset", "--in", "X", "--in", "X"], "only dst may be given"),
        (["softmax", "--in", "X", "--device", "no such thing"], "no adapter"),
        (["softmax", "--in", "X", "--engine", "vulkan"], "'vulkan' is not one of"),
    ],
)
def test_run_refuses(args: list[str], message: str, x: str) -> None:
    args = [x if a == "X" else a for a in args]
    text = run("run", *args, code=2).output
    assert message in text
    assert "Traceback" not in text


@pytest.mark.gpu
def test_run_takes_an_output_by_name(tmp_path: Path, dev: pk.Device) -> None:
    """One that keeps some of its elements, and one with a shape of its own."""
    rng = np.random.default_rng(0)
    gradient = {
        "dy": rng.random((2, 3, 4, 4), "f4"),
        "x": rng.random((2, 5, 6, 6), "f4"),
        "dst": np.zeros((3, 5, 3, 3), "f4"),
    }
    rows = {
        "src": rng.random((3, 5), "f4"),
        "index": np.array([4, 0, 2]),
        "dst": rng.random((6, 5)).astype("f2"),
    }

    def given(arrays: dict[str, np.ndarray[Any, Any]]) -> list[str]:
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        return [f"--in={name}={tmp_path / name}.npy" for name in arrays]

    for kernel, arrays in (("conv2d_backward_weight", gradient), ("set_rows", rows)):
        assert "passed" in run("run", kernel, *given(arrays), "--check", *ENGINE).output
    wrong = given(rows | {"index": np.array([9, 0, 2])})
    text = run("run", "set_rows", *wrong, *ENGINE, code=2).output
    assert "index must be in [0, 6) but is 9 at position (0,)" in text


@pytest.mark.gpu
def test_errors_are_one_line(tmp_path: Path, dev: pk.Device) -> None:
    path = tmp_path / "double.npy"
    np.save(path, np.ones(3))
    text = run("run", "softmax", "--in", str(path), *ENGINE, code=2).output
    assert text.startswith("Error: ")
    assert ".astype('float32')" in text
    assert text.count("\n") == 1


@pytest.mark.gpu
def test_doctor(dev: pk.Device) -> None:
    report = json.loads(run("doctor", "--json").stdout)
    assert report["pykernels"] == pk.__version__
    assert report["packages"]["wgpu"]
    assert set(report["engines"]) == {"wgpu", "dawn"}
    (adapter, *_) = report["adapters"]
    assert adapter["limits"]["min-storage-buffer-offset-alignment"] in (16, 32, 64, 128, 256)
    assert report["build"]["variants"] > 100
    assert report["build"]["kernels"] == len(pk.kernels.__all__)
    tables = {a["tuning"]["name"] for a in report["adapters"] if a["type"] == "CPU"}
    assert tables <= {"software"}
    text = run("doctor").output
    assert f"tuning: {adapter['tuning']['name']} (" in text
    assert adapter["name"] in text
    assert "validator naga: " in text
