"""What a person meets each day: paths, settings, signals, figures, and files that are whole."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click.testing
import pytest

import pykernels as pk
from pykernels.bench.cases import problem
from pykernels.bench.clock import Effort
from pykernels.bench.report import Report
from pykernels.bench.run import Runner
from pykernels.cli import main
from tests.bench.test_command import ended_with_a_verdict
from tests.bench.test_statistics import full, in_passes, report, result

gpu = pytest.mark.gpu


def command(*args: str, code: int = 0) -> str:
    done = click.testing.CliRunner().invoke(main, ["bench", *args])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def quick(dev: pk.Device) -> list[str]:
    return ["--device", dev.info["name"], "--engine", dev.engine, "--warmup", "0", "--rounds", "2"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--json", "FILE/a.json"], "there is no folder"), (["--json", "FOLDER"], "is a directory"),
        (["--plot", "a.bmp"], "a figure ends with .svg, .png, .pdf"),
        (["--save", "FILE"], "there is no folder"), (["--time", "0"], "--time"),
        (["--rounds", "-1"], "--rounds"), (["--warmup", "-1"], "--warmup"),
        (["--edge", "-1"], "--edge"), (["--shape", "0x4"], "--shape must have no 0"),
        (["--list", "--only", "nothing"], "no case is left"),
        (["--against", "/no/python", "--json", "FILE/a.json"], "there is no folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str
) -> None:
    monkeypatch.setattr(pk, "Device", None)
    (tmp_path / "file").write_text("")
    paths = {"FILE": tmp_path / "file", "FOLDER": tmp_path}
    for word, path in paths.items():
        args = [a.replace(word, str(path)) for a in args]
    assert said in command("fill", *args, code=2)


@gpu
def test_a_peer_that_a_kernel_has_not_is_named(dev: pk.Device) -> None:
    told = command("batch_norm", "--peers", "naive", "--edge", "8", *quick(dev), code=2)
    assert "no peer naive of batch_norm" in told
    both = ["batch_norm", "softmax", "--edge", "8", "--only", "f32", "--time", "0.001"]
    assert "no peer naive of batch_norm;" in command(*both, "--peers", "naive", *quick(dev))


@gpu
def test_a_run_beside_one_file_has_its_settings(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    path = str(tmp_path / "a.json")
    where = ["--device", dev.info["name"]]
    command(
        "fill", "--shape", "9x40", "--passes", "2", "--cache", "hot", "--no-timestamps",
        "--json", path, *where, *quick(dev)[2:],
    )  # fmt: skip
    new = tmp_path / "b.json"
    done = click.testing.CliRunner().invoke(
        main, ["bench", "--compare", path, "--json", str(new), "--rounds", "3", *where]
    )
    assert ended_with_a_verdict(done), done.output
    a, b = (Report.load(Path(p)) for p in (path, new))
    assert b.settings == a.settings | {"rounds": 3}
    assert b.results[0].cache == "hot" and b.results[0].timing.clock == "wall"
    assert b.meta["command"].startswith("pykernels bench ")
    assert {*b.meta["command"].split()} >= {"--rounds", "3", "--compare", path}


def test_settings_of_older_files() -> None:
    old = report()
    old.meta |= {"passes": 5, "rounds": 30}
    assert old.settings == {"passes": 5, "rounds": 30, "unchecked": False, "engine": "wgpu"}


@gpu
def test_a_report_says_where_it_was_made(dev: pk.Device) -> None:
    found = Runner([dev], effort=Effort(warm=0.0, rounds=1)).report.meta
    native = {"wgpu": "wgpu-native", "dawn": "Dawn"}[dev.engine]
    assert re.fullmatch(r"\d+(\.\d+)+", found["versions"][native])  # Dawn's is a date and a time
    assert {"cpu", "load", "tuning", "commit", "driver"} <= found.keys()


@gpu
def test_the_file_is_whole_after_each_case(dev: pk.Device, tmp_path: Path) -> None:
    path, seen = tmp_path / "a.json", list[int]()

    def say(line: str) -> None:
        seen.append(len(Report.load(path).results) if path.exists() else 0)

    cases = [problem("fill", (n,), "float32") for n in (8, 16, 32)]
    effort = Effort(warm=0.0, rounds=1, blocks=1, reading=0.0)
    Runner([dev], effort=effort, keep=path, say=say).run(cases)
    assert seen == [0, 1, 2] and len(Report.load(path).results) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_line_is_written_again_where_it_changed(tmp_path: Path) -> None:
    one = result("a", in_passes(0, 1e-4))
    found = report(one, result("b", in_passes(1, 1e-4)))
    found.save(tmp_path / "a.json")
    one.timing = in_passes(2, 2e-4)
    one.peers["torch"] = in_passes(3, 1e-4)
    found.save(tmp_path / "a.json")
    again = Report.load(tmp_path / "a.json")
    assert again.results[0].seconds == pytest.approx(2e-4, rel=0.02)
    assert [*again.results[0].peers] == ["torch"]


@gpu
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_loses_nothing(
    dev: pk.Device, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    path = tmp_path / "a.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "pykernels", "bench", "fill", "memset", "softmax", "--edge", "16",
         "--json", str(path), *quick(dev)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    until = time.monotonic() + 120
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    told, _ = process.communicate(timeout=120)
    assert process.returncode == code, told
    kept = Report.load(path)
    assert kept.results and kept.meta["note"] == "interrupted" and "interrupted" in told


def test_a_figure_has_bars_a_log_axis_and_a_colour_for_each_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    from pykernels.bench import plots

    bars: list[Any] = []
    real = Axes.errorbar

    def errorbar(self: Any, x: Any, y: Any, yerr: Any, **look: Any) -> Any:
        bars.append((look["ecolor"], yerr))
        assert (self.get_xscale(), self.get_yscale()) == ("log", "log")
        return real(self, x, y, yerr=yerr, **look)

    monkeypatch.setattr(Axes, "errorbar", errorbar)
    found = full()
    found.results = [result("f32-8x8", in_passes(i, 1e-4), kernel=f"kernel{i}") for i in range(20)]
    found.results += [result("f32-8x8", in_passes(0, 1e-4), kernel="other", engine="dawn")]
    plots.plot(found, tmp_path / "a.svg")
    assert len({colour for colour, _ in bars}) == 20 and all(bar > 0 for _, bar in bars)
    text = (tmp_path / "a.svg").read_text()
    assert "engine wgpu" in text and "other" not in text
