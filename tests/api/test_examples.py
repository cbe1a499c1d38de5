"""The examples run and check themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# These need files of networks: tests/models runs them.
WITH_FILES = ("onnx_model.py", "ocr.py")
# These take minutes: tests/examples runs them at a small size.
LONG = ("burgers.py", "curvature.py", "gradient_penalty.py", "many_gpus.py", "mixed_precision.py")
# Folders that tests/first_hour runs from the wheel.
FOLDERS = ("own_kernels", "own_package")
NAMES = [
    str(path.relative_to(EXAMPLES))
    for path in sorted(EXAMPLES.rglob("*.py"))
    if "__main__" in path.read_text(encoding="utf-8")
    and path.stem != "from_torch"
    and path.name not in (*WITH_FILES, *LONG)
    and path.relative_to(EXAMPLES).parts[0] not in FOLDERS
]


@pytest.mark.gpu
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_example_runs(name: str, tmp_path: Path) -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one column runs the examples, which import wgpu")
    if name.startswith("pygfx") and not os.environ.get("CI"):
        pytest.importorskip("pygfx")
    saves = ["--save", str(tmp_path)] if name in ("lenet.py", "transformer.py") else []
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *saves], capture_output=True, text=True, timeout=1100
    )
    assert run.returncode == 0, run.stdout + run.stderr
    if saves:
        assert (tmp_path / "loss.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("digits.py", "matplotlib"), ("lenet.py", "matplotlib"), ("transformer.py", "matplotlib"),
        ("many_gpus/many_gpus.py", "distributed"), ("ocr.py", "onnx"), ("onnx_model.py", "onnx"),
        ("pygfx_points.py", "pygfx"), ("own_kernels/particles.py", "pygfx"),
    ],
)  # fmt: skip
def test_an_example_says_which_package_is_missing(name: str, package: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.modules[{package!r}] = None\n"
        f"sys.path[:0] = [{str((EXAMPLES / name).parent)!r}, {str(EXAMPLES)!r}]\n"
        f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.count("\n") == 1, run.stderr
    assert package in run.stderr and "pip install" in run.stderr
