"""examples/many_gpus: two workers, each on a software driver of its own, one of them killed in the
middle; nothing is lost.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

PROGRAM = ROOT / "examples" / "many_gpus" / "many_gpus.py"
PARTS = 4**3  # of 4 x 4 tiles, each with 4 parts along k


def drivers() -> str:
    """The manifests of both drivers, as ci/drivers.sh finds them; else that of this column."""
    named = ("PYKERNELS_ICD_LAVAPIPE", "PYKERNELS_ICD_SWIFTSHADER")
    found = [os.environ[name] for name in named if os.environ.get(name)]
    return os.pathsep.join(found) or os.environ.get("VK_ICD_FILENAMES", "")


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_a_worker_dies_and_nothing_is_lost(tmp_path: Path) -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one column has both drivers")
    if not os.environ.get("CI"):
        pytest.importorskip("distributed")
    both = drivers()
    env = {
        **os.environ, "VK_ICD_FILENAMES": both, "VK_DRIVER_FILES": both, "PYTHONPATH": str(ROOT),
        "DASK_TEMPORARY_DIRECTORY": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, PROGRAM, "--workers", "2", "--size", "512", "--side", "128", "--kill"],
        env=env, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^killed worker [01]: ", done.stdout, re.MULTILINE), done.stdout
    assert f"\n{PARTS} of {PARTS} parts, 0 s left" in done.stdout
    found = re.findall(r"^ *(\d+) parts by worker ([01]): (.+)$", done.stdout, re.MULTILINE)
    assert sum(int(n) for n, _, _ in found) == PARTS
    assert {worker for _, worker, _ in found} == {"0", "1"}
    adapters = {adapter for _, _, adapter in found}
    assert len(adapters) == min(len(both.split(os.pathsep)), 2), found
    assert done.stdout.rstrip().endswith("the product agrees with numpy")


def test_what_it_refuses() -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("distributed")
    for args, said in (
        (["--size", "100", "--side", "64"], "--size must be a multiple of --side"),
        (["--scheduler", "tcp://nowhere:1", "--kill"], "it goes without --scheduler"),
    ):
        done = subprocess.run([sys.executable, PROGRAM, *args], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr
