"""One's own work is checked and timed: functions, programs, texts, suites, and under pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

import pykernels as pk
from pykernels import bench
from pykernels.bench.case import CheckFailed
from pykernels.bench.clock import Effort
from pykernels.cli import main

gpu = pytest.mark.gpu
QUICK = Effort(warm=0.0, rounds=2, blocks=1, reading=0.0)
TEXT = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3<u32>) {
  if (i.x < arrayLength(&dst)) { dst[i.x] = 2.0 * x[i.x]; }
}
"""
SUITE = """
import numpy as np
from pykernels import bench

suite = bench.Suite("mine")

@suite.case(check=lambda x: 2 * x, operations=4096)
def double(dev):
    return lambda x: x * 2, dev.rand((64, 64))

@suite.case(check=lambda x: 3 * x)
def wrong(dev):
    return lambda x: x * 2, dev.rand((64, 64))
"""


def twice(x: Any) -> Any:
    return 2 * x


def measured(fn: Any, *args: Any, **options: Any) -> bench.Measurement:
    found = bench.measure(fn, *args, effort=QUICK, **options)
    assert found.call_us is not None and found.call_us > 0
    assert found.result.sets >= 2 and found.result.state in ("cold", "warm")
    return found


@gpu
def test_functions_of_layer_two_and_kernels(dev: pk.Device) -> None:
    x = dev.rand((300, 400))
    found = measured(lambda x: x * 2, x, check=twice, operations=7)
    assert found.result.counts.nbytes == 2 * x.nbytes and found.result.counts.operations == 7
    assert found.gpu_us is None or found.gpu_us > 0
    assert found.result.shape == (300, 400) and "us" in str(found)
    dst = dev.empty((300, 400))
    kernel = measured(pk.kernels.softmax, x, dst)  # by its reference and its work
    assert kernel.result.counts.operations == 6 * x.size and 0 < kernel.error < 1e-5
    two = measured(lambda x: (x + 1, x > 0), x, check=lambda x: (x + 1, x > 0))
    assert two.error < 1e-6
    assert measured(lambda x: pk.sum(x), x, check=np.sum, rtol=1e-4).error < 1.0


@gpu
def test_sets_keep_the_order_of_axes(dev: pk.Device) -> None:
    seen = set()

    def look(x: pk.Tensor) -> pk.Tensor:
        seen.add((x.strides, x.offset, id(x)))
        return x * 2

    measured(look, dev.rand((30, 40)).transpose(1, 0), check=twice)
    assert {strides for strides, _, _ in seen} == {(4, 160)} and len(seen) >= 2


@gpu
def test_captured_programs(dev: pk.Device) -> None:
    x = dev.rand((64, 64))
    with dev.capture(x=x) as program:
        y = pk.softmax(x * 2)

    def run(x: pk.Tensor) -> pk.Tensor:
        program(x=x)
        return y

    def want(x: Any) -> Any:
        e = np.exp(2.0 * x)
        return e / e.sum(-1, keepdims=True)

    assert measured(run, x, check=want).error < 1e-6


@gpu
def test_texts_of_ones_own(dev: pk.Device) -> None:
    x, dst = dev.rand(1000), dev.empty(1000)
    shader = bench.Shader(TEXT, 16)
    found = measured(shader, x, dst, check=twice)
    assert found.result.counts.nbytes == 8000
    assert found.result.timing.clock == (
        "timestamps" if "timestamp-query" in dev.features else "wall"
    )
    with pytest.raises(CheckFailed, match="of 1000 elements are wrong"):
        bench.measure(bench.Shader(TEXT, 15), x, dev.zeros(1000), check=twice, effort=QUICK)


@gpu
def test_one_wrong_element_has_no_time(dev: pk.Device) -> None:
    x = dev.rand(100)
    want = 2 * x.numpy()
    bench.measure(lambda x: x * 2, x, check=want, effort=QUICK)
    want[17] *= 1 + 1e-5
    with pytest.raises(CheckFailed, match="1 of 100 elements are wrong"):
        bench.measure(lambda x: x * 2, x, check=want, effort=QUICK)
    bench.measure(lambda x: x * 2, x, check=want, rtol=1e-4, effort=QUICK)
    bench.measure(lambda x: x * 2, x, check=want, atol=1e-4, effort=QUICK)
    whole = dev.tensor(np.arange(9, dtype="i4"))
    with pytest.raises(CheckFailed):
        bench.measure(lambda x: x + 1, whole, check=lambda x: x + (x > 7), effort=QUICK)


@gpu
def test_what_cannot_be_measured_is_said(dev: pk.Device) -> None:
    x = dev.rand(4)
    with pytest.raises(pk.ArgumentError, match="args must have a Tensor"):
        bench.measure(lambda: 1, check=twice)
    with pytest.raises(pk.ArgumentError, match="check must be a function"):
        bench.measure(lambda x: x * 2, x)
    with pytest.raises(pk.ArgumentError, match=r"check must have shape \(4,\) but has \(3,\)"):
        bench.measure(lambda x: x * 2, x, check=np.zeros(3))
    with pytest.raises(pk.ArgumentError, match="as many arrays as there are outputs"):
        bench.measure(lambda x: x * 2, x, check=lambda x: (x, x))


def command(*args: str, code: int = 0) -> str:
    done = click.testing.CliRunner().invoke(main, ["bench", *args])
    assert done.exit_code == code, done.output
    return done.output


@gpu
@pytest.mark.usefixtures("ceilings")
def test_a_suite_runs_from_the_command_line(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, path = tmp_path / "mine.py", tmp_path / "a.json"
    module.write_text(SUITE)
    common = ["--module", str(module), "--device", dev.info["name"], "--engine", dev.engine]
    assert command("--module", str(module), "--list") == "mine double\nmine wrong\n"
    assert command("mine", "--module", str(module), "--list", "--only", "wrong") == "mine wrong\n"
    assert "no case is left" in command("yours", "--module", str(module), "--list", code=2)
    quick = ["--warmup", "0", "--rounds", "3", "--passes", "2"]
    told = command(*common, *quick, "--json", str(path), code=1)
    assert "FAILED mine wrong" in told and "mine" in told and "double" in told
    kept = json.loads(path.read_text())
    [result] = kept["results"]
    assert (result["kernel"], result["id"], result["shape"]) == ("mine", "double", [64, 64])
    assert result["counts"]["operations"] == 4096 and result["share"] > 0
    monkeypatch.setenv("PYKERNELS_BENCH_CEILINGS", "0")  # measured above
    again = [*common, *quick, "--only", "double", "--compare", str(path)]
    done = click.testing.CliRunner().invoke(main, ["bench", *again])
    assert done.exit_code in (0, 1, 4) and "1 cases" in done.output, done.output
    assert "no case is left" in command(*common, "--only", "nothing", code=2)
    (tmp_path / "empty.py").write_text("x = 1")
    assert "has no pykernels.bench.Suite" in command("--module", str(tmp_path / "empty.py"), code=2)


def test_a_suite_imports_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any folder; of two modules of a name it gets the installed one, as --against needs."""
    monkeypatch.setattr("sys.path", [*sys.path])
    module = tmp_path / "mine.py"
    module.write_text(
        f"import beside_the_suite\nimport colorsys\nassert colorsys.rgb_to_hsv\n{SUITE}"
    )
    (tmp_path / "beside_the_suite.py").touch()
    (tmp_path / "colorsys.py").touch()
    assert command("--module", str(module), "--list") == "mine double\nmine wrong\n"


def test_the_fixture_is_an_entry_point_of_pytest() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\npykernels = "pykernels.bench.plugin"' in text


@gpu
def test_the_fixture_under_pytest_benchmark(dev: pk.Device, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import pykernels as pk\n"
        "def test_double(gpu_benchmark):\n"
        f"    dev = pk.Device({dev.info['name']!r}, engine={dev.engine!r})\n"
        "    found = gpu_benchmark(lambda x: x * 2, dev.rand(64), check=lambda x: x * 2)\n"
        "    assert found.call_us > 0\n"
    )
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    known = any(e.name == "pykernels" for e in entry_points(group="pytest11"))
    plugin = [] if known else ["-p", "pykernels.bench.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider",
         "--benchmark-json=b.json"],
        cwd=tmp_path, env=alone, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = json.loads((tmp_path / "b.json").read_text())["benchmarks"]
    assert found["stats"]["median"] > 0 and found["extra_info"]["call_us"] > 0


def test_a_case_that_cannot_be_made_is_an_error_of_that_case() -> None:
    suite = bench.Suite("mine")

    @suite.case()
    def later(dev: pk.Device) -> Any:
        return pk.a_function_of_the_next_version, 1  # type: ignore[attr-defined]

    [case] = suite
    with pytest.raises(pk.ArgumentError, match="mine later cannot be made: AttributeError"):
        case.make(None)  # type: ignore[arg-type]
