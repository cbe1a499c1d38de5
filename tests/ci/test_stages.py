"""The stages that CI runs side by side: what is said of each, and of one that died."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.checkout import ROOT
from tests.conftest import ONCE, ONCE_AN_ENGINE

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


def test_numpy_has_one_thread_in_a_stage() -> None:
    done = stages(
        'stage_threads() { echo "threads: $OPENBLAS_NUM_THREADS"; }', "run_stages threads"
    )
    assert "\nthreads: 1\n" in done.stdout, done.stderr


@pytest.mark.parametrize("bash", ["", FORGETFUL], ids=["remembers", "forgets"])
def test_stages_that_fail_or_die(bash: str) -> None:
    done = stages(bash, "run_stages killed bad good")
    assert done.returncode == 1
    assert "not a child" not in done.stderr
    assert [line.partition(" in ")[0] for line in done.stdout.splitlines()[-3:]] == [
        "killed: FAILED (exit status killed)", "bad: FAILED (exit status 3)", "good: passed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "once", "once_an_engine", "once_of_all"),
    [
        ("wgpu-lavapipe", "wgpu-swiftshader", False, False),
        ("wgpu-swiftshader", "wgpu-swiftshader", True, True),
        ("dawn-swiftshader", "wgpu-swiftshader", True, False),
        ("wgpu-lavapipe", "", True, True),
    ],
)
def test_what_no_driver_changes_runs_in_one_column(
    column: str, once: str, once_an_engine: bool, once_of_all: bool
) -> None:
    env = {**os.environ, "PYKERNELS_TEST_COLUMN": column, "PYKERNELS_TEST_ONCE": once}
    for name in ("PYKERNELS_TEST_FULL", *(() if once else ("PYKERNELS_TEST_ONCE",))):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu",
         "--collect-only", "tests/api/test_words.py", "tests/runtime/test_memory.py",
         "tests/api/test_int64.py", "tests/kernels/linalg/test_solve_tri.py"],
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert ("test_words.py::" in done.stdout) == once_of_all, done.stdout
    assert ("test_memory.py::" in done.stdout) == once_an_engine, done.stdout
    assert "test_int64.py::" in done.stdout
    # Of a file that every column has, the tests marked `once`.
    assert ("::test_every_triangle[" in done.stdout) == once_of_all, done.stdout
    assert "::test_solve_tri_matches_its_reference[" in done.stdout


# A test that skips itself on a column might run on none.
def test_files_of_one_column_are_there_and_run_anywhere() -> None:
    assert not ONCE & ONCE_AN_ENGINE
    for name in ONCE | ONCE_AN_ENGINE:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "TEST_COLUMN" not in text or name in READ_COLUMN, name


# These read the column for the name of its engine, or for a wait that lavapipe does not have.
READ_COLUMN = {
    f"tests/{n}.py" for n in ("api/test_cli", "bench/test_command", "runtime/test_transfers")
}


def test_browser_tests_are_in_one_folder() -> None:
    """Their stage of ci/test.sh collects no other."""
    marked = {
        path.parent.name
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark" + ".browser" in path.read_text(encoding="utf-8")
    }
    assert marked == {"browser"}
