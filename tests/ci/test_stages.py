"""The stages that CI runs side by side: what is said of each, and of one that died."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.checkout import ROOT
from tests.conftest import ONCE

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

STAGES = """
set -euo pipefail
. ci/stages.sh
stage_good() { echo said; }
stage_bad() { return 3; }
stage_killed() { kill -KILL "$BASHPID"; }
"""
# What bash answers where it used the number of an ended stage again, for a process of its own.
FORGETFUL = 'wait() { builtin wait "$1" || true; builtin wait 1; }'


def stages(*lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", "\n".join([STAGES, *lines, "print_summary"])],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("bash", ["", FORGETFUL], ids=["remembers", "forgets"])
def test_stages_that_end_well(bash: str) -> None:
    done = stages("stage_other() { sleep 0.1; }", bash, "run_stages good other")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\n== good\nsaid\n" in done.stdout
    assert [line.partition(" in ")[0] for line in done.stdout.splitlines()[-2:]] == [
        "good: passed", "other: passed",
    ]  # fmt: skip


@pytest.mark.parametrize("bash", ["", FORGETFUL], ids=["remembers", "forgets"])
def test_stages_that_fail_or_die(bash: str) -> None:
    done = stages(bash, "run_stages killed bad good")
    assert done.returncode == 1
    assert "not a child" not in done.stderr
    assert [line.partition(" in ")[0] for line in done.stdout.splitlines()[-3:]] == [
        "killed: FAILED (exit status killed)", "bad: FAILED (exit status 3)", "good: passed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "once", "has"),
    [
        ("wgpu-lavapipe", "wgpu-swiftshader", False),
        ("wgpu-swiftshader", "wgpu-swiftshader", True),
        ("wgpu-lavapipe", "", True),
    ],
)
def test_what_no_driver_changes_runs_in_one_column(column: str, once: str, has: bool) -> None:
    env = {**os.environ, "PYKERNELS_TEST_COLUMN": column, "PYKERNELS_TEST_ONCE": once}
    for name in ("PYKERNELS_TEST_FULL", *(() if once else ("PYKERNELS_TEST_ONCE",))):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu",
         "--collect-only", "tests/api/test_words.py", "tests/api/test_int64.py"],
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert ("test_words.py::" in done.stdout) == has, done.stdout
    assert "test_int64.py::" in done.stdout


def test_files_of_one_column_are_there_and_run_anywhere() -> None:
    for name in ONCE:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "PYKERNELS_TEST_COLUMN" not in text and "COLUMN" not in text, name
