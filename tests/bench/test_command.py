"""`pykernels bench` and `pytest bench`: what they list, write, compare and refuse."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

import pykernels as pk
from pykernels.bench.cases import cases
from pykernels.bench.run import Runner
from pykernels.cli import main
from pykernels.cli._measuring import _in_turn

ROOT = Path(__file__).parents[2]
ENGINE = os.environ.get("PYKERNELS_TEST_COLUMN", "").partition("-")[0] or "wgpu"
gpu = pytest.mark.gpu


def ended_with_a_verdict(done: click.testing.Result) -> bool:
    """A device that others use may be slower, too noisy or cold."""
    cold = re.search(r"^ *cold: ", done.output, re.MULTILINE) is not None
    return done.exit_code in (0, 1, 4) or (done.exit_code == 3 and cold)


def command(*args: str, code: int = 0) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, ["bench", *args])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_command_lists_cases() -> None:
    lines = command("--list", "softmax").output.splitlines()
    assert any("BERT base" in line for line in lines)
    assert all(line.startswith("softmax ") for line in lines)
    assert command("--list", "--shape", "3x4", "--dtype", "float16", "fill").output == (
        "fill f16-3x4\n"
    )
    assert "there is no kernel" in command("paint", code=2).output
    assert "--shape must be" in command("fill", "--shape", "3-4", code=2).output
    assert "no case is left" in command("fill", "--only", "nothing", code=2).output
    assert "takes no problem" in command("mul_mat", "--shape", "3", code=2).output


@gpu
def test_command_measures_saves_and_compares(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = dev.info["name"]
    monkeypatch.setenv("COLUMNS", "200")
    common = ["--device", name, "--engine", ENGINE, "--warmup", "0", "--rounds", "3"]
    args = ["softmax", "fill", "--shape", "9x40", "--dtype", "float32", *common]
    done = command(*args, "--peers", "naive,numpy", "--save", str(tmp_path / "a"))
    assert "softmax  f32-9x40" in done.stdout and "x naive" in done.stdout
    assert {p.name for p in (tmp_path / "a").iterdir()} == {
        "results.json", "results.md", "results.svg",
    }  # fmt: skip
    path = tmp_path / "a" / "results.json"
    data = json.loads(path.read_text())
    assert data["meta"]["adapter"] == name and data["meta"]["engines"].keys() == {ENGINE}
    for r in data["results"]:
        r["timing"]["cold"] = ""  # others may use the device
    path.write_text(json.dumps(data))
    same = command("--compare", str(path), str(path)).output
    assert same == "the same run\n"
    assert all(r["bodies"] for r in data["results"]) and data["meta"]["tuning"]
    data["meta"]["run"] = "another"
    for r in data["results"]:
        r["timing"] |= {"rounds": [4e-3, 4e-3, 4e-3], "blocks": 3, "loops": [], "steady": True}
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(data))
    steady = json.loads(json.dumps(data))
    for r in steady["results"]:
        r["timing"] |= {"rounds": [1e-3, 1e-3, 1e-3]}
    path.write_text(json.dumps(steady | {"meta": data["meta"] | {"run": "first"}}))
    assert "slower" in command("--compare", str(path), str(slow), code=1).output
    assert "no report" in command("--compare", str(path), str(tmp_path / "no.json"), code=2).output
    with monkeypatch.context() as patch:
        patch.setattr("pykernels.cli._results.can_plot", lambda: False)
        later = command("--from", str(path), "--save", str(tmp_path / "d"))
    assert {p.name for p in (tmp_path / "d").iterdir()} == {"results.json", "results.md"}
    assert "no figure without matplotlib" in later.stderr
    both = command("--from", str(path), "--from", str(slow), "--json", str(tmp_path / "c.json"))
    assert "softmax  f32-9x40" in both.stdout
    merged = json.loads((tmp_path / "c.json").read_text())["results"]
    assert [len(r["peers"]) for r in merged] == [len(r["peers"]) for r in merged if r["peers"]]


@gpu
def test_compare_measures_what_the_earlier_run_has(dev: pk.Device, tmp_path: Path) -> None:
    common = ["--device", dev.info["name"], "--engine", ENGINE, "--warmup", "0", "--rounds", "2"]
    path = str(tmp_path / "a.json")
    command("softmax", "fill", "--shape", "9x40", "--dtype", "float16", *common, "--json", path)
    again = click.testing.CliRunner().invoke(main, ["bench", "--compare", path, *common])
    assert ended_with_a_verdict(again), again.output
    assert "missing" not in again.output and "new:" not in again.output
    assert re.search("^2 cases: ", again.output, re.MULTILINE)
    one = click.testing.CliRunner().invoke(main, ["bench", "fill", "--compare", path, *common])
    assert "softmax" not in one.stdout and "1 cases: " in one.output
    assert "no case is left" in command("cpy", "--compare", path, *common, code=2).output


@gpu
def test_cases_that_numpy_cannot_check_are_left_out(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    common = ["--device", dev.info["name"], "--engine", ENGINE, "--warmup", "0", "--rounds", "2"]
    done = command(
        "cpy", "--shape", "4x4", "--dtype", "float32:bfloat16", "--dtype", "float32", *common
    )
    assert "1 cases of bfloat16 are left out, without ml_dtypes" in done.stderr
    assert "f32-4x4" in done.stdout and "bf16" not in done.stdout


@gpu
def test_a_choice_of_the_plan_is_timed_beside_its_own(dev: pk.Device) -> None:
    common = ["--device", dev.info["name"], "--engine", ENGINE, "--warmup", "0", "--rounds", "3"]
    args = ["mul_mat", "--shape", "40x48x64", "--parts", "--alternate", "2", *common]
    done = command(*args, "--config", "body=gemm_tile splits=2", "--config", "mul_mat/32")
    rows = [line.split() for line in done.stdout.splitlines() if "f32-40x48x64" in line]
    assert {"f32-40x48x64-body=gemm_tile_splits=2", "f32-40x48x64-mul_mat/32"} <= {
        cell for row in rows for cell in row
    }
    assert "parts of mul_mat f32-40x48x64: " in done.stdout
    assert "gemm_tile" in next(x for x in done.stdout.splitlines() if "splits=2: " in x)
    wrong = command("mul_mat", "--shape", "4x4x4", "--config", "wings=2", *common, code=2)
    assert "--config: [force] a choice of mul_mat has the fields" in wrong.output
    wrong = command("mul_mat", "--shape", "4x4x4", "--config", "mul_mat/65", *common, code=2)
    assert "body of mul_mat must be one of gemv, mul_mat/32, mul_mat/64, " in wrong.output


def test_a_family_is_its_kernels() -> None:
    by_option = command("--list", "--family", "fill").output
    kernels = {line.split()[0] for line in by_option.splitlines()}
    assert kernels == {"fill", "fill_where", "memset", "arange"}
    # A bare name is a kernel where there is one.
    assert {x.split()[0] for x in command("--list", "fill").output.splitlines()} == {"fill"}
    assert "mul_mat_i8" in command("--list", "matmul").output
    assert "there is no family 'paint'" in command("--family", "paint", code=2).output


@gpu
def test_an_interrupted_run_shows_what_there_is(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Runner, cases: Any, *rest: Any) -> None:
        self.report.results += self.case(self.devices[0], next(iter(cases)), {})
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "run", stop)
    common = ["--device", dev.info["name"], "--engine", ENGINE, "--warmup", "0", "--rounds", "3"]
    done = command(
        "fill", "memset", "--edge", "32", "--json", str(tmp_path / "a.json"), *common, code=130
    )
    assert "\ninterrupted\n" in done.stdout
    assert [r["kernel"] for r in json.loads((tmp_path / "a.json").read_text())["results"]] == [
        "fill"
    ]


def test_a_limited_run_takes_kernels_in_turn() -> None:
    some = list(cases(edge=32))
    found = [c.kernel for c in _in_turn(some)]
    kinds = set(found)
    assert len(found) == len(some) and set(found[: len(kinds)]) == kinds


@gpu
@pytest.mark.usefixtures("dev")
def test_benches_run_under_pytest_benchmark(dev: pk.Device, tmp_path: Path) -> None:
    saved = tmp_path / "b.json"
    # Under xdist pytest-benchmark would measure nothing.
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "bench/bench_kernels.py", "-k", "fill-f32-32", "-q",
            "--cache", "hot",  # twice the last cache of a server takes seconds to fill
            "-p", "no:cacheprovider", "--engine", ENGINE, "--adapter", dev.info["name"],
            f"--benchmark-json={saved}",
        ],
        cwd=ROOT, capture_output=True, text=True, env=alone | {"PYKERNELS_BENCH_EDGE": "32"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(saved.read_text())["benchmarks"]
    assert found and all(b["group"] == "fill" for b in found)
    info = found[0]["extra_info"]
    assert info["kernel"] == "fill" and info["engine"] == ENGINE and info["bytes"] > 0
    assert {"variant", "shape", "dtype", "GB/s", "adapter", "driver", "versions"} <= set(info)
    assert found[0]["stats"]["median"] > 0
