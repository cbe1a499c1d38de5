"""ci/readme.py: a figure in README or docs that differs from bench/results fails the check."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
CASE = "softmax f32-65536x4096"


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, at home in an empty folder with the committed results."""
    spec = importlib.util.spec_from_file_location("readme_of_test", ROOT / "ci" / "readme.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = tmp_path / module.RESULTS / "results.json"
    results.parent.mkdir(parents=True)
    results.write_bytes((ROOT / module.RESULTS / "results.json").read_bytes())
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["readme.py", "--check"])
    return module


def page(readme: ModuleType, text: str, name: str = "README.md") -> Path:
    path: Path = readme.ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if name != "README.md":
        (readme.ROOT / "README.md").write_text("", encoding="utf-8")
    return path


def seconds() -> float:
    data = json.loads((ROOT / "bench/results/nvidia-h200/results.json").read_text())
    (found,) = (r for r in data["results"] if f"{r['kernel']} {r['id']}" == CASE)
    return float(found["timing"]["seconds"])


def test_a_figure_is_what_was_measured(
    readme: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = page(readme, f"softmax takes ?<!-- bench: {CASE} us --> us.\n", "docs/guide/fast.md")
    assert readme.main() == 1
    assert "docs/guide/fast.md: tables or figures are out of date" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["readme.py"])
    assert readme.main() == 0
    right = path.read_text()
    assert right == f"softmax takes {seconds() * 1e6:.0f}<!-- bench: {CASE} us --> us.\n"
    monkeypatch.setattr(sys, "argv", ["readme.py", "--check"])
    assert readme.main() == 0
    path.write_text(right.replace(f"{seconds() * 1e6:.0f}", f"{seconds() * 1e6 + 1:.0f}"))
    assert readme.main() == 1


@pytest.mark.parametrize(
    "quantity",
    ["ms", "GB/s", "TB/s", "TFLOP/s", "share", "share %", "± %", "error", "x torch", "torch us"],
)
def test_quantities(readme: ModuleType, quantity: str) -> None:
    assert float(readme.figure(f"{CASE} {quantity}")) > 0


def test_the_wall_clock_of_a_call(readme: ModuleType) -> None:
    path = readme.ROOT / readme.RESULTS / "results.json"
    data = json.loads(path.read_text())
    (found,) = (r for r in data["results"] if f"{r['kernel']} {r['id']}" == CASE)

    def measured(ours: list[float], torch: list[float]) -> None:
        found["timing"]["loops"], found["peers"]["torch"]["loops"] = ours, torch
        path.write_text(json.dumps(data))
        readme.report.cache_clear()

    measured([], [])  # before there was such a time
    with pytest.raises(readme.Unknown):
        readme.figure(f"{CASE} call us")
    measured([2e-3, 4e-3, 3e-3], [6e-3])
    assert readme.figure(f"{CASE} call ms") == "3"
    assert readme.figure(f"{CASE} torch call ms") == "6"
    assert readme.figure(f"{CASE} call x torch") == "2.00"


def test_ceilings(readme: ModuleType) -> None:
    path = readme.ROOT / readme.RESULTS / "results.json"
    copy = json.loads(path.read_text())["ceilings"]["wgpu"]["copy"] / 1e9
    assert readme.figure("ceiling copy GB/s") == f"{copy:.0f}"
    assert readme.figure("ceiling copy TB/s") == f"{copy / 1e3:.2f}"
    assert float(readme.figure("ceiling fma32")) > 1


@pytest.mark.parametrize(
    "mark",
    ["softmax f32-1x1 us", "paint f32-1 us", f"{CASE} furlongs", f"{CASE} x wgpu", "ceiling sky"],
)
def test_what_was_not_measured_is_an_error(
    readme: ModuleType, capsys: pytest.CaptureFixture[str], mark: str
) -> None:
    page(readme, f"1<!-- bench: {mark} --> us\n")
    assert readme.main() == 1
    assert capsys.readouterr().err.startswith("README.md: ")


@pytest.mark.parametrize(
    "text",
    ["in 37 us.", "at 4.2 TB/s", "| 45 TFLOP/s |", "12ms", "1.6 times as fast", "2 times faster"],
)
def test_a_figure_without_a_mark_is_an_error(
    readme: ModuleType, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    page(readme, f"It runs {text}\n")
    assert readme.main() == 1
    assert "has no mark" in capsys.readouterr().err
    page(readme, "")
    page(readme, f"It runs {text}\n", "docs/records/2026-11.md")
    assert readme.main() == 0


@pytest.mark.parametrize(
    "text",
    [
        "`--time 20 us`",
        "```\n20 us\n```",
        "\n    20 us  # shell",
        "20<!-- set --> us",
        "20 users",
        "2 times",
    ],
)
def test_what_is_no_figure(readme: ModuleType, text: str) -> None:
    page(readme, f"{text}\n")
    assert readme.main() == 0


def test_blocks(readme: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["readme.py"])
    path = page(
        readme,
        "<!-- bench: table softmax fill -->\n<!-- end -->\nafter\n",
        "docs/design/softmax.md",
    )
    assert readme.main() == 0
    lines = path.read_text().splitlines()
    rows = [line.split()[1] for line in lines if line.startswith("| ")]
    assert set(rows) == {"kernel", "softmax", "fill"} and lines[-2:] == ["<!-- end -->", "after"]
    main = page(readme, "<!-- bench: main -->\nold\n<!-- end -->\n", "docs/guide/speed.md")
    assert readme.main() == 0
    assert "](../../bench/results/" in main.read_text() and "old" not in main.read_text()
    monkeypatch.setattr(sys, "argv", ["readme.py", "--check"])
    assert readme.main() == 0
    main.write_text(main.read_text().replace("| softmax |", "| softmax  |", 1))
    assert readme.main() == 1


def test_networks(readme: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians of rounds; a column that was not measured is empty; no table before a run."""
    monkeypatch.setattr(sys, "argv", ["readme.py"])
    path = page(readme, "<!-- bench: networks -->\nold\n<!-- end -->\n")
    assert readme.main() == 0 and path.read_text() == "<!-- bench: networks -->\n\n<!-- end -->\n"
    times = {"captured": [2.0, 9.0, 1.0], "torch": [5.0]}
    results = readme.ROOT / readme.NETWORKS
    results.parent.mkdir(parents=True)
    results.write_text(json.dumps({"rows": {"net": {"times": times}}}))
    assert readme.main() == 0
    assert path.read_text().splitlines()[3] == "| net | 2.00 | 5.00 |  | 2.50 |"
    ours = {"times": times}
    ort = {"times": {"captured": [2.0], "ORT WebGPU": [3.0], "ORT CPU": [8.0]}}
    alone = {"times": {"captured": [2.0], "ORT CPU": [8.0]}}
    results.write_text(json.dumps({"rows": {"a": ort, "net": ours, "b": alone}}))
    assert readme.main() == 0
    lines = path.read_text().splitlines()
    assert lines[3] == "| net | 2.00 | 5.00 |  | 2.50 |" and not lines[4]
    assert lines[7:9] == ["| a | 2.00 | 3.00 | 8.00 | 1.50 |", "| b | 2.00 |  | 8.00 |  |"]


def test_readme_shows_a_sweep_once_there_is_one(
    readme: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing before; then its picture, which must be there, and the mean of its calls."""
    path = page(readme, "<!-- bench: sweep -->\n\n<!-- end -->\n")
    assert readme.main() == 0
    results = json.loads((ROOT / readme.RESULTS / "results.json").read_text(encoding="utf-8"))
    some = [r for r in results["results"] if "torch" in r["peers"] and r["id"].startswith("f32")]
    kept = readme.ROOT / f"{readme.SWEEP}.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps(results | {"results": some[:3]}), encoding="utf-8")
    assert readme.main() == 1
    assert "--plot bench/results/sweeps/nvidia-h200.svg" in capsys.readouterr().err
    kept.with_suffix(".svg").write_text("<svg/>", encoding="utf-8")
    assert readme.main() == 1
    assert "run python ci/readme.py" in capsys.readouterr().err
    sys.argv.remove("--check")
    assert readme.main() == 0
    text = path.read_text(encoding="utf-8")
    assert "(bench/results/sweeps/nvidia-h200.svg)" in text
    assert re.search(r"Geometric mean of the [1-3] calls in float32: \d+\.\d\d\.", text)
