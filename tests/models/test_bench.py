"""bench/onnx_files.py runs on a software driver, and times nothing that is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench import onnx_files
from bench.onnx_files import CPU, TABLE, WEBGPU, Bench
from bench.rows import Row
from pykernels.bench import onnx as peer
from pykernels.bench.case import CheckFailed

pytestmark = pytest.mark.gpu
OURS = ("uncaptured", "captured", "GPU")
NAME = "ch_ppocr_mobile_v2.0_cls_infer"


@pytest.fixture
def file(models: Path) -> Path:
    """A small network; one column is enough for what runs on the host."""
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("on lavapipe")
    return models / f"{NAME}.onnx"


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime's provider for the CPU in the place of the one for WebGPU."""
    monkeypatch.setattr(peer, "PROVIDER", "CPUExecutionProvider")


def one(dev: pk.Device, file: Path) -> Row:
    (row,) = Bench(dev, small=True, rounds=1).run([file], {})
    return row


def test_a_row(dev: pk.Device, file: Path, on_cpu: None, tmp_path: Path) -> None:
    row = one(dev, file)
    assert row.name == f"{NAME} 2x3x48x192" and not row.notes
    assert 0 < row.error <= row.allowed == 1e-4 and row.dispatches > 20
    assert all(row.ms(c) > 0 for c in (*OURS, WEBGPU, CPU))
    results = tmp_path / "networks.json"
    TABLE.save(results, dev, [row])
    assert json.loads(results.read_text(encoding="utf-8"))["rows"][row.name]["times"] == row.times
    assert f"{row.ms(WEBGPU) / row.ms('captured'):.2f}" == TABLE.line(row).split()[-1]


def test_without_the_provider(
    dev: pk.Device, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Its column is empty, and the head says why."""
    monkeypatch.setattr(peer, "PROVIDER", "NoSuchProvider")
    monkeypatch.setattr(pk, "Device", lambda **_: _Kept(dev))
    results = tmp_path / "networks.json"
    onnx_files.main([str(file), "--shape", "x=1,3,48,192", "--rounds", "1", "--save", str(results)])
    head, *_, line = capsys.readouterr().out.splitlines()
    assert "ORT WebGPU is empty: this onnxruntime has no WebGPU provider" in head
    (row,) = json.loads(results.read_text(encoding="utf-8"))["rows"].values()
    assert row["name"] in line and [*row["times"]] == [*OURS, CPU]


class _Kept:
    """A device that its block does not close."""

    def __init__(self, dev: pk.Device) -> None:
        self.dev = dev

    def __enter__(self) -> pk.Device:
        return self.dev

    def __exit__(self, *_: object) -> None:
        pass


def test_a_wrong_output_has_no_time(
    dev: pk.Device, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = onnx_files.Program._read

    def wrong(*args: Any) -> dict[str, Any]:
        return {n: a * np.float32(1.0002) for n, a in read(*args).items()}

    monkeypatch.setattr(onnx_files.Program, "_read", wrong)
    with pytest.raises(CheckFailed, match=rf"{NAME} 2x3x48x192: .* 2\.00e-04 of the norm"):
        one(dev, file)


def test_a_wrong_capture_has_no_time(
    dev: pk.Device, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call is right."""
    monkeypatch.setattr(onnx_files.Program, "write", _write_once(onnx_files.Program.write))
    with pytest.raises(CheckFailed, match="TOO LARGE"):
        one(dev, file)


def _write_once(write: Any) -> Any:
    calls: list[object] = []

    def written(self: Any, inputs: Any) -> None:
        calls.append(inputs)
        write(self, inputs if len(calls) == 1 else {n: 0 * a for n, a in inputs.items()})

    return written


def test_what_the_peer_is_off_by(
    dev: pk.Device, file: Path, on_cpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = peer.opened

    def wrong(*args: Any, **options: Any) -> Any:
        session = opened(*args, **options)
        return SimpleNamespace(run=lambda *a: [1.01 * y for y in session.run(*a)])

    monkeypatch.setattr(peer, "opened", wrong)
    row = one(dev, file)
    assert row.ms(WEBGPU) > 0
    (note,) = row.notes
    assert note.startswith("ORT WebGPU: ") and "1.00e-02 of the norm" in note


def test_a_peer_that_does_not_start(
    dev: pk.Device, file: Path, on_cpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise peer.Skipped("ONNX Runtime: no adapter")

    monkeypatch.setattr(peer, "opened", refuse)
    row = one(dev, file)
    assert row.notes == ["ONNX Runtime: no adapter"] and not row.ms(WEBGPU) and row.ms(CPU) > 0
