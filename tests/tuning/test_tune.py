"""`pykernels tune` on a driver: a few small problems are measured, the table is written, taken by
the next device, checked, put aside; what is interrupted goes on."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import pykernels as pk
from pykernels.bench.tune import direct
from pykernels.bench.tune import run as tune_run
from pykernels.bench.tune.meter import Kept, Meter
from pykernels.bench.tune.problems import Problem
from pykernels.cli import main
from pykernels.plans.matmul.select import GemmChoice
from pykernels.tuning import path_of

pytestmark = pytest.mark.gpu

FEW = [
    Problem("mul_mat", (32, 1, 64)), Problem("mul_mat", (64, 48, 32)),
    Problem("flash_attn", (1, 2, 2, 1, 64, 64)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYKERNELS_TUNING", "")
    monkeypatch.setattr(tune_run, "problems", lambda small, halves: FEW)
    monkeypatch.setattr(tune_run, "others", lambda count, limits, **_: FEW[1:])
    some = [k._replace(values=k.values[:2]) for k in direct.KEYS if k.path[0] == "copy"]
    monkeypatch.setattr(direct, "KEYS", some)
    yield tmp_path


def tune(dev: pk.Device, *args: str) -> Result:
    device = ("--device", dev.info["name"].split()[0], "--engine", dev.engine)
    return CliRunner().invoke(main, ["tune", *device, *args])


def test_a_device_is_measured_and_its_table_taken(dev: pk.Device) -> None:
    done = tune(dev)
    assert done.exit_code == 0, done.output
    path = path_of(tune_run.adapter_of(dev))
    assert str(path) in done.output and "times the best forced choice" in done.output
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    assert data["measured"]["driver"] == dev.info["driver"]
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # measurements are not kept

    assert tune(dev, "--export").output == path.read_text(encoding="utf-8")
    report = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert path.stem in {a["tuning"]["name"] for a in report["adapters"]}
    with pk.Device(dev.info["name"].split()[0], engine=dev.engine) as other:
        assert other._context.caps.tuning.name == path.stem
    checked = tune(dev, "--check", "2")
    assert checked.exit_code == 0, checked.output
    assert f"the table {path.stem}: choices for 2 problems" in checked.output

    assert tune(dev, "--off").exit_code == 0 and not path.is_file()
    assert "it is off" in CliRunner().invoke(main, ["doctor"]).output
    assert tune(dev, "--on").exit_code == 0 and path.is_file()


def test_without_a_table_there_is_none_to_show(dev: pk.Device) -> None:
    for option in ("--export", "--off", "--on"):
        assert tune(dev, option).exit_code == 2
    assert "do not go together" in tune(dev, "--off", "--export").output


def test_what_is_interrupted_goes_on(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was measured before is not measured again."""
    timed: list[Any] = []
    time = Meter.time

    def counted(self: Meter, sample: Any) -> float:
        if len(timed) == 12:  # behind the device's rate and copies of several sizes
            raise KeyboardInterrupt
        timed.append(sample)
        return time(self, sample)

    monkeypatch.setattr(Meter, "time", counted)
    stopped = tune(dev)
    assert stopped.exit_code == 1 and "the same command goes on" in stopped.output
    path = path_of(tune_run.adapter_of(dev))
    part = path.with_suffix(".part.json")
    known = json.loads(part.read_text(encoding="utf-8"))["found"]
    assert len(known) >= 5 and not path.is_file()

    first, again = len(timed), list[Any]()

    def noted(self: Meter, sample: Any) -> float:
        again.append(sample)
        return time(self, sample)

    monkeypatch.setattr(Meter, "time", noted)
    done = tune(dev)
    assert done.exit_code == 0, done.output
    assert f"{len(known)} measurements of an interrupted run are used" in done.output
    assert path.is_file() and not part.exists() and first == 12 and again


def test_times_of_something_else_count_for_nothing(tmp_path: Path) -> None:
    """Another driver or version, and a broken file."""
    path = tmp_path / "x.part.json"
    Kept(path, {"driver": "1"}).get("a", lambda: 2.0)
    assert Kept(path, {"driver": "1"}).found == {"a": 2.0}
    assert Kept(path, {"driver": "2"}).found == {}
    for broken in ("", "[", "{}", '{"of": {"driver": "1"}, "found": {"a": "x"}}'):
        path.write_text(broken, encoding="utf-8")
        assert Kept(path, {"driver": "1"}).found == {}


def test_a_choice_that_the_call_refuses_has_no_time(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = Meter(dev, Kept(None, {}))
    p = Problem("mul_mat", (64, 64, 64))
    assert meter.seconds(p, GemmChoice("mul_mat/32"))

    def refused(self: Meter, sample: Any) -> float:
        raise pk.LimitError("too large")

    monkeypatch.setattr(Meter, "time", refused)
    assert meter.seconds(p, GemmChoice("mul_mat/32", 2)) is None
    assert meter.seconds(p, GemmChoice("mul_mat/32"))  # known
