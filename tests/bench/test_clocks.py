"""Which clock a time is by: the GPU's, the host's, or none that two times have in common."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click.testing
import pytest

import pykernels as pk
from pykernels.bench.cases import problem
from pykernels.bench.clock import Effort, Timing, clock_of
from pykernels.bench.compare import compare
from pykernels.bench.report import Report
from pykernels.bench.run import Runner
from pykernels.bench.table import as_csv, markdown
from pykernels.cli import main
from pykernels.runtime import engine
from tests.bench.test_statistics import report, result

GPU = Timing((1e-4,) * 6, 1, "timestamps", 0.3, blocks=3, loops=(2e-4,) * 5)
WALL = Timing((3e-4,) * 6, 1, "wall", 0.3, blocks=3, loops=(3e-4,) * 5)
UNTRUSTED = replace(GPU, loops=(0.5e-4,) * 5)
UNKNOWN = replace(GPU, loops=())  # no loops were timed


def row(found: Report) -> dict[str, str]:
    head, _, line = (x for x in markdown(found) if x.startswith("|"))
    cells = ([c.strip() for c in x.split("|")[1:-1]] for x in (head, line))
    return dict(zip(*cells, strict=True))


@pytest.mark.parametrize(
    ("timing", "gpu", "call", "seconds", "flags"),
    [
        (GPU, "100", "200", 1e-4, ""), (WALL, "", "300", 3e-4, ""), (UNKNOWN, "100", "", 1e-4, ""),
        (UNTRUSTED, "100", "50", 0.5e-4, "untrusted"),
    ],
)  # fmt: skip
def test_a_time_stands_under_its_clock(
    timing: Timing, gpu: str, call: str, seconds: float, flags: str
) -> None:
    found = result("x", timing)
    cells = row(report(found))
    assert (cells["gpu us"], cells["call us"], cells[""]) == (gpu, call, flags)
    assert found.seconds == seconds and found.rate == (1 << 30) / seconds
    assert cells["share"] == f"{1e-4 / seconds:.2f}"
    [line] = csv.DictReader(as_csv(report(found)).splitlines())
    assert (line["gpu us"], line["call us"], line["flags"]) == (gpu, call, flags)


@pytest.mark.parametrize(
    ("ours", "peer", "ratio"),
    [(GPU, GPU, 1), (GPU, WALL, 1.5), (WALL, GPU, 2 / 3), (WALL, WALL, 1), (UNKNOWN, WALL, None),
     (WALL, UNKNOWN, None), (UNTRUSTED, GPU, 4)],
)  # fmt: skip
def test_ratios_are_by_a_clock_that_both_have(
    ours: Timing, peer: Timing, ratio: float | None
) -> None:
    found = result("x", ours, peers={"torch": peer})
    assert found.ratio("torch") == (None if ratio is None else pytest.approx(ratio))
    cells = row(report(found))
    assert cells.get("x torch", "") == ("" if ratio is None else f"{ratio:.2f}*")  # of one pass


def test_a_pair_without_a_common_clock_is_not_comparable() -> None:
    assert clock_of([GPU, UNKNOWN]) == "gpu" and clock_of([GPU, WALL]) == "call"
    assert clock_of([UNKNOWN, WALL]) == ""
    found = compare(report(result("x", UNKNOWN)), report(result("x", WALL)))
    assert [c.kind for c in found.changes] == ["no common clock"] and found.exit_code == 3


def test_host_time_of_format_1_is_read_as_the_time_of_a_call(tmp_path: Path) -> None:
    found = report(result("x", replace(WALL, loops=())))
    found.save(tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text()) | {"format": 1}
    for name in ("loops", "per_call", "passes"):
        data["results"][0]["timing"].pop(name, None)
    (tmp_path / "a.json").write_text(json.dumps(data))
    cells = row(Report.load(tmp_path / "a.json"))
    assert (cells["gpu us"], cells["call us"]) == ("", "300")


def test_a_small_excess_of_gpu_time_is_a_place_in_memory() -> None:
    """Loops of one pass do not know of other places: 3 % is no reason to disbelieve."""
    assert replace(GPU, loops=(0.98e-4,) * 5).trusted
    assert not replace(GPU, loops=(0.98e-4,) * 15).trusted
    assert not replace(GPU, loops=(0.95e-4,) * 5).trusted


def test_small_rates_are_in_gflops_and_the_file_has_all_digits() -> None:
    slow = result("x", replace(GPU, rounds=(10.0,) * 6, loops=()))
    assert row(report(slow))["GFLOP/s"] == "0.215"
    assert "TFLOP/s" in row(report(result("x", GPU)))


# -- a device without timestamp queries -----------------------------------------------------------


@pytest.fixture
def untimed(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[pk.Device]:
    """A device that was opened without the feature."""
    monkeypatch.setattr(engine, "_WANTED", ("shader-f16", "subgroups"))
    with pk.Device(dev.info["name"], engine=dev.engine) as found:
        assert "timestamp-query" not in found.features
        yield found


@pytest.mark.gpu
def test_without_the_feature_everything_is_by_the_hosts_clock(untimed: pk.Device) -> None:
    r = Runner([untimed], effort=Effort(warm=0.0, rounds=2, reading=0.0), say=lambda line: None,
               parts=True)  # fmt: skip
    r.ceilings(1 << 16)
    [found] = r.run([problem("softmax", (9, 40), "float32")]).results
    assert found.timing.clock == "wall" and found.clock == "call"
    assert found.timing.gpu == 0 and found.seconds == found.timing.per_call > 0
    assert found.parts == ()  # parts have GPU times alone
    cells = row(r.report)
    assert cells["gpu us"] == "" and float(cells["call us"]) > 0 and float(cells["share"]) >= 0


@pytest.mark.gpu
def test_readings_are_long_by_the_hosts_clock(dev: pk.Device, untimed: pk.Device) -> None:
    assert Effort.of(untimed).reading >= 2e-3
    if dev.info["type"] == "CPU":
        assert Effort.of(dev).reading >= 1e-2


@pytest.mark.gpu
def test_the_command_does_without_timestamps(dev: pk.Device, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    args = ["bench", "fill", "--shape", "64x64", "--device", dev.info["name"], "--engine",
            dev.engine, "--warmup", "0", "--rounds", "2", "--no-timestamps"]  # fmt: skip
    done = click.testing.CliRunner().invoke(
        main, [*args, "--json", str(path), "--csv", str(tmp_path / "a.csv")]
    )
    assert done.exit_code == 0, done.output
    [kept] = json.loads(path.read_text())["results"]
    assert kept["timing"]["clock"] == "wall"
    [line] = csv.DictReader((tmp_path / "a.csv").read_text().splitlines())
    assert line["gpu us"] == "" and float(line["call us"]) > 0
