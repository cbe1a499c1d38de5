"""The examples run and check themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.gpu
@pytest.mark.parametrize("name", [p.name for p in sorted(EXAMPLES.glob("*.py"))])
def test_example_runs(name: str) -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe").startswith("dawn"):
        pytest.skip("the examples import wgpu")
    if name.startswith("pygfx") and not os.environ.get("CI"):
        pytest.importorskip("pygfx")
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr
