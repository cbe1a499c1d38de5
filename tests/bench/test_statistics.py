"""What the benchmarks make of readings: warm-up, noise, cold devices, comparison. No GPU."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pykernels.bench import clock
from pykernels.bench.case import Counts
from pykernels.bench.ceilings import Ceilings
from pykernels.bench.check import Verdict
from pykernels.bench.clock import Effort, Timing, Tracker, measure
from pykernels.bench.compare import again
from pykernels.bench.intervals import student
from pykernels.bench.merge import merge
from pykernels.bench.report import Report, Result
from pykernels.bench.table import as_csv, markdown, table
from pykernels.errors import PyKernelsError

QUICK = Effort(warm=0.03, most=0.3, rounds=30, blocks=3, reading=1e-4)
META = {
    "date": "2026-11-21 12:00", "adapter": "A GPU", "type": "DiscreteGPU", "backend": "Vulkan",
    "driver": "1.0", "engines": {"wgpu": "0.32.0"}, "checks": True, "versions": {"pykernels": "0"},
    "system": "Linux", "command": "pykernels bench",
}  # fmt: skip
CEILINGS = Ceilings(4e12, 4e12, 60e12, 120e12, 1e-6, 5e-6, {"copy, 1 vec4": 4e12})


_now = [0.0]


@pytest.fixture(autouse=True)
def time_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only while a sample runs, so that a busy machine changes nothing."""
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: _now[0]))


def passing(sample: Callable[[int], float]) -> Callable[[int], float]:
    """The sample, and its time passes."""

    def call(n: int) -> float:
        spent = sample(n)
        _now[0] += max(spent, 1e-6)
        return spent

    return call


class Gpu:
    """A device in time that does not pass: slow when idle, faster with work, with noise."""

    def __init__(self, seconds: float, noise: float = 0.0, idle: float = 1.0, ramp: float = 0.005):
        self.seconds, self.noise, self.slow, self.ramp = seconds, noise, idle, ramp
        self.rng = np.random.default_rng(0)
        self.calls: list[int] = []

    def __call__(self, n: int) -> float:
        self.calls.append(n)
        spent = n * self.seconds * self.slow * (1 + self.noise * abs(self.rng.normal()))
        self.slow = 1 + (self.slow - 1) * float(np.exp(-spent / self.ramp))
        _now[0] += float(spent)
        return float(spent)


def readings(seed: int, median: float, spread: float = 0.004, drift: float = 0.005) -> Timing:
    """A run's readings: noise of each, an offset of the run, a few outliers."""
    rng = np.random.default_rng(seed)
    rounds = median * (1 + drift * rng.uniform(-1, 1)) * (1 + spread * rng.normal(size=30))
    rounds[rng.integers(0, 30, 2)] *= 1.5
    return Timing(tuple(map(float, rounds)), 10, "timestamps", 0.3, blocks=3)


def result(name: str, timing: Timing, **changes: Any) -> Result:
    counts = Counts(1 << 30, 1 << 31, 1, 1 << 30, "softmax T=f32")
    found = Result(
        "softmax", name, "wgpu", "cold", "f32", (4096, 4096), "", "", counts,
        Verdict(1e-7, 0.1, 0, 9), 1 << 30, False, timing, 1e-4,
    )  # fmt: skip
    vars(found).update(changes)
    return found


def report(*results: Result) -> Report:
    return Report(dict(META), {"wgpu": CEILINGS}, list(results))


def tracker(gpu: Gpu) -> Tracker:
    return Tracker(lambda: gpu.slow * 1e-3, 1e-3)


# -- warm-up --------------------------------------------------------------------------------------


def test_warm_up_lasts_until_the_time_is_steady() -> None:
    gpu = Gpu(1e-4, idle=6.0)
    timing = measure(gpu, QUICK, tracker=tracker(gpu))
    assert timing.steady and not timing.cold
    assert timing.seconds == pytest.approx(1e-4, rel=0.02)
    assert len(timing.rounds) == 30


def test_short_calls_share_a_reading() -> None:
    gpu = Gpu(1e-6)
    assert measure(gpu, QUICK).calls in (100, 101)
    assert measure(Gpu(1e-2), QUICK).calls == 1


def test_a_long_call_gets_fewer_readings() -> None:
    assert len(measure(Gpu(0.5), QUICK).rounds) == 6


def test_an_unsteady_time_is_said_to_be() -> None:
    growth = itertools.count()
    assert not measure(passing(lambda n: 1e-3 * 1.01 ** next(growth) * n), QUICK).steady


# -- cold -----------------------------------------------------------------------------------------


def test_a_cold_device_is_found_by_the_probe() -> None:
    gpu = Gpu(1e-4, idle=5.7, ramp=1e9)  # the clock does not rise at all
    timing = measure(gpu, Effort(warm=0.0, rounds=6), tracker=tracker(gpu))
    assert "5.7 times slower" in timing.cold
    assert not timing.steady


def test_a_device_that_warms_up_meanwhile_is_found_by_its_trend() -> None:
    gpu = Gpu(1e-4, idle=1.2, ramp=4e-3)
    timing = measure(gpu, Effort(warm=0.0, rounds=30), tracker=Tracker(lambda: 1.0, 1.0))
    assert "faster while they were timed" in timing.cold


@pytest.mark.parametrize("seed", range(20))
def test_a_warm_device_is_not_called_cold(seed: int) -> None:
    gpu = Gpu(1e-4, noise=0.01)
    gpu.rng = np.random.default_rng(seed)
    timing = measure(gpu, QUICK, tracker=tracker(gpu))
    assert timing.cold == "" and timing.steady


def test_the_verdict_is_about_one_case() -> None:
    gpu = Gpu(1e-4, idle=5.0, ramp=1e9)
    watch = tracker(gpu)
    assert measure(gpu, Effort(warm=0.0, rounds=6), tracker=watch).cold
    gpu.slow = 1.0
    assert not measure(gpu, QUICK, tracker=watch).cold


def in_passes(seed: int, seconds: float, places: float = 0.004, count: int = 5) -> Timing:
    """A run of several passes: each place in memory has its own speed, each reading its noise."""
    rng = np.random.default_rng(seed)
    blocks = (
        seconds
        * (1 + places * rng.normal(size=(count, 1)))
        * (1 + 0.004 * rng.normal(size=(count, 10)))
    )
    blocks[rng.integers(0, count, 2), 3] *= 1.5
    rounds = tuple(map(float, blocks.ravel()))
    return Timing(rounds, 10, "timestamps", 0.3, blocks=count, passes=(1,) * count)


def test_a_kernel_of_two_speeds_repeats() -> None:
    """Each block is fast or slow: the mean of many agrees where medians would not."""

    def run(seed: int) -> Timing:
        rng, before = np.random.default_rng(seed), None
        for _ in range(5):
            before = measure(
                passing(lambda n: n * 1e-4 * (1.06 if rng.random() < 0.5 else 1.0)),
                Effort(warm=0.0, rounds=1, blocks=1, reading=0.0), before=before,
            )  # fmt: skip
        assert before is not None and before.places == 5
        return before

    times = [run(seed).seconds for seed in range(100)]
    assert np.std(times) < 0.0125 * np.mean(times)


def test_a_steady_kernel_gets_one_block_for_each_pass() -> None:
    gpu, before = Gpu(1e-4), None
    for _ in range(3):
        before = measure(gpu, QUICK.once(), before=before)
    assert before is not None
    assert (before.passes, before.blocks, len(before.rounds)) == ((1, 1, 1), 3, 30)


def test_blocks_that_disagree_are_noise() -> None:
    rounds = (1e-4,) * 10 + (1.1e-4,) * 10 + (1e-4,) * 10
    half = pytest.approx(student(0.975, 2) * 0.1 / 3 / 1.0333, rel=0.01)
    assert Timing(rounds, 1, "timestamps", 0.3, blocks=3).noise == half
    assert Timing(rounds, 1, "timestamps", 0.3, blocks=3, passes=(1, 1, 1)).noise == half
    # Blocks of one pass share a place: many of them make its mean no surer.
    many = Timing(rounds + rounds[10:20] * 9, 1, "timestamps", 0.3, blocks=12, passes=(1, 1, 10))
    assert many.noise == pytest.approx(0.0587 / 2 * student(0.975, 2), rel=0.01)
    assert Timing(rounds[:3], 1, "timestamps", 0.3).noise == 0.0
    wide = (1e-4, 1.1e-4) * 15
    assert Timing(wide, 1, "timestamps", 0.3, blocks=3).noise == pytest.approx(0.05, rel=0.1)


# -- reports --------------------------------------------------------------------------------------


def full() -> Report:
    found = report(
        result("f32-4096x4096", readings(0, 1e-4), peers={
            "torch": readings(1, 2e-4), "ort": "onnx is not installed",
        }),
        result("f16-8x8", Timing((1e-3,) * 6, 1, "timestamps", 0.0, False, "the device ran 5 times "
                                 "slower than when it is warm")),
    )  # fmt: skip
    found.failed["cpy f32-4 wgpu"] = "3 of 4 elements are wrong"
    return found


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    full().save(path)
    again = Report.load(path)
    for r, kept in zip(full().results, again.results, strict=True):
        assert kept.key == r.key and kept.counts == r.counts and kept.check == r.check
        assert kept.timing.rounds == pytest.approx(r.timing.rounds, rel=1e-3)
        assert kept.timing.cold == r.timing.cold
        assert kept.peers.keys() == r.peers.keys()
    assert again.results[0].peers["ort"] == "onnx is not installed"
    assert again.results[0].ratio("torch") == pytest.approx(2.0, rel=0.02)
    again.save(path)
    assert Report.load(path).results == again.results
    assert again.ceilings == full().ceilings
    assert (again.meta, again.failed) == (full().meta, full().failed)
    path.write_text('{"format": 99}')
    with pytest.raises(PyKernelsError, match="format 99"):
        Report.load(path)
    path.write_text("[]")
    with pytest.raises(PyKernelsError, match="no report"):
        Report.load(path)


def test_tables_say_ratio_cold_skipped_and_failed() -> None:
    for lines in (list(table(full())), list(markdown(full()))):
        text = "\n".join(lines)
        row = next(line for line in lines if "f32-4096x4096" in line)
        assert "2.00" in row or "2.01" in row or "1.99" in row  # x torch
        assert any("f16-8x8" in line and "COLD" in line and "unsteady" in line for line in lines)
        assert "ort skipped for 1 case of softmax: onnx is not installed" in text
        assert "FAILED cpy f32-4 wgpu: 3 of 4 elements are wrong" in text
        assert "copy 4000 GB/s" in text and "60 TFLOP/s" in text
        assert "x torch" in next(
            line for line in lines if "TFLOP/s  share" in line or "| gpu us |" in line
        )


def test_a_time_lies_within_its_noise_as_often_as_it_says() -> None:
    """Two standard errors of five passes hold 88 %."""
    runs = [in_passes(seed, 1e-4) for seed in range(1000)]
    held = sum(abs(t.seconds / 1e-4 - 1) <= t.noise for t in runs)
    assert abs(held / 1000 - 0.95) < 0.02


def test_a_ratio_has_an_interval_or_says_that_it_has_none() -> None:
    ours, torch = in_passes(0, 1e-4), in_passes(1, 2e-4)
    known = report(result("a", ours, peers={"torch": torch}))
    found = known.results[0].interval("torch")
    assert found is not None and 1.9 < found.low < found.ratio < found.high < 2.1
    assert found.ratio == pytest.approx(known.results[0].ratio("torch"), rel=1e-3)
    for some in (table, markdown):
        text = "\n".join(some(known))
        assert re.search(r"\b[12]\.\d\d ±\d\.\d%", text) and "no interval" not in text
    row = next(csv.DictReader(as_csv(known).splitlines()))
    assert float(row["x torch low"]) < float(row["x torch"]) < float(row["x torch high"])

    single = report(result("a", ours, peers={"torch": readings(1, 2e-4)}))
    assert single.results[0].interval("torch") is None
    for some in (table, markdown):
        text = "\n".join(some(single))
        assert re.search(r"\b[12]\.\d\d\*", text) and "no interval where *: torch" in text
    row = next(csv.DictReader(as_csv(single).splitlines()))
    assert row["x torch"] and row["x torch low"] == row["x torch high"] == ""


def test_share_is_of_the_nearer_ceiling() -> None:
    assert CEILINGS.limit(8, 0, False) == 2e-12
    assert CEILINGS.limit(8, 6000, False) == 1e-10
    assert Ceilings(**CEILINGS.record() | {"fill": 8e12}).limit(8, 0, True) == 1e-12


def test_the_plot_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from pykernels.bench.plots import plot

    plot(full(), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "Roofline" in text and "softmax" in text and "A GPU" in text
    with pytest.raises(PyKernelsError, match="nothing to plot"):
        plot(report(), tmp_path / "b.svg")


def test_a_reading_of_nothing_does_not_ask_for_thousands_of_calls() -> None:
    asked: list[int] = []

    def sample(n: int) -> float:  # as the difference of two chains may be
        asked.append(n)
        return 0.0 if len(asked) < 4 else n * 1e-3

    measure(passing(sample), QUICK)
    assert max(asked) <= 64


def test_reports_become_one() -> None:
    torch, dawn = readings(5, 2e-4), readings(6, 1e-4)
    old = report(
        result("both", readings(0, 1e-4), peers={"torch": torch, "dawn": dawn, "ort": "why not"}),
        result("old", readings(1, 1e-4)),
    )
    new = report(result("both", readings(2, 0.5e-4)), result("new", readings(3, 1e-4)))
    new.meta["date"] = "2026-11-22 12:00"
    new.ceilings["wgpu"] = Ceilings(**CEILINGS.record() | {"copy": 2e12})
    one = merge([old, new])
    found = {r.id: r for r in one.results}
    assert set(found) == {"both", "old", "new"}
    assert found["both"].timing == new.results[0].timing
    assert found["both"].peers == {"torch": torch}
    assert found["old"].limit == (1 << 30) / 2e12
    assert one.meta["date"] == "2026-11-22 12:00"
    assert one.meta["note"] == (
        "1 cases are of earlier runs (2026-11-21 12:00); "
        "peers of 1 cases are of earlier runs (2026-11-21 12:00)"
    )
    new.meta["note"] = "3 cases are left out"
    assert merge([new]).meta["note"] == "3 cases are left out"
    assert merge([old]).meta["note"] == "" and old.results[1].limit == 1e-4
    new.meta["driver"] = "2.0"
    with pytest.raises(PyKernelsError, match=r"differ in driver: 1\.0 and 2\.0"):
        merge([old, new])


WIDE = Path(__file__).parents[2] / "bench" / "results" / "nvidia-h200" / "results.json"


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_a_terminal_and_keep_case_error_and_noise(width: int) -> None:
    report = Report.load(WIDE)
    lines = list(table(report, width))
    assert max(map(len, lines)) <= width
    said = next(line for line in lines if line.startswith("no room for call x torch"))
    assert "--markdown" in said
    names = next(line for line in lines if line.startswith("  case"))
    assert {"gpu", "error", "±"} <= {*names.split()}
    for r in report.results:
        assert any(line.startswith(f"  {r.id} ") for line in lines)
    assert {r.kernel for r in report.results} <= {*lines}
    wide = list(table(report, 1000))
    assert not any("no room" in line for line in wide)
    assert any(line.startswith("kernel  ") and "±" in line for line in wide)


def test_what_a_run_has_can_be_measured_again() -> None:
    report = Report.load(WIDE)
    found = [(c.kernel, c.id) for c in again(report)]
    assert sorted(found) == sorted({(r.kernel, r.id) for r in report.results})
    first = report.results[0]
    asked = [
        ("softmax", "f16-3x7", "f16", (3, 7)),
        ("set_rows", "f32xi32>f16-5x9", "f32xi32>f16", (5, 9)),
    ]
    gone = [("softmax", "f16-3x7-sideways", "f16", (3, 7)), ("paint", "f32-4", "f32", (4,))]
    report.results = [
        replace(first, kernel=k, id=name, dtype=dtype, shape=shape)
        for k, name, dtype, shape in (*asked, *gone)
    ]
    assert [(c.kernel, c.id) for c in again(report)] == [(k, name) for k, name, _, _ in asked]
