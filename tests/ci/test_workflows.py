"""Workflows of GitHub, ours and those to copy: actionlint finds nothing in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT

WORKFLOWS = [
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
    ROOT / "examples" / "validate.yml",
    ROOT / "examples" / "own_package" / "kernels.yml",
]


@pytest.fixture(scope="module")
def actionlint() -> str:
    path = os.pathsep.join([str(ROOT / ".tools" / "bin"), os.environ.get("PATH", "")])
    found = shutil.which("actionlint", path=path)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("actionlint is missing: ci/setup.sh installs it")
        pytest.skip("actionlint is missing: ci/setup.sh installs it")
    return found


def run(actionlint: str, file: Path) -> subprocess.CompletedProcess[str]:
    command = [actionlint, "-no-color", "-oneline", str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda f: f.name)
def test_workflows(file: Path, actionlint: str) -> None:
    done = run(actionlint, file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_workflow_is_found(actionlint: str, tmp_path: Path) -> None:
    broken = tmp_path / "publish.yml"
    text = WORKFLOWS[0].read_text(encoding="utf-8")
    broken.write_text(text.replace("id-token: write", "id-tokens: write"), encoding="utf-8")
    done = run(actionlint, broken)
    assert done.returncode == 1 and 'unknown permission scope "id-tokens"' in done.stdout


def test_only_one_job_may_publish() -> None:
    """By its identity, which PyPI checks; there is no token, and no other permission."""
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    assert text.count("id-token: write") == 1 and "\npermissions: {}\n" in text
    assert "secrets." not in text and "password" not in text
    _, publish = text.split("\n  publish:\n")
    assert "id-token: write" in publish and "actions/checkout" not in publish
