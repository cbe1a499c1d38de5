"""Two versions in alternated processes: coverage, false alarms, power, and a real run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click.testing
import numpy as np
import pytest

import pykernels as pk
from pykernels.bench.against import Measured, Verdict, level_of, order, paired, smallest
from pykernels.cli import main

COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "")
Draw = Callable[[np.random.Generator, int], np.ndarray]


def simulated(
    rng: np.random.Generator, cases: int, slowdown: float, draw: Draw, processes: int = 9
) -> list[Verdict]:
    """A comparison whose processes have no time but the drawn one."""
    names = [f"case{i}" for i in range(cases)]

    def measure(wanted: Sequence[str] | None) -> tuple[Measured, Measured]:
        sides = []
        for factor in (1.0, slowdown):
            logs = draw(rng, processes * len(wanted or names)).reshape(-1, processes)
            times = factor * np.exp(logs)
            sides.append({n: [*map(float, t)] for n, t in zip(wanted or names, times, strict=True)})
        return sides[0], sides[1]

    return [*paired(measure, 0.1)]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(0, 0.03, n)


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    """Most processes agree, some are far off."""
    return 0.02 * rng.standard_t(3, n)


@pytest.mark.parametrize("draw", [normal, heavy])
def test_same_code_is_rarely_called_different(draw: Draw) -> None:
    """Of all cases together: FALSE_ALARMS is 1 %."""
    rng, alarms, runs = np.random.default_rng(7), 0, 300
    for _ in range(runs):
        found = simulated(rng, 20, 1.0, draw)
        alarms += any(v.kind in ("slower", "slightly slower", "faster") for v in found)
    assert alarms <= 0.015 * runs


def test_what_is_slower_is_found() -> None:
    rng = np.random.default_rng(8)
    found = [simulated(rng, 1, 1.3, normal)[0] for _ in range(200)]
    assert sum(v.kind == "slower" for v in found) >= 198 and all(v.again for v in found)
    quiet = [v.kind for _ in range(20) for v in simulated(rng, 100, 1.0, normal)]
    assert quiet.count("too noisy") < 0.05 * len(quiet)


def test_a_shift_of_whole_processes_is_noise() -> None:
    """All cases of a process are off together, as where another program runs beside it."""
    rng, alarms = np.random.default_rng(9), 0

    def measure(wanted: Sequence[str] | None) -> tuple[Measured, Measured]:
        names = wanted or [f"case{i}" for i in range(20)]
        sides = []
        for _ in range(2):
            shift = rng.normal(0, 0.05, 9)
            own = np.exp(shift + rng.normal(0, 0.01, (len(names), 9)))
            sides.append({n: [*map(float, t)] for n, t in zip(names, own, strict=True)})
        return sides[0], sides[1]

    for _ in range(200):
        alarms += any(v.kind in ("slower", "faster") for v in paired(measure, 0.1))
    assert alarms <= 3


def test_the_smallest_change_is_what_is_found() -> None:
    rng, level = np.random.default_rng(10), level_of(1)
    shown = np.median([smallest(*np.exp(rng.normal(0, 0.03, (2, 9))), level) for _ in range(200)])
    assert 0.02 < shown < 0.1
    assert smallest([1.0], [1.0, 1.1], level) == float("inf")


def test_a_case_without_a_time_is_missing() -> None:
    found = [*paired(lambda _: ({"a": [1.0, 1.0], "b": [1.0, 1.0]}, {"b": [1.0, 1.0]}), 0.1)]
    assert [(v.case, v.kind) for v in found] == [("a", "missing"), ("b", "the same")]


def test_the_order_is_drawn_in_pairs() -> None:
    turns = order(50, 3)
    assert turns == order(50, 3) != order(50, 4)
    assert all({turns[i], turns[i + 1]} == {"old", "new"} for i in range(0, 100, 2))
    assert 10 < sum(turns[i] == "old" for i in range(0, 100, 2)) < 40


@pytest.mark.parametrize(
    "ignored",
    ["--compare a.json", "--config body=gemv", "--peers numpy", "--parts", "--list", "--save d",
     "--alternate 2", "--passes 3", "--from a.json", "--plot a.svg", "--baseline a.json"],
)  # fmt: skip
def test_what_is_not_passed_on_is_refused(ignored: str) -> None:
    args = ["bench", "fill", "--against", "/no/python", *ignored.split()]
    done = click.testing.CliRunner().invoke(main, args)
    option = ignored.partition(" ")[0]
    assert done.exit_code == 2 and f"--against does not go with {option}" in done.output


@pytest.mark.gpu
@pytest.mark.skipif(COLUMN not in ("", "wgpu-lavapipe"), reason="what processes do is no driver's")
def test_the_command_runs_both_versions(dev: pk.Device, tmp_path: Path) -> None:
    args = ["bench", "fill", "--shape", "64x64", "--device", dev.info["name"], "--warmup", "0",
            "--rounds", "3", "--engine", dev.engine]  # fmt: skip
    path = tmp_path / "c.json"
    done = click.testing.CliRunner().invoke(
        main, [*args, "--against", sys.executable, "--processes", "2", "--json", str(path)]
    )
    assert done.exit_code in (0, 1, 4), done.output
    assert "2 processes of each version" in done.output and "process 4 of 4" in done.output
    [change] = json.loads(path.read_text())["changes"]
    assert change["what"].startswith("fill f32-64x64") and change["before"] > 0
    done = click.testing.CliRunner().invoke(main, [*args, "--against", "/no/python"])
    assert done.exit_code == 2 and "/no/python does not run" in done.output


@pytest.mark.gpu
@pytest.mark.skipif(COLUMN not in ("", "wgpu-lavapipe"), reason="what processes do is no driver's")
def test_pairs_are_counted(dev: pk.Device) -> None:
    """The command of the proof runs; what it finds here, on a busy machine, says nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.pairs", "--pairs", "1", "--slower", "--processes", "2",
         "--rounds", "2", "--warmup", "0", "--device", dev.info["name"]],
        cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert re.fullmatch(r"1 ended with [0-4]", done.stdout.splitlines()[-1]), done.stdout
    assert "ended with 2" not in done.stdout and "ended with 3" not in done.stdout, done.stdout
