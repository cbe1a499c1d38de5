"""The command line."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

import pykernels as pk
from pykernels.bench.case import kernel_of
from pykernels.bench.cases import cases
from pykernels.cli import main
from pykernels.cli._outputs import shapes
from pykernels.dtypes import DTYPES, dtype_of
from pykernels.runtime import adapters
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
    for name in ("bench", "doctor", "export", "list", "run", "show", "tune", "validate"):
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
        (["sofmax"], "there is no kernel 'sofmax': did you mean 'softmax'?"),
        (["matmul"], "there is no kernel 'matmul': did you mean 'mul_mat'?"),
        (["layernorm"], "there is no kernel 'layernorm': did you mean 'layer_norm'?"),
        (["attention"], "there is no kernel 'attention': did you mean 'flash_attn'?"),
        (["zzz"], "there is no kernel 'zzz'; there are abs, acos"),
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
        (
            ["softmax", "--in", "X", "--set", "scale=abc"],
            "--set scale must be a number but is 'abc'",
        ),
        (
            ["softmax", "--in", "X", "--set", "scale=true"],
            "--set scale must be a number but is True",
        ),
        (
            ["get_rows", "--in", "X", "--set", "check=1"],
            "--set check must be true or false but is 1",
        ),
        (["softmax", "--in", "X", "--out", "/nonexist/x.npy"], "there is no folder /nonexist"),
        (["softmax", "--in", "X", "--out", "/"], "--out /: that is a folder"),
        (["softmax", "--in", "X", "--out", "a", "--out", "b"], "--out b: the outputs are dst"),
        (["flash_attn", "--in", "X", "--out", "a", "--out", "lse=a"], "--out lse=a: given twice"),
        (["set_rows", "--in", "X", "--in", "X"], "set_rows needs --in dst=FILE"),
        (["cpy", "--in", "X", "--dtype", "i8"], "'i8' is int64 in numpy and int8 in WGSL"),
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
    path = tmp_path / "complex.npy"
    np.save(path, np.ones(3, np.complex64))
    text = run("run", "softmax", "--in", str(path), *ENGINE, code=2).output
    assert text.startswith("Error: ")
    assert "complex64" in text
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
    assert tables <= {"software", "swiftshader"}
    adapters._tell.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = run("doctor").output
    software = report["default_device"]["type"] == "CPU"
    assert software == (", on the CPU: no GPU was found" in text)
    assert f"tuning: {adapter['tuning']['name']} (" in text
    assert adapter["name"] in text
    assert "validator naga: " in text


def test_list_shows_the_dtypes_that_the_docs_show() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "bodies.md"
    table = page.read_text(encoding="utf-8")
    for row in json.loads(run("list", "--json").output):
        (shown,) = re.findall(rf"^\| `{row['name']}` \| .*? \| ([\w, ]+) \| `", table, re.MULTILINE)
        assert row["dtypes"] == shown


def test_python_m_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = subprocess.run(
        [sys.executable, "-m", "pykernels", "list"], capture_output=True, text=True, check=True
    )
    assert done.stdout == run("list").output
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.gpu
def test_an_output_that_cannot_be_written_is_refused_before_it_is_computed(
    x: str, dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pk, "Device", None)
    run("run", "softmax", "--in", x, "--out", "/nonexist/x.npy", code=2)


def test_outputs_have_the_shapes_that_follow() -> None:
    """Where a command allocates an output, it is that of the bench's cases."""
    known = set()
    for case in cases():
        if case.function is not None:
            continue
        call = getattr(pk.kernels, case.kernel)
        outputs = {a.name for a in kernel_of(case.kernel).args if a.role == "out"}
        given = {n: o.shape for n, o in case.tensors.items() if n not in outputs}
        given = {n: s for n, s in given.items() if _required(call, n)}
        found = shapes(call, given, case.args)
        want = {n: o.shape for n, o in case.tensors.items() if n in outputs}
        assert not found or found == found | want, case.id
        known |= {case.kernel} if found else set()
    assert len(known) > 140
    assert {"add", "cholesky", "conv2d", "softmax", "sort", "sum"} <= known
    assert not known & {"fill_where", "set_rows", "scatter_add", "adam_step", "resize"}


def _required(call: Any, name: str) -> bool:
    return inspect.signature(call).parameters[name].default is inspect.Parameter.empty


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    """Saves arrays, and returns the options that name their files in order."""

    def save(*shapes: tuple[int, ...]) -> list[str]:
        files = [tmp_path / f"{i}.npy" for i in range(len(shapes))]
        for file, shape in zip(files, shapes, strict=True):
            np.save(file, np.random.default_rng(len(shape)).standard_normal(shape).astype("f4"))
        return [f"--in={file}" for file in files]

    return save


@pytest.mark.gpu
def test_run_finds_the_shape_of_the_output(saved: Any, tmp_path: Path, dev: pk.Device) -> None:
    for kernel, given, args, made in (
        ("mul_mat", [(5, 7), (3, 7)], [], (3, 5)),
        ("conv2d", [(1, 3, 8, 9), (4, 3, 3, 3)], ["--set", "padding=(1, 1, 0, 0)"], (1, 4, 8, 7)),
        ("add", [(4, 1), (1, 3)], [], (4, 3)),
    ):
        out = tmp_path / "out.npy"
        result = run("run", kernel, *saved(*given), *args, "--out", str(out), "--check", *ENGINE)
        assert "passed" in result.output and np.load(out).shape == made
    text = run("run", "mul_mat", *saved((5, 7), (3, 8)), *ENGINE, code=2).output
    assert "must agree in their last axis, k" in text


@pytest.mark.gpu
def test_run_writes_several_outputs(saved: Any, tmp_path: Path, dev: pk.Device) -> None:
    q, k, v = (1, 4, 6, 8), (1, 2, 9, 8), (1, 2, 9, 8)
    o, lse = tmp_path / "o.npy", tmp_path / "l.npy"
    result = run(
        "run", "flash_attn", *saved(q, k, v), "--out", str(o), "--out", str(lse), "--check", *ENGINE
    )  # fmt: skip
    assert "check of dst: " in result.output and "check of lse: there is no" in result.output
    assert np.load(o).shape == q and np.load(lse).shape == q[:-1]
    given = [*saved(q, k, v), f"--in={o}", f"--in={lse}", f"--in={o}"]
    outs = [f"--out={n}={tmp_path / n}.npy" for n in ("dv", "dk", "dq")]
    assert (
        run("run", "flash_attn_backward", *given, *outs, "--check", *ENGINE).output.count("passed")
        == 3
    )
    assert [np.load(tmp_path / f"{n}.npy").shape for n in ("dq", "dk", "dv")] == [q, k, v]
    run("run", "flash_attn", *saved(q, k, v), "--out", str(o), *ENGINE)  # lse may stay away


def test_files_that_claim_too_much_are_one_line(tmp_path: Path) -> None:
    claim = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    for name, size in (("short.npy", 200), ("sparse.npy", 1 << 42)):
        with (tmp_path / name).open("wb") as file:
            np.lib.format.write_array_header_1_0(file, claim)
            file.truncate(size)
        text = run("run", "softmax", "--in", str(tmp_path / name), code=2).output
        assert text.count("\n") == 1 and f"{name} cannot be read" in text
    np.savez(tmp_path / "z.npz", a=np.ones(3))
    assert "no .npy file" in run("run", "softmax", "--in", str(tmp_path / "z.npz"), code=2).output


def test_one_set_of_dtype_spellings() -> None:
    spelled = dict.fromkeys(DTYPES, "") | {
        "float32": "f32 f4", "float16": "f16 f2", "bfloat16": "bf16", "int32": "i32 i4",
        "uint32": "u32 u4", "int16": "i16 i2", "uint16": "u16 u2", "int8": "i1", "uint8": "u1",
    }  # fmt: skip
    for name, short in spelled.items():
        assert {dtype_of(s).name for s in (name, *short.split())} == {name}
    for short, readings in (("i8", "int64 in numpy and int8"), ("u8", "uint64 in numpy and uint8")):
        with pytest.raises(pk.DTypeError, match=f"'{short}' is {readings} in WGSL"):
            dtype_of(short)
    with pytest.raises(pk.DTypeError, match="must be one of float32, float16, "):
        dtype_of("f8")


def test_commands_take_all_spellings(tmp_path: Path) -> None:
    for short in ("f2", "f16", "float16"):
        text = run("show", "softmax", "--dtype", short).stdout
        assert text.startswith("// softmax T=f16 ")
        shape = f"cpy src={short}[8] dst=f32[8]"
        run("export", str(tmp_path / short), "cpy", "--dtype", short, "--shape", shape)
        written = json.loads((tmp_path / short / "manifest.json").read_text())
        assert "src=float16[8]:1 " in str(written["kernels"]["cpy"]["plans"])
    for args in (
        ["show", "cpy", "--dtype", "u8"],
        ["export", str(tmp_path), "--dtype", "u8"],
        ["export", str(tmp_path), "cpy", "--shape", "cpy src=u8[4] dst=f32[4]"],
    ):
        assert "'u8' is uint64 in numpy and uint8 in WGSL" in run(*args, code=2).output


@pytest.mark.gpu
def test_doctor_says_how_to_get_what_is_missing(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykernels.validate.find_naga", lambda: None)
    real = importlib.metadata.version

    def version(package: str) -> str:
        if package in ("wgpudawn", "ml_dtypes", "gguf"):
            raise importlib.metadata.PackageNotFoundError
        return real(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    text = run("doctor").output
    try:
        real("pykernels")
        pin = r"~=[\d.]+"
    except importlib.metadata.PackageNotFoundError:  # used from a folder
        pin = ""
    assert re.search(rf"missing: wgpudawn \(.*Tint.*\): pip install 'wgpudawn{pin}'", text)
    assert re.search(r"missing: ml_dtypes \(bfloat16 .*\): pip install 'ml_dtypes[^']*'", text)
    assert re.search(r"missing: gguf \(.*\): pip install 'gguf[^']*'", text)
    assert "missing: naga-cli (naga for pykernels validate; " in text


@pytest.mark.gpu
def test_a_profile_prints_its_table(dev: pk.Device) -> None:
    with dev.profile() as p:
        pk.kernels.fill(dev.empty(64), 1.0)
    assert str(p) == p.table() and str(p).startswith("kernel ")
