"""Comparisons of runs: what is slower, what cannot be told, and what was never measured. No GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click.testing
import numpy as np
import pytest

from pykernels.bench.clock import Timing
from pykernels.bench.compare import Comparison, compare
from pykernels.bench.intervals import Interval, Scatter, student, welch
from pykernels.bench.report import Report
from pykernels.cli import main
from pykernels.errors import PyKernelsError
from tests.bench.test_statistics import in_passes, readings, report, result


def pair(
    count: int, slowdown: float = 1.0, places: float = 0.004, passes: int = 5, seed: int = 0
) -> tuple[Report, Report]:
    """Two runs of so many cases, the later one slower."""
    runs = [
        [result(f"case{i}", in_passes(2 * (i + seed) + k, s, places, passes)) for i in range(count)]
        for k, s in enumerate((1e-4, slowdown * 1e-4))
    ]
    return report(*runs[0]), report(*runs[1])


def kinds(found: Comparison) -> list[str]:
    return [c.kind for c in found.changes]


# -- intervals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "freedom", "want"),
    [(0.975, 1, 12.7062), (0.975, 8, 2.30600), (0.995, 4, 4.60409), (0.99995, 8, 7.12000),
     (0.975, 30, 2.04227), (0.975, 1e6, 1.95997), (0.9995, 3, 12.92398)],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(p: float, freedom: float, want: float) -> None:
    assert student(p, freedom) == pytest.approx(want, rel=2e-6)


@pytest.mark.parametrize(("n", "m", "a", "b"), [(5, 5, 0.03, 0.03), (9, 9, 0.03, 0.1)])
def test_intervals_hold_the_ratio_as_often_as_they_say(n: int, m: int, a: float, b: float) -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(5000):  # 10,000 with both
        old, new = np.exp(rng.normal(0, a, n)), 1.3 * np.exp(rng.normal(0, b, m))
        found = welch([*map(float, old)], [*map(float, new)], 0.05)
        held += found.low <= 1.3 <= found.high
    assert abs(held / 5000 - 0.95) < 0.015


def test_one_time_has_no_interval() -> None:
    assert welch([1.0], [2.0, 2.0], 0.05) == Interval(2.0, 0.0, float("inf"))
    assert welch([1.0, 1.0], [2.0, 2.0], 0.05) == Interval(2.0, 2.0, 2.0)
    assert Scatter.of([[1.0], [2.0]]).freedom == 0


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [0.001, 0.004, 0.03])
@pytest.mark.parametrize("passes", [3, 5])
def test_the_same_code_is_not_slower(places: float, passes: int) -> None:
    found = compare(*pair(500, places=places, passes=passes))
    assert found.exit_code in (0, 4) and not found.of("slower")


def test_quiet_runs_of_the_same_code_pass() -> None:
    found = compare(*pair(100, places=0.003))
    assert found.exit_code == 0 and len(found.of("the same")) >= 99


def test_a_slower_case_fails() -> None:
    found = compare(*pair(20, 1.3))
    assert found.exit_code == 1 and kinds(found) == ["slower"] * 20
    assert all(c.interval and c.interval.low > 1.2 for c in found.changes)


def test_below_the_threshold_it_is_said_and_no_failure() -> None:
    found = compare(*pair(5, 1.06, places=0.001))
    assert found.exit_code == 0 and kinds(found) == ["slightly slower"] * 5
    assert compare(*pair(5, 1.06, places=0.001), threshold=0.05).exit_code == 1
    assert kinds(compare(*pair(5, 0.8))) == ["faster"] * 5


def test_noise_hides_nothing() -> None:
    """A true slowdown that the runs cannot show is no "the same"."""
    found = compare(*pair(10, 1.3, places=0.2, passes=3))
    assert found.exit_code in (1, 4) and not found.of("the same", "slightly slower", "faster")


def test_single_passes_are_allowed_the_floor() -> None:
    a, b = readings(1, 1e-4, 0.001), readings(2, 1.025e-4, 0.001)
    assert kinds(compare(report(result("x", a)), report(result("x", b)))) == ["the same"]


def test_a_baseline_says_what_differs_from_run_to_run() -> None:
    """Each run is shifted as a whole, which its passes cannot show."""
    rng = np.random.default_rng(0)

    def run(slowdown: float = 1.0) -> Report:
        shifts = np.exp(rng.normal(0, 0.03, 40))
        return report(*[
            result(f"case{i}", in_passes(int(rng.integers(1 << 30)), 1e-4 * slowdown * s, 0.001))
            for i, s in enumerate(shifts)
        ])  # fmt: skip

    runs = [run() for _ in range(4)]
    alone = compare(runs[0], runs[3])
    assert alone.of("slower", "slightly slower", "faster")
    known = compare(runs[0], runs[3], baseline=runs[1:3])
    assert not known.of("slower", "slightly slower", "faster")
    assert "as 3 runs of the same code differ" in "\n".join(known.lines())
    assert compare(runs[0], run(1.5), baseline=runs[1:3]).exit_code == 1
    with pytest.raises(PyKernelsError, match="a baseline needs two runs"):
        compare(runs[0], runs[1], baseline=runs[2:3])


# -- what was not measured ------------------------------------------------------------------------


def test_what_was_not_measured_never_passes() -> None:
    a, b = pair(1)
    for spoil in ("failed", "missing", "cold", "interrupted", "no common clock"):
        old, new = pair(1)
        [r] = new.results
        if spoil == "cold":
            r.timing = replace(r.timing, cold="the device ran 3 times slower")
        elif spoil == "no common clock":
            r.timing = replace(r.timing, clock="wall", loops=())
        else:
            new.results = []
        if spoil == "failed":
            new.failed["softmax case0 wgpu"] = "3 of 4 elements are wrong"
        if spoil == "interrupted":
            new.meta["note"] = "interrupted"
        found = compare(old, new)
        assert (kinds(found), found.exit_code) == ([spoil], 3), spoil
        assert any(line.startswith(f"{spoil}: softmax case0") for line in found.lines())
    assert compare(a, b).exit_code == 0


def test_what_fails_wins_over_what_is_slower() -> None:
    a, b = pair(3, 1.5)
    b.failed["cpy f32-4 wgpu"] = "wrong"
    found = compare(a, b)
    assert found.exit_code == 3 and kinds(found)[0] == "failed"
    assert len(found.of("slower")) == 3


def test_new_cases_are_listed_and_do_not_fail() -> None:
    a, b = pair(2)
    a.results = a.results[:1]
    found = compare(a, b)
    assert sorted(kinds(found)) == ["new", "the same"] and found.exit_code == 0


def test_choices_limit_both_sides() -> None:
    a, b = pair(2)
    b.results = b.results[:1]
    assert compare(a, b).exit_code == 3
    assert compare(a, b, wanted=lambda kernel, what: "case0" in what).exit_code == 0


def test_unsteady_times_are_undecided() -> None:
    a, b = pair(1)
    b.results[0].timing = replace(b.results[0].timing, steady=False)
    found = compare(a, b)
    assert kinds(found) == ["unsteady"] and found.exit_code == 4


def test_a_run_beside_itself() -> None:
    a, b = pair(3, 2.0)
    a.meta["run"] = b.meta["run"] = "0123"
    found = compare(a, b)
    assert found.exit_code == 0 and [*found.lines()] == ["the same run"]


# -- clocks ---------------------------------------------------------------------------------------


def test_without_a_gpu_clock_calls_are_compared() -> None:
    a, b = pair(1, 1.5)
    for run in (a, b):
        [r] = run.results
        r.timing = replace(r.timing, clock="wall", loops=tuple(r.timing.pass_means()))
    [change] = compare(a, b).changes
    assert (change.clock, change.kind) == ("call", "slower")


def test_a_gpu_time_above_the_call_is_not_believed() -> None:
    """The GPU's share of a call cannot be more than the call."""
    a, b = pair(1)
    fast = tuple([0.5e-4] * 5)
    timing = a.results[0].timing
    assert timing.trusted and not replace(timing, loops=fast).trusted
    for run in (a, b):
        run.results[0].timing = replace(run.results[0].timing, loops=fast)
    [change] = compare(a, b).changes
    assert change.clock == "call" and change.kind == "the same"


# -- what is said ---------------------------------------------------------------------------------


def test_differences_of_the_runs_come_first() -> None:
    a, b = pair(1, 2.0)
    b.meta["driver"], b.meta["tuning"] = "2.0", "generic-large"
    b.meta["versions"] = {"pykernels": "1", "torch": "2"}
    a.results[0].bodies, b.results[0].bodies = ("gemm T=64",), ("gemm T=32", "splitk_reduce")
    lines = [*compare(a, b).lines()]
    assert lines[:4] == [
        "different driver: 1.0, then 2.0", "different tuning: None, then generic-large",
        "different pykernels: 0, then 1", "different torch: None, then 2",
    ]  # fmt: skip
    assert "slower" in lines[4] and "gemm T=64, then gemm T=32 + splitk_reduce" in lines[4]
    assert lines[-1] == "1 cases: 1 slower"


def test_the_command_writes_and_ends_with_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair(2, 1.5)
    a.save(tmp_path / "a.json")
    b.save(tmp_path / "b.json")

    def command(*args: str, code: int) -> str:
        names = [str(tmp_path / a) if a.endswith((".json", ".md")) else a for a in args]
        done = click.testing.CliRunner().invoke(main, ["bench", "--compare", *names])
        assert done.exit_code == code, done.output
        return done.output

    told = command("a.json", "b.json", "--markdown", "c.md", "--json", "c.json", code=1)
    assert "2 cases: 2 slower" in told
    assert "| softmax case0 (wgpu, cold) | slower | gpu |" in (tmp_path / "c.md").read_text()
    kept = json.loads((tmp_path / "c.json").read_text())
    assert kept["exit_code"] == 1 and len(kept["changes"]) == 2 and kept["changes"][0]["low"] > 1
    assert "1 cases" in command("a.json", "b.json", "softmax", "--only", "case1", code=1)
    assert command("a.json", "b.json", "--threshold", "80", code=0)
    assert "a baseline needs" in command("a.json", "b.json", "--baseline", "a.json", code=2)
    refused = command("a.json", "b.json", "--peers", "numpy", "--shape", "4", code=2)
    assert "--compare of two files cannot be combined with --shape, --peers" in refused
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error title=pykernels bench::slower" in command("a.json", "b.json", code=1)


def test_older_files_are_read(tmp_path: Path) -> None:
    a, _ = pair(1)
    a.results[0].timing = Timing(a.results[0].timing.rounds, 10, "wall", 0.3, blocks=5)
    a.save(tmp_path / "a.json")
    kept = json.loads((tmp_path / "a.json").read_text())
    del kept["results"][0]["bodies"]
    (tmp_path / "a.json").write_text(json.dumps(kept))
    again = Report.load(tmp_path / "a.json")
    assert again.results[0].bodies == () and compare(again, again).changes[0].clock == "call"
