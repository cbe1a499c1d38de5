"""ci/gpu.py: what is run first, what is not run again, and what a change undoes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.checkout import ROOT

SOFTMAX, GEMM = "tests/kernels/softmax/test_softmax.py", "tests/kernels/matmul/test_gemm_mma.py"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu", ROOT / "ci" / "gpu.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "gpu", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "hashes", lambda: {"softmax/softmax": "1", "matmul/gemm_mma": "2"})
    monkeypatch.setattr(module, "versions", dict)
    return module


def test_matrix_units_and_changes_come_first(gpu: ModuleType, tmp_path: Path) -> None:
    report = gpu.Report(tmp_path)
    order = report.order([("wgpu", SOFTMAX), ("dawn-matrix", SOFTMAX), ("dawn-matrix", GEMM)])
    assert order[0] == ("dawn-matrix", GEMM)
    report.before = {"softmax/softmax": "0", "matmul/gemm_mma": "2"}
    mul_mat = "tests/kernels/matmul/test_mul_mat.py"
    assert report.order([("wgpu", mul_mat), ("wgpu", SOFTMAX)])[0] == ("wgpu", SOFTMAX)


def test_what_passed_is_not_run_again_until_it_changes(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = gpu.Report(tmp_path)
    found = {SOFTMAX: gpu.Outcome("", passed=3), GEMM: gpu.Outcome("", passed=2, failed=1)}
    report.keep("wgpu", found)
    again = gpu.Report(tmp_path)
    assert again.order([("wgpu", SOFTMAX), ("wgpu", GEMM)]) == [("wgpu", GEMM)]
    assert again.failures(["wgpu"]) == [f"wgpu {GEMM}"] and again.failures(["dawn"]) == []
    assert json.loads((tmp_path / "gpu.json").read_text())["texts"] == again.texts
    monkeypatch.setattr(gpu, "hashes", lambda: {"softmax/softmax": "3", "matmul/gemm_mma": "2"})
    assert gpu.Report(tmp_path).order([("wgpu", SOFTMAX)]) == [("wgpu", SOFTMAX)]


def test_every_gpu_test_is_a_piece(gpu: ModuleType) -> None:
    found = list(gpu.pieces(["dawn-matrix", "wgpu"]))
    assert {("dawn-matrix", GEMM), ("wgpu", GEMM), ("dawn-matrix", gpu.BENCH)} <= set(found)
    assert ("wgpu", gpu.BENCH) not in found
