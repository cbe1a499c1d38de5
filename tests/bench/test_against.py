"""Two versions in alternated processes: coverage, false alarms, power, and a real run."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click.testing
import numpy as np
import pytest

import pykernels as pk
from pykernels.bench.against import (
    Measured,
    Verdict,
    against,
    level_of,
    order,
    paired,
    smallest,
)
from pykernels.bench.report import Report
from pykernels.cli import main
from tests.bench.test_statistics import in_passes, report, result

COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "")
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def simulated(
    rng: np.random.Generator, cases: int, slowdown: float, draw: Draw, batches: int = 0
) -> list[Verdict]:
    """A comparison whose processes have no time but the drawn one: with time for so many batches
    more, or without a limit."""
    names, left = [f"case{i}" for i in range(cases)], [batches]

    def measure(wanted: Sequence[str] | None, size: int) -> tuple[Measured, Measured]:
        some = wanted or names
        turns = order(9 * size, int(rng.integers(1 << 30)))
        logs = draw(rng, len(some), len(turns))
        old, new = (np.exp(logs[:, [t == side for t in turns]]) for side in ("old", "new"))
        new *= slowdown
        return (dict(zip(some, old.tolist(), strict=True)),
                dict(zip(some, new.tolist(), strict=True)))  # fmt: skip

    def more(size: int) -> bool:
        left[0] -= 1
        return left[0] >= 0

    return [*paired(measure, 0.1, more if batches else None)]


def normal(rng: np.random.Generator, cases: int, turns: int) -> np.ndarray:
    return rng.normal(0, 0.03, (cases, turns))


def heavy(rng: np.random.Generator, cases: int, turns: int) -> np.ndarray:
    """Most processes agree, some are far off."""
    return 0.02 * rng.standard_t(3, (cases, turns))


def drift(rng: np.random.Generator, cases: int, turns: int) -> np.ndarray:
    """The machine gets slower while it measures, 1 % with each process."""
    return rng.normal(0, 0.02, (cases, turns)) + 0.01 * np.arange(turns)


def shift(rng: np.random.Generator, cases: int, turns: int) -> np.ndarray:
    """All cases of a process are off together, as where another program runs beside it."""
    return rng.normal(0, 0.01, (cases, turns)) + rng.normal(0, 0.05, turns)


DIFFERENT = ("slower", "slightly slower", "faster")


def upper(alarms: int, runs: int) -> float:
    """The upper end of the one-sided 95 % interval of a rate (Wilson's)."""
    z, p = 1.645, alarms / runs
    middle, width = p + z * z / 2 / runs, z * math.sqrt(p * (1 - p) / runs + (z / 2 / runs) ** 2)
    return (middle + width) / (1 + z * z / runs)


@pytest.mark.parametrize(
    ("draw", "runs", "batches"),
    [(normal, 2000, 0), (heavy, 1000, 0), (drift, 1000, 0), (shift, 2000, 0), (normal, 500, 6)],
)  # fmt: skip
def test_same_code_is_rarely_called_different(draw: Draw, runs: int, batches: int) -> None:
    """Of all cases together: FALSE_ALARMS is 1 %."""
    rng = np.random.default_rng(7)
    alarms = sum(
        any(v.kind in DIFFERENT for v in simulated(rng, 100, 1.0, draw, batches))
        for _ in range(runs)
    )
    assert upper(alarms, runs) <= 0.015, alarms


def test_what_is_slower_is_found() -> None:
    rng = np.random.default_rng(8)
    found = [simulated(rng, 1, 1.3, normal)[0] for _ in range(200)]
    assert sum(v.kind == "slower" for v in found) >= 198 and all(v.again for v in found)
    least = [v.kind for _ in range(5) for v in simulated(rng, 100, 1.1, normal)]
    assert sum(kind in ("slower", "too noisy") for kind in least) >= 0.95 * len(least)  # no pass
    quiet = [v.kind for _ in range(20) for v in simulated(rng, 100, 1.0, normal)]
    assert quiet.count("too noisy") < 0.05 * len(quiet)


def wild(rng: np.random.Generator, cases: int, turns: int) -> np.ndarray:
    return rng.normal(0, 0.15, (cases, turns))


def test_with_time_it_measures_on_until_each_case_is_decided() -> None:
    """Processes that differ by 15 %: a batch cannot tell, many can."""
    rng = np.random.default_rng(9)
    once = [v.kind for _ in range(10) for v in simulated(rng, 10, 1.0, wild)]
    assert once.count("too noisy") >= 70
    for slowdown, want in ((1.0, "the same"), (1.3, "slower")):
        kinds = [simulated(rng, 3, slowdown, wild, 9) for _ in range(50)]
        decided = [v.kind for found in kinds for v in found]
        assert decided.count(want) >= 0.97 * len(decided), decided
    few = [simulated(rng, 1, 1.3, wild, 1)[0] for _ in range(50)]
    assert {v.kind for v in few} <= {"slower", "too noisy"}


def test_only_what_is_undecided_is_measured_on() -> None:
    asked: list[tuple[list[str] | None, int]] = []
    rng = np.random.default_rng(3)

    def measure(wanted: Sequence[str] | None, size: int) -> tuple[Measured, Measured]:
        asked.append((wanted and [*wanted], size))
        spread = {"quiet": 0.001, "noisy": 0.4}
        old, new = ({c: np.exp(rng.normal(0, d, 9 * size)).tolist() for c, d in spread.items()}
                    for _ in range(2))  # fmt: skip
        return old, new

    found = {v.case: v for v in paired(measure, 0.1, lambda size: size <= 256)}
    assert found["quiet"].kind == "the same" and found["noisy"].kind == "the same"
    assert asked[0] == (None, 1) and len(asked) > 2
    assert asked[1:] == [(["noisy"], 1 << i) for i in range(len(asked) - 1)]


def test_looks_share_the_false_alarms() -> None:
    looks = [level_of(100, look) ** 2 * 100 for look in range(1000)]
    assert 0.0099 < sum(looks) < 0.01 and level_of(100) ** 2 * 100 == pytest.approx(0.01)


def test_the_smallest_change_is_what_is_found() -> None:
    rng, level = np.random.default_rng(10), level_of(1)
    shown = np.median([smallest(*np.exp(rng.normal(0, 0.03, (2, 9))), level) for _ in range(200)])
    assert 0.02 < shown < 0.1
    many = [smallest(*np.exp(rng.normal(0, 0.03, (2, 9))), level_of(100)) for _ in range(200)]
    assert np.quantile(many, 0.9) < 0.1  # what the number of processes is chosen for
    assert smallest([1.0], [1.0, 1.1], level) == float("inf")


def test_a_case_without_a_time_is_missing() -> None:
    found = [*paired(lambda *_: ({"a": [1.0, 1.0], "b": [1.0, 1.0]}, {"b": [1.0, 1.0]}), 0.1)]
    assert [(v.case, v.kind) for v in found] == [("a", "missing"), ("b", "the same")]


def test_what_was_not_measured_by_both_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gone, cold, wrong, by another clock: each fails. What only the new version has does not."""
    usual = in_passes(0, 1e-4)

    def run(self: object, side: str, kernels: Sequence[str]) -> Report:
        found = [result("same", usual)]
        if side == "old":
            found += [result(c, usual) for c in ("gone", "cold", "clock", "broken")]
            failed = {"softmax added wgpu": "no such attribute"}
        else:
            found += [result("cold", replace(usual, cold="the clock was down"))]
            found += [result("clock", replace(usual, clock="wall")), result("added", usual)]
            failed = {"softmax broken wgpu": "3 of 4 elements are wrong"}
        return replace(report(*found), failed=failed)

    monkeypatch.setattr("pykernels.bench.against._Processes._run", run)
    found = against("old", [], [], processes=2, threshold=0.1, seed=0, say=lambda line: None)
    kinds = {c.what.split()[1]: (c.kind, c.note) for c in found.changes}
    assert {k: kind for k, (kind, _) in kinds.items()} == {
        "same": "the same", "gone": "missing", "cold": "cold", "clock": "no common clock",
        "broken": "failed", "added": "new",
    }  # fmt: skip
    assert kinds["added"][1] == "the old version has none: no such attribute"
    assert kinds["broken"][1] == "3 of 4 elements are wrong (in the new version)"
    assert len(found.changes) == 6
    assert found.exit_code == 3 and found.changes[-1].kind in ("new", "the same")


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
    assert done.exit_code == 2 and f"--against cannot be combined with {option}" in done.output


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_virtual_environment_is_its_interpreter(tmp_path: Path) -> None:
    python = tmp_path / "old" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho no pykernels here >&2\nexit 7\n")
    python.chmod(0o755)
    args = ["bench", "fill", "--against", str(tmp_path / "old"), "--processes", "2", "--time", "9"]
    seed = next(i for i in range(99) if order(2, i)[0] == "old")
    done = click.testing.CliRunner().invoke(main, [*args, "--seed", str(seed)])
    assert done.exit_code == 2, done.output
    assert f"the bench of {python} ended with exit code 7: no pykernels here" in done.output


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
