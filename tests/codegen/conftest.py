"""A copy of the checkout to build in, and Python in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAVE = shutil.ignore_patterns(
    ".git", ".venv*", ".tools", ".*_cache", "__pycache__", "_generated", "dist", "build", ".bench*"
)
Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout without what is generated."""
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEAVE)
    return copy


@pytest.fixture
def python() -> Python:
    """Runs Python in a folder, with the package of that folder."""

    def run(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", *args],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), **env},
            capture_output=True,
            text=True,
        )

    return run
